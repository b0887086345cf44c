"""The group of the Spark commands. Spark itself is imported when one of them runs."""

import click

from ledgerfs.cli.spark.catalog import catalog
from ledgerfs.cli.spark.export import export
from ledgerfs.cli.spark.stats import stats
from ledgerfs.cli.spark.verify import verify

_EPILOG = """\b
Examples:
  ledgerfs spark verify s3://tier
  ledgerfs spark catalog s3://tier --by topic
  ledgerfs spark export s3://tier --to s3://lake/orders --topics 'persistent://public/default/.*'
  ledgerfs spark stats s3://tier --start 2026-11-01 --master spark://host:7077

\b
The same as a script, where spark-submit says what the cluster is:
  spark-submit --master yarn …/ledgerfs/spark/verify.py s3://tier
  python -m ledgerfs.spark.pipelines.verify s3://tier
"""


@click.group(epilog=_EPILOG)
def spark() -> None:
    """Work on a whole bucket with Apache Spark, on this machine or on a cluster.

    Needs the extra of Python's package (pip install 'ledgerfs[spark]') and Java 17. Credentials of S3 belong in the environment or in
    Spark's own settings (spark.hadoop.fs.s3a.…), where every worker finds them.
    """


for command in (export, verify, catalog, stats):
    spark.add_command(command)
