"""``ledgerfs bookie``: one entry and all copies of it; live and dead bytes of logs, and what garbage collectors would free."""

import os
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option, metadata_option, storage_option, storage_options_of
from ledgerfs.cli.output import human_size, print_json, progress, say, show, table
from ledgerfs.cli.traffic_options import Command
from ledgerfs.display import printable
from ledgerfs_cluster.cli.rows import cell, count, print_rows

if TYPE_CHECKING:
    from ledgerfs_cluster.disks.entries import Read
    from ledgerfs_cluster.disks.index import DiskIndex
    from ledgerfs_cluster.disks.known_ledgers import KnownLedgers

_ENTRY = re.compile(r"(\d{1,19}):(\d{1,19})")
_COLUMNS = {
    **{title: cell(name) for title, name in (("bookie", "bookie"), ("file", "path"), ("state", "state"))},
    "at": cell("offset", count),
    "payload": cell("payload_bytes", count),
    "confirmed": cell("last_confirmed", count),
    "length so far": cell("length_so_far", count),
}
_FAULTS = ("sound", "of another entry", "damaged", "too short")
_MOST_OWNERS = 20


def _disks_options(command: Command) -> Command:
    """Add the arguments DISK... and the options --metadata and -o."""
    argument = click.argument("disks", metavar="DISK...", nargs=-1, required=True)
    return argument(storage_option(metadata_option(command)))


def _read(context: click.Context, disks: tuple[str, ...]) -> "tuple[DiskIndex, KnownLedgers | None]":
    """Return the index of some disks, and the metadata, None without any; raises as `DiskPlace.read`."""
    # These import numpy and numba, which --help does not need.
    from ledgerfs_cluster.disks.filesystem import DisksFileSystem, url_of
    from ledgerfs_cluster.disks.place import DiskPlace

    urls = [disk if "://" in disk else url_of((os.path.abspath(disk),)) for disk in disks]  # noqa: PTH100
    rest = ",".join(DisksFileSystem._strip_protocol(url) for url in urls)  # noqa: SLF001  (fsspec's name for it)
    with progress(in_bytes=True) as update:
        return DiskPlace(DisksFileSystem(**storage_options_of(context)).disks(rest)).read(update)


@command()
@_disks_options
@click.argument("which", metavar="LEDGER:ENTRY")
@click.option("--raw", is_flag=True, help="Write the payload of a sound copy to standard output, and nothing else.")
@json_option
@click.pass_context
def entry(context: click.Context, disks: tuple[str, ...], which: str, *, raw: bool, as_json: bool) -> None:
    """Show the copies of one entry, or write its payload to standard output.

    Of each copy: in which file it is, and where; whether its digest fits (with --metadata the ledger's, else the one that fits others of
    it); which entry its writer knew to be confirmed; and how many bytes the ledger has up to it. Exit code 1 if none is sound.

    \b
    Examples:
      ledgerfs bookie entry /var/lib/bookie1 58:17
      ledgerfs bookie entry /var/lib/bookie1 /var/lib/bookie2 58:17 --metadata dump.json.zst
      ledgerfs bookie entry /var/lib/bookie1 58:17 --raw | xxd | head
    """
    match = _ENTRY.fullmatch(which)
    if match is None:
        raise click.BadParameter(f"{which!r} is not LEDGER:ENTRY, such as 58:17", ctx=context)
    index, known = _read(context, disks)
    read = _copies_of(index, known, int(match[1]), int(match[2]))
    sound = [row for row, fault in enumerate(read.checked.wrong.tolist()) if fault == 0]
    if raw and sound:
        start, size = int(read.checked.starts[sound[0]]), int(read.checked.sizes[sound[0]])
        sys.stdout.buffer.write(read.buffer[start : start + size])
    elif as_json or not raw:
        rows = [_copy(index, read, row) for row in range(len(read.copies))]
        print_rows(rows, _COLUMNS, ("at", "payload", "confirmed", "length so far"), as_json=as_json)
    if not sound:
        context.exit(1)


def _copies_of(index: "DiskIndex", known: "KnownLedgers | None", ledger_id: int, entry_id: int) -> "Read":
    from ledgerfs.errors import NotFoundError
    from ledgerfs_cluster.disks.entries import EntryReading, digest_that_fits
    from ledgerfs_cluster.disks.index import MOST_ENTRY
    from ledgerfs_cluster.formats.bookkeeper.digests import Digest

    copies = index.copies(ledger_id, entry_id, entry_id)
    if not len(copies):
        raise NotFoundError("it is on none of these disks", key=f"entry {ledger_id}:{entry_id}")
    node = None if known is None else known.node(ledger_id)
    digest = digest_that_fits(index, ledger_id, MOST_ENTRY) if node is None else node.digest
    return EntryReading(index, ledger_id, digest or Digest()).read(copies)


def _copy(index: "DiskIndex", read: "Read", row: int) -> dict[str, Any]:
    copies, checked = read.copies, read.checked
    file = index.files[int(copies.files[row])].file
    is_sound = int(checked.wrong[row]) == 0
    return {
        "bookie": index.listing.bookies[file.bookie],
        "path": file.path,
        "offset": int(copies.places[row]),
        "stored_bytes": int(copies.sizes[row]),
        "state": _FAULTS[int(checked.wrong[row])],
        "payload_bytes": int(checked.sizes[row]) if is_sound else None,
        "last_confirmed": int(checked.last_confirmed[row]) if is_sound else None,
        "length_so_far": int(checked.lengths_so_far[row]) if is_sound else None,
    }


@command()
@_disks_options
@click.option(
    "--minor",
    type=click.FloatRange(0, 1),
    default=0.2,
    show_default=True,
    help="minorCompactionThreshold of the bookie.",
)
@click.option(
    "--major",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="majorCompactionThreshold of the bookie.",
)
@json_option
@click.pass_context
def space(context: click.Context, disks: tuple[str, ...], *, minor: float, major: float, as_json: bool) -> None:
    """Show live and dead bytes of entry logs, and what would be freed.

    A bookie deletes a log when none of its ledgers is in the metadata any more, and compacts one whose live share is below a threshold: it
    writes the live entries again, and deletes the log. "Fate" is deleted (by the next run), minor or major (by such a compaction), current
    (being written, never collected), unreadable or kept (both stay). Without --metadata all ledgers count as live.

    The second table lists the topics and subscriptions with most bytes in the logs. --json lists all of them, and the ledgers of each log.

    \b
    Examples:
      ledgerfs bookie space /var/lib/bookie1 --metadata pulsar+zk://zk1:2181
      ledgerfs bookie space /var/lib/bookie1 --metadata dump.json.zst --major 0.8
      ledgerfs bookie space /var/lib/bookie1 --metadata dump.json.zst --json | jq '.[].owners'
    """
    from ledgerfs_cluster.disks.log_space import space_reports

    if major and minor >= major:
        raise click.BadParameter("the minor threshold has to be below the major one, or no bookie starts", ctx=context)
    index, known = _read(context, disks)
    live = set(index.ledger_ids().tolist())
    if known is not None:
        live &= known.nodes.keys()
    directories = space_reports(index, minor, major, live, cache(known.owner) if known is not None else lambda _: "?")
    if as_json:
        print_json(directories)
    else:
        for directory in directories:
            _show(directory)
    if known is None:
        say("without --metadata no ledger is known to be dead")


def _show(directory: dict[str, Any]) -> None:
    whole = f"{human_size(directory['size'])}, {human_size(directory['dead_bytes'])} of it dead"
    click.echo(printable(f"{directory['bookie']}  {directory['folder']}: {len(directory['logs']):,} logs, {whole}"))
    numbers = ("bytes", "live", "dead", "ledgers")
    logs = table("log", *numbers, "fate", "frees", "costs", right=(*numbers, "frees", "costs"))
    for one in directory["logs"]:
        live = sum(ledger["is_live"] for ledger in one["ledgers"])
        sizes = [human_size(one[name]) if one[name] else "-" for name in ("live_bytes", "dead_bytes", "freed", "rewritten")]  # fmt: skip
        logs.add_row(
            one["id"], human_size(one["size"]), *sizes[:2], f"{live:,}/{len(one['ledgers']):,}", one["fate"], *sizes[2:]
        )
    show(logs)
    owners = table("owner", "ledgers", "logs", "bytes", right=("ledgers", "logs", "bytes"))
    for one in directory["owners"][:_MOST_OWNERS]:
        name = one["owner"] if one["is_live"] else "deleted ledgers"
        owners.add_row(printable(name), f"{one['ledgers']:,}", f"{one['logs']:,}", human_size(one["bytes"]))
    show(owners)
    deleted, minor, major = (directory["frees"][fate] for fate in ("deleted", "minor", "major"))
    click.echo(f"the next run frees {human_size(deleted['freed'])}")
    for kind, parts in (("minor", (minor,)), ("major", (minor, major))):
        freed, rewritten = (human_size(sum(part[name] for part in parts)) for name in ("freed", "rewritten"))
        click.echo(f"a {kind} compaction frees {freed}, and writes {rewritten} again")
    click.echo()
