"""The arguments DISK... and their options: disks of bookies, and the metadata of their ledgers."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from ledgerfs.cli.options import metadata_option, storage_option, storage_options_of
from ledgerfs.cli.output import progress
from ledgerfs.cli.traffic_options import Command

if TYPE_CHECKING:
    from ledgerfs_cluster.disks.entries import OpenFiles
    from ledgerfs_cluster.disks.index import DiskIndex
    from ledgerfs_cluster.disks.known_ledgers import KnownLedgers


@dataclass(frozen=True, slots=True)
class LookedAt:
    """Some disks as a command looks at them; ``known`` is None without metadata."""

    index: "DiskIndex"
    files: "OpenFiles"
    known: "KnownLedgers | None"

    def owner(self, ledger_id: int) -> str:
        """Return whose a ledger is, in words."""
        return "?" if self.known is None else self.known.owner(ledger_id)


def disks_options(command: Command) -> Command:
    """Add the arguments DISK... and the options --metadata and -o; the command gets ``disks``, which `look_at` takes."""
    argument = click.argument("disks", metavar="DISK...", nargs=-1, required=True)
    return argument(storage_option(metadata_option(command)))


def look_at(context: click.Context, disks: tuple[str, ...]) -> LookedAt:
    """Read the metadata, then what is new on the disks; raises as `ledgerfs_cluster.disks.index.index_disks` and `known_ledgers`."""
    # These import numpy and numba, which --help does not need.
    from ledgerfs_cluster.disks.entries import OpenFiles
    from ledgerfs_cluster.disks.index import index_disks
    from ledgerfs_cluster.disks.kept_tables import KeptTables
    from ledgerfs_cluster.disks.known_ledgers import known_ledgers

    place = _disks_of(disks, storage_options_of(context))
    with progress(in_bytes=True) as update:
        known = known_ledgers(place, update)
        index = index_disks(place.paths, KeptTables(None, place.max_entry), update)
    if known is not None:
        known.require_same_cluster(index.listing)
    return LookedAt(index, OpenFiles(index), known)


def _disks_of(disks: tuple[str, ...], options: dict[str, Any]) -> Any:  # noqa: ANN401  (imported where it is needed)
    from ledgerfs_cluster.disks.bookie_disks import url_of
    from ledgerfs_cluster.disks.filesystem import DisksFileSystem

    urls = [disk if "://" in disk else url_of((os.path.abspath(disk),)) for disk in disks]  # noqa: PTH100
    rest = ",".join(DisksFileSystem._strip_protocol(url) for url in urls)  # noqa: SLF001  (fsspec's name for it)
    return DisksFileSystem(**options).disks(rest)
