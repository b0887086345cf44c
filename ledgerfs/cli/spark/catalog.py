"""``ledgerfs spark catalog``: list the contents of a bucket, by topic or by ledger."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import notice
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import minute, progress, show, table
from ledgerfs.cli.spark.options import SessionOptions, session_options, storage_argument
from ledgerfs.cli.spark.running import collected_rows, milliseconds, print_rows, run_script, running
from ledgerfs.display import human_size, printable

if TYPE_CHECKING:
    from ledgerfs.spark.runtime.storage import Storage

_COUNTS = ("ledgers", "ledger", "entries", "bytes", "blocks")
_TIMES = ("created", "next_created", "uploaded", "first_publish_time", "last_publish_time")
_HEADS = {"ledger_id": "ledger", "next_created": "next created", "is_sound": "sound",
          "first_publish_time": "first published", "last_publish_time": "last published"}  # fmt: skip
# Columns of a ledger that only JSON and notebooks show.
_NOT_SHOWN = {"uuid", "copy", "object_bytes"}


@command()
@storage_argument
@session_options
@click.option(
    "--by", type=click.Choice(("topic", "ledger")), default="topic", show_default=True, help="Meaning of a row."
)
@click.option(
    "--publish-times", is_flag=True, help="Read the publish times of first and last entries: a few small reads for each ledger."
)  # fmt: skip
@json_option
def catalog(*, storage: "Storage", session: SessionOptions, by: str, publish_times: bool, as_json: bool) -> None:
    """List topics or ledgers with entries, bytes and times.

    "created" is the creation of the ledger in BookKeeper, or of a topic's first ledger; "uploaded" is the last upload. Messages of
    a ledger were published between its creation and that of the next ledger; --publish-times reads the exact times.

    \b
    Examples:
      ledgerfs spark catalog s3://tier
      ledgerfs spark catalog s3://tier --by ledger --json | jq '.[] | select(.is_sound | not)'
      ledgerfs spark catalog s3://tier --publish-times --master spark://host:7077
    """
    with running(session, "ledgerfs catalog") as spark:
        # This imports Spark, an optional dependency.
        from ledgerfs.spark.pipelines.catalog import catalog as catalog_of
        from ledgerfs.spark.runtime.storage import storage_of

        with progress() as update:
            frame = catalog_of(spark, storage, by=by, publish_times=publish_times, progress=update)
        rows = collected_rows(frame)
        bucket = storage_of(spark, storage).bucket()
    if as_json:
        print_rows(rows)
    elif rows:
        _print_table(rows)
    notice(bucket, bucket.catalog)


def _print_table(rows: list[dict[str, Any]]) -> None:
    names = [name for name in rows[0] if name not in _NOT_SHOWN]
    drawn = table(*(_HEADS.get(name, name) for name in names), right=_COUNTS)
    for row in rows:
        drawn.add_row(*(_text(name, row[name]) for name in names))
    show(drawn)


def _text(name: str, value: Any) -> str:  # noqa: ANN401  (a column's)
    if name in _TIMES:
        return minute(milliseconds(value))
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "bytes":
        return human_size(value)
    if name == "ledger_id":
        return str(value)
    return printable(value) if isinstance(value, str) else f"{value:,}"


if __name__ == "__main__":
    # spark-submit runs this module as a script.
    run_script("catalog")
