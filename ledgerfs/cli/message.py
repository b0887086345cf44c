"""``ledgerfs message``: one message by its id."""

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.head_following import with_usable_schema
from ledgerfs.cli.notices import announce_compiling, say_left_out
from ledgerfs.cli.options import bucket_argument
from ledgerfs.cli.output import progress, say
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.cli.shown_rows import ShownRows, rows_shown_options
from ledgerfs.errors import InvalidNameError
from ledgerfs.scan.options import OF_MESSAGES

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.bucket.topic import Topic
    from ledgerfs.scan.message_by_id import Message


@command()
@click.option("--raw", is_flag=True, help="Write only the value, byte for byte.")
@rows_shown_options
@bucket_argument
@click.argument("topic")
@click.argument("message_id", metavar="ID")
@scan_options
@click.pass_context
def message(
    context: click.Context,
    bucket: "Bucket",
    topic: str,
    message_id: str,
    scan: dict[str, Any],
    *,
    raw: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Show one message by its id.

    ID is ledger:entry or ledger:entry:index, as `ledgerfs head` prints it, or Pulsar's ledger:entry:partition:index. An id of a batch
    without an index shows all its messages.

    Exit codes are those of `ledgerfs head`.

    \b
    Examples:
      ledgerfs message s3://tier public/default/orders 129:66:0
      ledgerfs message s3://tier public/default/orders 129:66:0 --raw > value
      ledgerfs message s3://tier public/default/orders 129:66
    """
    if {"key", "start_time", "end_time"} & scan.keys():
        raise click.UsageError("the id selects the message: leave out --key, --start and --end", context)
    with progress() as update:
        bucket.load_catalog(update)
    announce_compiling()
    opened = bucket.topic(topic)
    # Raises for an id without a message. The id of a batch without an index selects all its messages.
    found = _message_of(opened, message_id, {name: scan[name] for name in OF_MESSAGES if name in scan}, is_one=raw)
    if raw:
        assert found is not None  # noqa: S101  (``is_one``)
        _write_raw(found)
        return
    # These import pyarrow and numba, which --help does not need.
    from ledgerfs.scan.few_rows import rows_of_entry
    from ledgerfs.scan.message_id import MessageId

    identity = MessageId.of(message_id)
    place: tuple[int, int, int | None, str | None]
    if found is None:
        partition = None if identity.partition is None else f"{opened.name}-partition-{identity.partition}"
        place = (*identity.last, None, partition if opened.is_partitioned else None)
    else:
        place = (found.ledger_id, found.entry_id, found.batch_index, found.topic)
    rows = ShownRows.of(scan, as_json=as_json, full=full)
    given = {"transactions": "all", **scan}
    made, is_usable = with_usable_schema(partial(opened.scan, rows.names), opened.name, given)
    table, report = rows_of_entry(made, *place)
    rows.write(table.to_batches(), made.schema)
    if say_left_out(report) or not is_usable:
        context.exit(1)


def _message_of(topic: "Topic", message_id: str, options: dict[str, Any], *, is_one: bool) -> "Message | None":
    """Return the message; None for a batch, unless one message is wanted."""
    try:
        return topic.message(message_id, **options)
    except InvalidNameError as error:
        if is_one or not error.reason.startswith("the entry is a batch"):
            raise
        return None


def _write_raw(message: "Message") -> None:
    if message.value is None:
        say("the message has no value: it is a tombstone, or encrypted without a matching private key")
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(message.value)
    sys.stdout.buffer.flush()
