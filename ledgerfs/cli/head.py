"""``ledgerfs head``: the first messages of a topic."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.head_following import show_following, start_of, with_usable_schema
from ledgerfs.cli.message_text import message_lines
from ledgerfs.cli.notices import announce_compiling, say_left_out
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress, terminal_width
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.scan.options import CHOICES, Order

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from ledgerfs.bucket.bucket import Bucket

_OF_EVERY_MESSAGE = ("ledger_id", "entry_id", "batch_index", "publish_time")
_SHOWN = ("event_time", "key", "key_bytes", "ordering_key", "properties", "value")


@command()
@click.option("-n", "messages", default=10, show_default=True, type=click.IntRange(min=0), help="Number of messages.")
@click.option(
    "--full", is_flag=True, help="Show long values in full; a terminal gets one line for each value otherwise."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each message, as in jsonl files.")
@click.option(
    "--order",
    type=click.Choice(CHOICES["order"]),
    default=CHOICES["order"][0],
    show_default=True,
    help="Order of a partitioned topic: partition by partition, or merged by publish time.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Show new messages of a live cluster until Ctrl-C; with -n from the topic's beginning on.",
)
@click.option(
    "--from",
    "begin",
    metavar="latest|earliest|TIME|ID",
    help="Start of --follow: latest (default), earliest, a time (ISO 8601, UTC), or the id of a message.",
)
@bucket_argument
@click.argument("topic")
@scan_options
@click.pass_context
def head(
    context: click.Context,
    bucket: "Bucket",
    topic: str,
    messages: int,
    scan: dict[str, Any],
    *,
    order: Order,
    full: bool,
    as_json: bool,
    follow: bool,
    begin: str | None,
) -> None:
    """Show the first messages of a topic.

    Reads only the entries of these messages. Values are columns by the topic's saved schema (ledgerfs schemas), or bytes without
    one. Bytes are shown as text, with \\x.. for bytes that are not UTF-8 or would control the terminal.

    Exit code 1: damage, values that could not be decoded (shown as null), or an unusable saved schema (all values are shown as
    bytes). Values of messages without a schema version are null; this is reported, but not an error.

    \b
    Examples:
      ledgerfs head -n 5 s3://tier persistent://public/default/orders
      ledgerfs head s3://tier public/default/orders --start 2026-11-01T12:00:00Z --columns key,value
      ledgerfs head s3://tier public/default/orders --json | jq .key
      ledgerfs head s3://tier public/default/partitioned --order publish_time
      ledgerfs head s3://tier public/default/orders --values typed --schema-version each
      ledgerfs head s3://tier public/default/events --values json --columns publish_time,value
      ledgerfs head --follow pulsar+zk://zk1:2181 public/default/orders --json | jq .key
      ledgerfs head --follow --from 2026-11-01T12:00:00Z pulsar+zk://zk1:2181 public/default/orders
    """
    start = start_of(context, begin, follow=follow, scan=scan)
    with progress() as update:
        bucket.load_catalog(update)
    announce_compiling()
    columns: tuple[str, ...] | None = scan.pop("columns", None)
    shown = columns or (*_SHOWN, *(("txn_id", "txn_state") if scan.get("transactions") == "all" else ()))
    names = columns if as_json else tuple(dict.fromkeys((*_OF_EVERY_MESSAGE, *shown)))
    width = None if full else terminal_width()

    def write(batches: "Iterable[pa.RecordBatch]", schema: "pa.Schema") -> None:
        if as_json:
            _print_json(batches)
        else:
            _print_text(batches, _with_fields(shown, names or (), schema.names), width=width)

    opened = bucket.topic(topic)
    if follow:
        following, is_usable = with_usable_schema(partial(opened.follow, names, start=start), opened.name, scan)
        is_damaged = show_following(following, lambda batches: write(batches, following.schema))
    else:
        # This imports pyarrow and numba, which --help does not need.
        from ledgerfs.scan.report import ScanReport

        report = ScanReport()
        given = {**scan, "order": order, "limit": messages}
        found, is_usable = with_usable_schema(partial(opened.scan, names), opened.name, given)
        write(found.batches(report), found.schema)
        is_damaged = say_left_out(report)
    if is_damaged or not is_usable:
        context.exit(1)


def _with_fields(shown: tuple[str, ...], asked: tuple[str, ...], names: list[str]) -> tuple[str, ...]:
    """Return the columns to show; where fields of values are columns, they replace ``value``."""
    fields = tuple(name for name in names if name not in asked)
    if "value" in names or not fields:
        return tuple(name for name in shown if name in names)
    return tuple(one for name in shown for one in (fields if name == "value" else (name,)))


def _print_json(batches: "Iterable[pa.RecordBatch]") -> None:
    # These import numba and pyarrow, which --help does not need.
    from ledgerfs.messages.text.json_lines import json_lines

    sys.stdout.flush()
    for batch in batches:
        sys.stdout.buffer.write(json_lines(batch))
    sys.stdout.buffer.flush()


def _print_text(batches: "Iterable[pa.RecordBatch]", shown: tuple[str, ...], *, width: int | None) -> None:
    from ledgerfs.scan.python_values import python_rows

    for batch in batches:
        for row in python_rows(_readable(batch)):
            click.echo("\n".join(message_lines(row, shown, width)))


def _readable(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Return the batch with times and nested typed values as text."""
    import pyarrow as pa

    from ledgerfs.messages.decode.table_schema import is_message_column
    from ledgerfs.messages.text.json_lines import is_bytes, plain_texts

    columns = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        # Producers write times before the year 1 and after 9999, which Python cannot represent.
        is_kept = (is_message_column(field) and not pa.types.is_timestamp(field.type)) or is_bytes(field.type)
        texts = None if is_kept else plain_texts(field.name, column)
        columns.append(column if texts is None else texts)
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)
