"""``ledgerfs ledgers``: list the ledgers of a bucket or topic."""

from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.catalog.time_arguments import iso_time, milliseconds_of
from ledgerfs.cli.commands import command
from ledgerfs.cli.notices import notice
from ledgerfs.cli.options import bucket_argument, json_option
from ledgerfs.cli.output import minute, print_json, progress, show, table
from ledgerfs.display import human_size, printable
from ledgerfs.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.catalog.catalog import Catalog

_SORTS = ("topic", "ledger", "entries", "bytes", "created", "uploaded")


@dataclass(frozen=True, slots=True)
class Row:
    """One ledger; entries and bytes are None if unknown, times are ms since 1970 UTC."""

    topic: str
    ledger: int | None
    entries: int | None
    bytes: int | None
    created: int | None
    uploaded: int | None
    copies: int
    state: str
    first_publish_time: int | None = None
    last_publish_time: int | None = None


def _before(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else milliseconds_of(f"-{text}")
    except InvalidOptionError as error:
        raise click.BadParameter(f"{text!r} is not an age such as 30d, 12h or 2w") from error


@command()
@click.option(
    "--older-than", "before", metavar="AGE", callback=_before, help="Only ledgers created before: 30d, 12h, 2w."
)
@click.option("--sort", type=click.Choice(_SORTS), help="Sort by this column, the largest or newest last.")
@click.option(
    "--times", is_flag=True, help="Show first and last publish times; reads the first and last entry of each ledger."
)
@bucket_argument
@click.argument("topic", required=False)
@json_option
def ledgers(
    bucket: "Bucket", topic: str | None, before: int | None, sort: str | None, *, times: bool, as_json: bool
) -> None:
    """List the ledgers of a bucket, or of a topic.

    The state is "whole", by index and sizes, or the reason why the ledger cannot be read; `ledgerfs verify` reads the data. Copies
    are further uploads of a ledger, of which one is read; bytes are those of its entries. The last line is the total.

    \b
    Examples:
      ledgerfs ledgers s3://tier
      ledgerfs ledgers s3://tier public/default/orders --older-than 30d --sort bytes
      ledgerfs ledgers s3://tier --json | jq 'map(.bytes) | add'
    """
    with progress() as update:
        catalog = bucket.load_catalog(update)
    names = None if topic is None else bucket.topic(topic).managed_ledgers
    rows = [one for one in _rows(catalog, names) if before is None or _is_before(one, before)]
    if sort is not None:
        rows.sort(key=lambda one: (getattr(one, sort) is not None, getattr(one, sort)))
    if times:
        with progress() as update:
            rows = [_with_times(bucket, one) for one in _counted(rows, update)]
    if as_json:
        print_json([_as_json(one, times=times) for one in rows])
    else:
        _show(rows, times=times)
    if topic is None:
        notice(bucket, catalog)


def _is_before(row: Row, moment: int) -> bool:
    """Return whether a ledger was created before; without a creation time, whether it was uploaded before."""
    time = row.created if row.created is not None else row.uploaded
    return time is not None and time < moment


def _rows(catalog: "Catalog", names: "list[str | None] | None") -> "Iterator[Row]":
    """Yield the ledgers of some managed ledgers, or of all, by topic and id."""
    for name in sorted(catalog.known_names, key=str) if names is None else names:
        refs = list(catalog.refs_of(name))
        copies = Counter(one.ledger_id for one in refs)
        found = [
            Row(
                one.topic, one.ledger_id, one.entries, one.length if one.length >= 0 else None,
                one.created_ms, one.changed_ms or None, copies[one.ledger_id], "whole" if one.is_sound else one.state.name.lower(),
            )
            for one in refs if one.copy == 0
        ]  # fmt: skip
        found += [
            Row(one.topic, one.known_id, one.entries, one.bytes, one.created_ms, one.modified_ms or None, copies[one.ledger_id], one.why)
            for one in catalog.missing_of(name)
        ]  # fmt: skip
        yield from sorted(found, key=lambda one: (one.ledger is None, one.ledger))


def _counted(rows: list[Row], update: Any) -> "Iterator[Row]":  # noqa: ANN401  (the progress of `progress`)
    for done, one in enumerate(rows):
        update("publish times", done, len(rows))
        yield one


def _with_times(bucket: "Bucket", row: Row) -> Row:
    """Return the row with the publish times of its first and last entry, if it can be read."""
    # This imports pyarrow and numba, which --help does not need.
    import pyarrow as pa

    from ledgerfs.scan.few_rows import rows_of_entry

    if row.ledger is None or row.state != "whole" or not row.entries:
        return row
    scan = bucket.topic(row.topic).scan(["publish_time"], transactions="all", include_markers=True, on_corrupt="skip")
    found = [rows_of_entry(scan, row.ledger, entry)[0]["publish_time"] for entry in {0, row.entries - 1}]
    milliseconds = [one for column in found for one in column.cast(pa.int64()).to_pylist() if one is not None]
    if not milliseconds:
        return row
    return replace(row, first_publish_time=min(milliseconds) // 1000, last_publish_time=max(milliseconds) // 1000)


def _as_json(row: Row, *, times: bool) -> dict[str, Any]:
    made = asdict(row)
    for name in ("created", "uploaded", "first_publish_time", "last_publish_time"):
        made[name] = iso_time(made[name])
    if not times:
        del made["first_publish_time"], made["last_publish_time"]
    return made


def _show(rows: list[Row], *, times: bool) -> None:
    right = ("ledger", "entries", "bytes", "copies")
    published = ("first message", "last message") if times else ()
    shown = table("topic", *right[:3], "created", "uploaded", *published, "copies", "state", right=right)
    for row in rows:
        shown.add_row(
            printable(row.topic),
            "?" if row.ledger is None else str(row.ledger),
            "?" if row.entries is None else f"{row.entries:,}",
            "?" if row.bytes is None else human_size(row.bytes),
            minute(row.created),
            minute(row.uploaded),
            *((minute(row.first_publish_time), minute(row.last_publish_time)) if times else ()),
            str(row.copies),
            printable(row.state),
        )
    entries, size = (sum(getattr(row, name) or 0 for row in rows) for name in ("entries", "bytes"))
    shown.add_row(f"total of {len(rows):,} ledgers", "", f"{entries:,}", human_size(size))
    show(shown)
