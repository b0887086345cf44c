"""``ledgerfs tail``: the last messages of a topic."""

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.head_following import with_usable_schema
from ledgerfs.cli.notices import announce_compiling, say_left_out
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.cli.shown_rows import ShownRows, rows_shown_options

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket


@command()
@click.option("-n", "messages", default=10, show_default=True, type=click.IntRange(min=1), help="Number of messages.")
@rows_shown_options
@bucket_argument
@click.argument("topic")
@scan_options
@click.pass_context
def tail(
    context: click.Context,
    bucket: "Bucket",
    topic: str,
    messages: int,
    scan: dict[str, Any],
    *,
    full: bool,
    as_json: bool,
) -> None:
    """Show the last messages of a topic.

    Reads the blocks with the last entries, and earlier ones only if they have too few messages. Messages of several partitions are
    sorted by publish time. `ledgerfs head --follow` shows new messages of a live cluster.

    Exit codes are those of `ledgerfs head`.

    \b
    Examples:
      ledgerfs tail -n 5 s3://tier public/default/orders
      ledgerfs tail s3://tier public/default/orders --key customer-7 --json
    """
    with progress() as update:
        bucket.load_catalog(update)
    announce_compiling()
    # This imports pyarrow and numba, which --help does not need.
    from ledgerfs.scan.few_rows import last_rows

    rows = ShownRows.of(scan, as_json=as_json, full=full)
    opened = bucket.topic(topic)
    found, is_usable = with_usable_schema(partial(opened.scan, rows.names), opened.name, scan)
    table, reports = last_rows(found, messages)
    rows.write(table.to_batches(), found.schema)
    if sum([say_left_out(report) for report in reports]) or not is_usable:
        context.exit(1)
