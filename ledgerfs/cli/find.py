"""``ledgerfs find``: messages by key, property, text or field."""

from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.time_arguments import milliseconds_of
from ledgerfs.cli.commands import command
from ledgerfs.cli.head_following import with_usable_schema
from ledgerfs.cli.notices import announce_compiling, say_left_out
from ledgerfs.cli.options import bucket_argument, parsed_texts
from ledgerfs.cli.output import progress, say
from ledgerfs.cli.scan_options import scan_options
from ledgerfs.cli.shown_rows import ShownRows, rows_shown_options
from ledgerfs.display import human_size
from ledgerfs.errors import InvalidOptionError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

    from ledgerfs.bucket.bucket import Bucket

_AROUND_MS = 10 * 60 * 1000


def _named(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    return [pair for text in texts for pair in parsed_texts((text,)).items()]


@command()
@click.option(
    "-n", "messages", default=0, type=click.IntRange(min=0), help="Stop after so many hits; 0 (default) finds all."
)
@click.option("--text", metavar="TEXT", help="Only values that contain this text.")
@click.option(
    "--regex",
    metavar="REGEX",
    help="Only values that contain a match (RE2 on bytes: outside of ASCII, only literal text).",
)
@click.option(
    "--property",
    "properties",
    metavar="NAME=TEXT",
    multiple=True,
    callback=_named,
    help="Only with this property; may be repeated.",
)
@click.option(
    "--value-path",
    "fields",
    metavar="A.B=TEXT",
    multiple=True,
    callback=_named,
    help="Only with this field of typed values; may be repeated.",
)
@click.option("--around", metavar="TIME", help="Only messages of ten minutes before and after this time.")
@rows_shown_options
@bucket_argument
@click.argument("topic")
@scan_options
@click.pass_context
def find(  # noqa: PLR0917  (click's)
    context: click.Context,
    bucket: "Bucket",
    topic: str,
    messages: int,
    scan: dict[str, Any],
    text: str | None,
    regex: str | None,
    properties: list[tuple[str, str]],
    fields: list[tuple[str, str]],
    around: str | None,
    *,
    full: bool,
    as_json: bool,
) -> None:
    """Show the messages of a topic that meet all conditions.

    Hits are printed as they are found; the last line on standard error says how much was read. --text and --regex search the bytes
    of values, so that these are shown as bytes. --start, --end and --around read only the ledgers and blocks of that time.

    Exit codes are those of `ledgerfs head`; finding nothing is no error.

    \b
    Examples:
      ledgerfs find s3://tier public/default/orders --key customer-7 --around '2026-11-21 14:03'
      ledgerfs find s3://tier public/default/orders --text 'order 42' --start -2d -n 1
      ledgerfs find s3://tier public/default/orders --regex 'order [0-9]+2' --property region=eu --json
      ledgerfs find s3://tier public/default/orders --value-path customer.id=7
    """
    if around is not None:
        if "start_time" in scan or "end_time" in scan:
            raise click.UsageError("--around is a time instead of --start and --end", context)
        middle = milliseconds_of(around)
        assert middle is not None  # noqa: S101  (a text)
        scan |= {"start_time": middle - _AROUND_MS, "end_time": middle + _AROUND_MS}
    if text is not None or regex is not None:
        if fields or scan.get("values", "bytes") != "bytes":
            raise click.UsageError(
                "--text and --regex search bytes, so --value-path and --values cannot be used", context
            )
        scan["values"] = "bytes"
    elif fields:
        scan.setdefault("values", "typed")
    with progress() as update:
        bucket.load_catalog(update)
    announce_compiling()
    # These import pyarrow and numba, which --help does not need.
    import pyarrow as pa

    from ledgerfs.scan.report import ScanReport

    rows, report = ShownRows.of(scan, as_json=as_json, full=full), ScanReport()
    given = {**scan, "where": _condition(text, regex, properties, fields), "limit": messages or None}
    opened = bucket.topic(topic)
    found, is_usable = with_usable_schema(partial(opened.scan, rows.names), opened.name, given)
    hits, before = 0, bucket.stats()

    def counted(batch: "pa.RecordBatch") -> "pa.RecordBatch":
        nonlocal hits
        hits += batch.num_rows
        return batch

    try:
        rows.write(map(counted, found.batches(report)), found.schema)
    except pa.ArrowException as error:
        raise InvalidOptionError(f"the values cannot be searched like this: {error}", key=opened.name) from error
    is_damaged = say_left_out(report)
    read = bucket.stats()
    end = "" if report.is_whole or hits < messages else f"; -n {messages} stopped the search"
    size = human_size(read.bytes_used - before.bytes_used)
    say(f"{hits:,} hits; read {size} in {read.requests - before.requests:,} requests{end}")
    if is_damaged or not is_usable:
        context.exit(1)


def _condition(
    text: str | None, regex: str | None, properties: list[tuple[str, str]], fields: list[tuple[str, str]]
) -> "pc.Expression | None":
    """Return the condition of some options; None without one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    made: list[pc.Expression] = []
    if text is not None:
        made.append(pc.match_substring(pc.field("value"), text))
    if regex is not None:
        try:
            pc.match_substring_regex(pa.array([""]), regex)
        except pa.ArrowInvalid as error:
            raise InvalidOptionError(str(error), key="--regex") from error
        made.append(pc.match_substring_regex(pc.field("value"), regex))
    for name, value in properties:
        # A message may have a name twice; Arrow finds the first and the last.
        first, last = (pc.map_lookup(pc.field("properties"), pa.scalar(name), one) for one in ("first", "last"))
        made.append((first == value) | (last == value))
    for path, value in fields:
        made.append(pc.field("value", *path.split(".")).cast(pa.string()) == value)
    return reduce(and_, made) if made else None
