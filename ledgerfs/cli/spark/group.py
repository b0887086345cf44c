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
The same as a script, on the cluster that spark-submit chooses:
  spark-submit --master yarn …/ledgerfs/cli/spark/verify.py s3://tier
  python -m ledgerfs.cli.spark.verify s3://tier
"""


_COMMANDS = (
    LazyCommand(
        "export", "ledgerfs.cli.spark.export:export", "Export topics as one Parquet table."
    ),
    LazyCommand("verify", "ledgerfs.cli.spark.verify:verify", "Check all offloaded ledgers, many at a time."),
    LazyCommand(
        "catalog", "ledgerfs.cli.spark.catalog:catalog", "List topics or ledgers with entries, bytes and times."
    ),
    LazyCommand(
        "stats", "ledgerfs.cli.spark.stats:stats",
        "Count messages, bytes and keys by topic, day and producer.",
    ),
)  # fmt: skip


@click.group(cls=LazyGroup, lazy=_COMMANDS, epilog=_EPILOG)
def spark() -> None:
    """Work on a whole bucket with Apache Spark.

    Needs pip install '.[spark]' in a clone and Java 17. Put S3 credentials in the environment or in Spark's settings
    (spark.hadoop.fs.s3a.…), where all workers find them.
    """
