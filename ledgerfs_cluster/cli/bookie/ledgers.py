"""``ledgerfs bookie ledgers``: what lies of each ledger on disks, and where."""

from typing import Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import human_size
from ledgerfs_cluster.cli.bookie.source import LookedAt, disks_options, look_at
from ledgerfs_cluster.cli.rows import cell, count, print_rows


@command()
@disks_options
@click.option(
    "--ledger", "ledger_id", type=click.IntRange(min=0), metavar="ID", help="Show where the entries of this one are."
)
@json_option
@click.pass_context
def ledgers(context: click.Context, disks: tuple[str, ...], *, ledger_id: int | None, as_json: bool) -> None:
    """List the ledgers on disks, or where the entries of one are.

    Copies are counted one by one: entries that are on two disks, or in a journal and in a log, count twice. Whose a ledger is, and whether
    it is closed or deleted, tells --metadata. With --ledger each file is listed with the entries that it has.

    \b
    Examples:
      ledgerfs bookie ledgers /var/lib/bookie1 --metadata dump.json.zst
      ledgerfs bookie ledgers /var/lib/bookie1 /var/lib/bookie2 --ledger 58
    """
    seen = look_at(context, disks)
    if ledger_id is None:
        _show_all(seen, as_json=as_json)
    else:
        _show_one(seen, ledger_id, as_json=as_json)


def _show_all(seen: LookedAt, *, as_json: bool) -> None:
    from ledgerfs_cluster.disks.scanning import ledgers_of_files

    last = dict(zip(seen.index.ledger_ids().tolist(), seen.index.last_entries().tolist(), strict=True))
    told = [
        {
            "ledger_id": ledger_id,
            "copies": copies,
            "bytes": size,
            "newest_entry": last[ledger_id],
            "state": "?" if seen.known is None else seen.known.state(ledger_id),
            "owner": seen.owner(ledger_id),
        }
        for ledger_id, copies, size in ledgers_of_files(seen.index.files)
    ]
    columns = {
        "ledger": cell("ledger_id"), "copies": cell("copies", count), "bytes": cell("bytes", human_size), "newest": cell("newest_entry"),
        "state": cell("state"), "owner": cell("owner"),
    }  # fmt: skip
    print_rows(told, columns, ("ledger", "copies", "bytes", "newest"), as_json=as_json)


def _show_one(seen: LookedAt, ledger_id: int, *, as_json: bool) -> None:
    from ledgerfs.errors import NotFoundError

    told = _places(seen, ledger_id)
    if not told:
        raise NotFoundError("no entry of this ledger is on these disks", key=f"ledger {ledger_id}")
    columns = {
        "bookie": cell("bookie"), "file": cell("path"), "entries": cell("entries", count), "first": cell("first_entry"),
        "last": cell("last_entry"), "bytes": cell("bytes", human_size),
    }  # fmt: skip
    print_rows(told, columns, ("entries", "first", "last", "bytes"), as_json=as_json)


def _places(seen: LookedAt, ledger_id: int) -> list[dict[str, Any]]:
    import numpy as np

    from ledgerfs_cluster.disks.index import MOST_ENTRY

    copies = seen.index.copies(ledger_id, 0, MOST_ENTRY)
    found = []
    for row in np.unique(copies.files).tolist():
        is_here = copies.files == row
        file = seen.index.files[row].file
        found.append(
            {
                "bookie": seen.index.listing.bookies[file.bookie],
                "path": file.path,
                "entries": int(is_here.sum()),
                "first_entry": int(copies.entries[is_here][0]),
                "last_entry": int(copies.entries[is_here][-1]),
                "bytes": int(copies.sizes[is_here].sum()) + 4 * int(is_here.sum()),
            }
        )
    return found
