"""The group of the Spark commands. Spark itself is imported when one of them runs."""

import click

from ledgerfs.cli.commands import LazyCommand, LazyGroup

_EPILOG = """\b
Examples:
  ledgerfs spark verify s3://tier
  ledgerfs spark catalog s3://tier --by topic
  ledgerfs spark export s3://tier --to s3a://lake/orders --topics 'persistent://public/default/.*'
  ledgerfs spark stats s3://tier --start 2026-11-01 --master spark://host:7077

\b
The same as a script, where spark-submit says what the cluster is:
  spark-submit --master yarn …/ledgerfs/cli/spark/verify.py s3://tier
  python -m ledgerfs.cli.spark.verify s3://tier
"""


_COMMANDS = (
    LazyCommand(
        "export", "ledgerfs.cli.spark.export:export", "Export topics as Parquet, which Spark, Hive, DuckDB and pyarrow read as one table."
    ),
    LazyCommand("verify", "ledgerfs.cli.spark.verify:verify", "Check that every offloaded ledger of a bucket is whole, many at a time."),
    LazyCommand(
        "catalog", "ledgerfs.cli.spark.catalog:catalog", "Show what is in a bucket: topics or ledgers, their entries, bytes and times."
    ),
    LazyCommand(
        "stats", "ledgerfs.cli.spark.stats:stats",
        "Count messages, bytes of their values, and different keys, by topic, day (UTC) and producer; of all topics if none is named.",
    ),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def spark() -> None:
    """Work on a whole bucket with Apache Spark, on this machine or on a cluster.

    Needs the extra of Python's package (pip install 'ledgerfs[spark]') and Java 17. Credentials of S3 belong in the environment or in
    Spark's own settings (spark.hadoop.fs.s3a.…), where every worker finds them.
    """
