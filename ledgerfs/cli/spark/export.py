"""``ledgerfs spark export``: topics as Parquet, written by Spark."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import say_left_out
from ledgerfs.cli.output import say
from ledgerfs.cli.parameter_types import Size
from ledgerfs.cli.scan_options import parsed_names, scan_options
from ledgerfs.cli.spark.options import SessionOptions, session_options, storage_argument
from ledgerfs.cli.spark.running import run_script, running

if TYPE_CHECKING:
    from ledgerfs.spark.runtime.storage import Storage


@command()
@storage_argument
@session_options
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="Only this topic; may be repeated.")
@click.option(
    "--topics", "pattern", metavar="PATTERN", help="Only topics whose name matches this regular expression as a whole."
)
@click.option("--to", required=True, metavar="URL", help="New folder, by Spark's URL: s3a://lake/events.")
@click.option(
    "--partition-by", metavar="A,B,…", callback=parsed_names,
    help="Subfolders by topic, date, hour (of publish_time, UTC), or a column of texts or integers.",
)  # fmt: skip
@click.option(
    "--partition-bytes", type=Size(), metavar="SIZE", help="About how many bytes a task reads; default 128MiB."
)
@scan_options
@click.pass_context
def export(
    context: click.Context,
    /,
    *,
    storage: "Storage",
    session: SessionOptions,
    topics: tuple[str, ...],
    pattern: str | None,
    to: str,
    partition_by: tuple[str, ...] | None,
    partition_bytes: int | None,
    scan: dict[str, Any],
) -> None:
    """Export topics as one Parquet table.

    Spark writes the files: --to is a new folder of a Hadoop filesystem. A complete folder contains _SUCCESS. Spark, Hive, DuckDB and
    pyarrow read the folder as one table.

    Exit code 1: damaged entries, undecodable values, or ledgers are missing in the files. Each is listed.

    \b
    Examples:
      ledgerfs spark export s3://tier --to s3a://lake/events --partition-by topic,date
      ledgerfs spark export s3://tier --topics 'persistent://public/golden/.*' --to /data/golden
      ledgerfs spark export s3://tier --topic public/default/orders --to /data/orders --start 2026-11-01
      ledgerfs spark export s3://tier --topic public/default/orders --to s3a://lake/orders --values typed --flatten
      ledgerfs spark export s3://tier --to s3a://lake/all --master spark://host:7077
    """
    with running(session, "ledgerfs export") as spark:
        # These import Spark, an optional dependency, pyarrow and numba.
        from pyspark.sql import Observation

        from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
        from ledgerfs.spark.pipelines.export import export as export_to
        from ledgerfs.spark.source.left_out import by_topic, left_out_accumulator

        left_out, observation = left_out_accumulator(spark), Observation()
        export_to(
            spark, storage, to, topics=topics or None, topics_pattern=pattern, partition_by=partition_by or (),
            left_out=left_out, observation=observation,
            partition_bytes=DEFAULT_PARTITION_BYTES if partition_bytes is None else partition_bytes, **scan,
        )  # fmt: skip
        messages = observation.get["messages"]
    is_damaged = [say_left_out(one) for one in by_topic(left_out.value)]
    say(f"{to}: {messages:,} messages")
    if any(is_damaged):
        context.exit(1)


if __name__ == "__main__":
    # spark-submit runs this module as a script.
    run_script("export")
