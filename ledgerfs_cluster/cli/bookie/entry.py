"""``ledgerfs bookie entry``: one entry, and all copies of it."""

import re
import sys
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs_cluster.cli.bookie.source import LookedAt, disks_options, look_at
from ledgerfs_cluster.cli.rows import cell, count, print_rows

if TYPE_CHECKING:
    from ledgerfs_cluster.disks.entries import Read

_ENTRY = re.compile(r"(\d{1,19}):(\d{1,19})")
_COLUMNS = {
    **{title: cell(name) for title, name in (("bookie", "bookie"), ("file", "path"), ("state", "state"))},
    "at": cell("offset", count),
    "payload": cell("payload_bytes", count),
    "confirmed": cell("last_confirmed", count),
    "length so far": cell("length_so_far", count),
}
_FAULTS = ("sound", "of another entry", "damaged", "too short")


@command()
@disks_options
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
    seen = look_at(context, disks)
    read = _read(seen, int(match[1]), int(match[2]))
    sound = [row for row, fault in enumerate(read.checked.wrong.tolist()) if fault == 0]
    if raw and sound:
        start, size = int(read.checked.starts[sound[0]]), int(read.checked.sizes[sound[0]])
        sys.stdout.buffer.write(read.buffer[start : start + size])
    elif as_json or not raw:
        print_rows(_copies(seen, read), _COLUMNS, ("at", "payload", "confirmed", "length so far"), as_json=as_json)
    if not sound:
        context.exit(1)


def _read(seen: LookedAt, ledger_id: int, entry_id: int) -> "Read":
    from ledgerfs.errors import NotFoundError
    from ledgerfs_cluster.disks.entries import EntryReading, digest_that_fits
    from ledgerfs_cluster.disks.index import MOST_ENTRY
    from ledgerfs_cluster.formats.bookkeeper.digests import Digest

    copies = seen.index.copies(ledger_id, entry_id, entry_id)
    if not len(copies):
        raise NotFoundError("it is on none of these disks", key=f"entry {ledger_id}:{entry_id}")
    node = None if seen.known is None else seen.known.node(ledger_id)
    digest = digest_that_fits(seen.index, seen.files, ledger_id, MOST_ENTRY) if node is None else node.digest
    return EntryReading(seen.index, seen.files, ledger_id, digest or Digest(), 1).read(copies)


def _copies(seen: LookedAt, read: "Read") -> list[dict[str, Any]]:
    copies, checked = read.copies, read.checked
    found = []
    for row in range(len(copies)):
        file = seen.index.files[int(copies.files[row])].file
        is_sound = int(checked.wrong[row]) == 0
        found.append(
            {
                "bookie": seen.index.listing.bookies[file.bookie],
                "path": file.path,
                "offset": int(copies.places[row]),
                "stored_bytes": int(copies.sizes[row]),
                "state": _FAULTS[int(checked.wrong[row])],
                "payload_bytes": int(checked.sizes[row]) if is_sound else None,
                "last_confirmed": int(checked.last_confirmed[row]) if is_sound else None,
                "length_so_far": int(checked.lengths_so_far[row]) if is_sound else None,
            }
        )
    return found
