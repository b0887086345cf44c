"""``ledgerfs spark stats``: count messages, bytes and keys by topic, day and producer."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import notice, say_left_out
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import show, table
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.cli.spark.options import SessionOptions, session_options, storage_argument
from ledgerfs.cli.spark.running import collected_rows, print_rows, run_script, running
from ledgerfs.display import human_size, printable

if TYPE_CHECKING:
    from ledgerfs.spark.runtime.storage import Storage

_BY = {"topic": "topic", "day": "day", "producer": "producer_name"}


def _by(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    names = [name.strip() for name in text.split(",")]
    wrong = [name for name in names if name not in _BY]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is not one of {', '.join(_BY)}")
    return tuple(_BY[name] for name in names)


@command()
@storage_argument
@click.argument("topics", metavar="[TOPIC]...", nargs=-1)
@click.option(
    "--topics", "pattern", metavar="REGEX", help="Only topics whose name matches this regular expression as a whole."
)
@click.option(
    "--by",
    metavar="A,B,…",
    default=",".join(_BY),
    show_default=True,
    callback=_by,
    help="Columns to group by.",
)
@scan_options
@session_options
@json_option
@click.pass_context
def stats(
    context: click.Context, *, storage: "Storage", topics: tuple[str, ...], pattern: str | None, by: tuple[str, ...], scan: dict[str, Any],
    session: SessionOptions, as_json: bool,
) -> None:  # fmt: skip
    """Count messages, bytes and keys by topic, day and producer.

    Days are in UTC. Counts all topics if none is named. Reads and decompresses every message. The number of keys is approximate:
    its standard error is 5 %.

    Exit code 1: damaged entries were not counted (--on-corrupt skip). Each is listed.

    \b
    Examples:
      ledgerfs spark stats s3://tier
      ledgerfs spark stats s3://tier persistent://public/default/orders --start 2026-11-01 --by day
      ledgerfs spark stats s3://tier --topics 'persistent://public/default/.*' --json --master spark://host:7077
    """
    if topics and pattern is not None:
        raise click.UsageError("pass either TOPIC or --topics, not both")
    scan.pop("columns", None)
    with running(session, "ledgerfs stats") as spark:
        # This imports Spark, an optional dependency.
        from ledgerfs.spark.pipelines.stats import stats as stats_of
        from ledgerfs.spark.runtime.storage import storage_of
        from ledgerfs.spark.source.left_out import by_topic, left_out_accumulator

        left_out = left_out_accumulator(spark)
        rows = collected_rows(
            stats_of(spark, storage, topics=topics or None, topics_pattern=pattern, by=by, left_out=left_out, **scan)
        )
        bucket = storage_of(spark, storage).bucket()
    if as_json:
        print_rows(rows)
    elif rows:
        _print_table(rows, by)
    notice(bucket, bucket.catalog)
    is_damaged = [say_left_out(one) for one in by_topic(left_out.value)]
    if any(is_damaged):
        context.exit(1)


def _print_table(rows: list[dict[str, Any]], by: tuple[str, ...]) -> None:
    heads = [name for name, column in _BY.items() if column in by]
    heads.sort(key=lambda head: by.index(_BY[head]))
    drawn = table(*heads, "messages", "bytes", "keys", right=("messages", "bytes", "keys"))
    for row in rows:
        group = (printable(str(row[name])) for name in by)
        drawn.add_row(*group, f"{row['messages']:,}", human_size(row["bytes"]), f"{row['keys']:,}")
    show(drawn)


if __name__ == "__main__":
    # spark-submit runs this module as a script.
    run_script("stats")
