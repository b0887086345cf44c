"""``ledgerfs bookie logs``: entry logs and journals."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import human_size, say
from ledgerfs_cluster.cli.bookie.source import LookedAt, disks_options, look_at
from ledgerfs_cluster.cli.rows import cell, count, print_rows

if TYPE_CHECKING:
    from ledgerfs_cluster.disks.scanning import ScannedFile


_COLUMNS = {
    "bookie": cell("bookie"), "file": cell("path"), "bytes": cell("size", human_size), "entries": cell("entries", count),
    "ledgers": cell("ledgers", count), "map": cell("has_map", lambda has_map: "yes" if has_map else "no"),
    "lost": cell("no_record", lambda size: human_size(size) if size else "-"),
}  # fmt: skip


@command()
@disks_options
@json_option
@click.pass_context
def logs(context: click.Context, disks: tuple[str, ...], *, as_json: bool) -> None:
    """List entry logs and journals.

    DISK is the directory of a bookie, or one above several. "Map" is whether the log was ended, with a map of its ledgers; "lost" is what
    is neither a record nor padding. `ledgerfs bookie space --json` has the ledgers in each log.

    \b
    Examples:
      ledgerfs bookie logs /var/lib/bookie1
      ledgerfs bookie logs /var/lib/bookie1 --json | jq '.[] | select(.no_record > 0)'
    """
    seen = look_at(context, disks)
    rows = [_as_json(seen, one) for one in seen.index.files]
    print_rows(rows, _COLUMNS, ("bytes", "entries", "ledgers", "lost"), as_json=as_json)
    for scanned in seen.index.files:
        if scanned.trouble is not None:
            say(str(scanned.trouble))


def _as_json(seen: LookedAt, one: "ScannedFile") -> dict[str, Any]:
    from ledgerfs_cluster.disks.disk_files import FileKind
    from ledgerfs_cluster.disks.scanning import read_log_header

    is_log = one.file.kind is FileKind.LOG
    header = read_log_header(one.file.path) if is_log else None
    return {
        "bookie": seen.index.listing.bookies[one.file.bookie],
        "path": one.file.path,
        "kind": one.file.kind.name.lower(),
        "id": f"{one.file.number:x}",
        "size": one.file.size,
        "entries": one.table.entries,
        "ledgers": len(set(one.table.ledger_ids.tolist())),
        "has_map": None if header is None else header.has_map,
        "no_record": int((one.table.gaps[:, 1] - one.table.gaps[:, 0]).sum()),
        "trouble": None if one.trouble is None else str(one.trouble),
    }
