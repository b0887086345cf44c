"""``ledgerfs bookie logs``: entry logs and journals."""

from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.commands import command
from ledgerfs.cli.options import json_option
from ledgerfs.cli.output import human_size, print_json, say, show, table
from ledgerfs.display import printable
from ledgerfs_cluster.cli.bookie.source import LookedAt, disks_options, look_at

if TYPE_CHECKING:
    from ledgerfs_cluster.disks.scanning import ScannedFile


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
    told = [_as_json(seen, one) for one in seen.index.files]
    if as_json:
        print_json(told)
    else:
        shown = table(
            "bookie",
            "file",
            "bytes",
            "entries",
            "ledgers",
            "map",
            "lost",
            right=("bytes", "entries", "ledgers", "lost"),
        )
        for one in told:
            shown.add_row(
                printable(one["bookie"]),
                printable(one["path"]),
                human_size(one["size"]),
                f"{one['entries']:,}",
                f"{one['ledgers']:,}",
                {True: "yes", False: "no", None: "-"}[one["has_map"]],
                human_size(one["no_record"]) if one["no_record"] else "-",
            )
        show(shown)
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
