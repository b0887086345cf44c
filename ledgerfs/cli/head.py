"""``ledgerfs head``: the first messages of a topic."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.head_following import show_following, start_of, with_usable_schema
from ledgerfs.cli.notices import announce_compiling, say_left_out
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress, say
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.cli.shown_rows import ShownRows, rows_shown_options
from ledgerfs.scan.options import CHOICES, Order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.topic import Topic


@command()
@click.option(
    "-n", "messages", default=10, show_default=True, type=click.IntRange(min=0), help="Number of messages; 0 shows all."
)
@rows_shown_options
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
    rows = ShownRows.of(scan, as_json=as_json, full=full)
    opened = bucket.topic(topic)
    if follow:
        following, is_usable = with_usable_schema(partial(opened.follow, rows.names, start=start), opened.name, scan)
        is_damaged = show_following(following, lambda batches: rows.write(batches, following.schema))
    else:
        # This imports pyarrow and numba, which --help does not need.
        from ledgerfs.scan.report import ScanReport

        report = ScanReport()
        given = {**scan, "order": order, "limit": messages or None}
        found, is_usable = with_usable_schema(partial(opened.scan, rows.names), opened.name, given)
        rows.write(_counted(found.batches(report), opened, messages), found.schema)
        is_damaged = say_left_out(report)
    if is_damaged or not is_usable:
        context.exit(1)


def _counted(batches: "Iterable[pa.RecordBatch]", topic: "Topic", messages: int) -> "Iterator[pa.RecordBatch]":
    """Yield the rows; report in a terminal that there may be more than so many."""
    shown = 0
    for batch in batches:
        shown += batch.num_rows
        yield batch
    if messages and shown == messages and sys.stderr is not None and sys.stderr.isatty():
        entries = sum(ledger.ref.entries for ledger in topic.ledgers)
        say(f"these are the first {messages:,} messages, of a topic with {entries:,} entries; -n 0 shows all")
