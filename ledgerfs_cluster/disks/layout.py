"""Disks of bookies: entry logs and journals, read without BookKeeper, with the metadata of their ledgers if there is any.

A listing reads only new files. Never writes to the disks and takes no locks: a bookie may run meanwhile.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_findings import severity_of
from ledgerfs.catalog.catalog_rows import own_columns
from ledgerfs.catalog.findings import Finding, Severity
from ledgerfs.catalog.layout import OpenLedger, Progress
from ledgerfs.catalog.layouts_known import register_rows
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.source import Source
from ledgerfs.errors import RefusedLedgerError
from ledgerfs.formats.ledger_metadata import LedgerState
from ledgerfs.storage.traffic import Traffic
from ledgerfs_cluster.cluster_ledgers import fragments_in, lacking_findings, require_same_topic
from ledgerfs_cluster.disks import rows
from ledgerfs_cluster.disks.filesystem import BookieDisks
from ledgerfs_cluster.disks.place import DiskPlace
from ledgerfs_cluster.disks.reader import DiskReader
from ledgerfs_cluster.disks.rows import NUMBER, OWN
from ledgerfs_cluster.disks.scanning import ScannedFile
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path

if TYPE_CHECKING:
    from hashlib import blake2b

    from ledgerfs_cluster.disks.ledger_check import DiskCheck

_NAMED = 20

register_rows(rows)


class Disks(Source):
    """Disks of bookies."""

    __slots__ = ("_place", "traffic")

    what = "disks of bookies"
    layouts = (rows.NAME,)

    def __init__(self, disks: BookieDisks, cache_dir: str | None = None) -> None:
        self._place = DiskPlace(disks, cache_dir)
        self.traffic = Traffic()

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.disks,))

    @property
    def disks(self) -> BookieDisks:
        """Their paths, and the source of their ledgers' metadata."""
        return self._place.disks

    @property
    def url(self) -> str:
        """The place as a URL."""
        return self.disks.url

    def opened(self, cache_dir: str | None, on_change: Callable[[], None]) -> "Disks":  # noqa: ARG002  (readers list the disks themselves)
        """Return the disks with a separate index."""
        return Disks(self.disks, cache_dir)

    def list_ledgers(self, previous: Catalog | None, progress: Progress | None) -> Catalog:  # noqa: ARG002  (any ledger may have changed)
        """Read the metadata, then new files on the disks: a ledger that is closed meanwhile has all its entries there.

        Raises `BucketNotFoundError` for a path without a disk, `InvalidOptionError` for disks, or metadata, of another cluster,
        `AccessDeniedError`, `StoreError`, and as `ledgerfs_cluster.disks.known_ledgers.known_ledgers`. Damage raises no error.
        """
        # Import numba only here: opening a bucket does not need it.
        from ledgerfs_cluster.disks.found_ledgers import FoundOnDisks

        index, known = self._place.read(progress)
        path = self.disks.ledgers_path if known is None else known.ledgers_path
        found = FoundOnDisks(index, known, self.disks.open_end)
        found.find(progress)
        return found.catalog(NUMBER, path)

    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader of one ledger; reads lazily."""
        return DiskReader(self._place, ref)

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:  # noqa: ARG002
        """Yield missing parts, from metadata and tables alone."""
        fragments = fragments_in(catalog, NUMBER)
        yield from lacking_findings(catalog, NUMBER)
        for trouble in fragments.troubles:
            yield Finding(severity_of(trouble), "unreadable-object", trouble.reason, trouble.key, trouble.offset)
        for ledger_id, newest in fragments.behind:
            message = f"entries up to {newest} exist after the end of the ledger, which has no entries by its metadata"
            key = ledger_path(ledger_id, catalog.places[-1])
            yield Finding(Severity.REMARK, "beyond-the-end", message, key, None, ledger_id)
        yield from check_rows(self._place, catalog)

    def check_ledger(self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None) -> "DiskCheck":
        """Read every copy of every entry of a ledger."""
        from ledgerfs_cluster.disks.ledger_check import DiskCheck

        return DiskCheck(cast("DiskReader", ledger), on_read, digest=digest).run()

    def require_copyable(self, ref: LedgerRef, managed_ledger: str | None, state: int | None) -> None:
        """Raise `RefusedLedgerError` for a ledger of no topic, or of another one by its own metadata, and for one that is not closed."""
        if ref.managed_ledger is None:
            # Its own metadata may name a topic that removed it from its ledger list.
            raise RefusedLedgerError(
                "no topic's ledger list contains the ledger, so it cannot be copied into a bucket", key=ref.key
            )
        require_same_topic(ref, managed_ledger)
        if state != LedgerState.CLOSED:
            reason = "the ledger is not closed; if only these disks are left, -o open_end=recovered ends it as BookKeeper does"
            raise RefusedLedgerError(reason, key=ref.key)


def check_rows(place: DiskPlace, catalog: Catalog) -> Iterator[Finding]:
    """Yield findings for ledgers that lack entries or have some after their end, and for parts of files that are not records."""
    index = place.index()
    rows = catalog.ledgers[catalog.ledgers["layout"] == NUMBER]
    newest = own_columns(rows, OWN)["newest"]
    for row, last_here in zip(rows, newest.tolist(), strict=True):
        ref = catalog.ref_of(row)
        missing = index.missing(ref.ledger_id, ref.last_entry)
        if missing:
            count = sum(last - first + 1 for first, last in missing)
            shown = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in missing[:_NAMED])
            more = ", …" if len(missing) > _NAMED else ""
            message = f"{count:,} of {ref.entries:,} entries are missing on all given disks: {shown}{more}"
            yield Finding(Severity.DAMAGE, "lost-entries", message, ref.key, None, ref.ledger_id, ref.topic)
        if last_here > ref.last_entry:
            message = f"entries {ref.last_entry + 1} to {last_here} exist after the end of the ledger"
            yield Finding(Severity.REMARK, "beyond-the-end", message, ref.key, None, ref.ledger_id, ref.topic)
    for one in index.files:
        yield from _no_records(one, is_reported=place.disks.metadata is not None)


def _no_records(file: ScannedFile, *, is_reported: bool) -> Iterator[Finding]:
    """Yield the parts of a file that are not records. With metadata (``is_reported``) their entries are reported as lost separately.

    At the end of a file a part may be an unfinished record, from a running write or a crash: the bookie had not acknowledged it.
    """
    gaps = file.table.gaps
    for start, end in gaps[:_NAMED].tolist():
        severity = Severity.REMARK if is_reported or end == file.table.end else Severity.DAMAGE
        yield Finding(
            severity, "no-record", f"{end - start:,} bytes are neither records nor padding", file.file.path, start
        )
    if len(gaps) > _NAMED:
        size = int(np.diff(gaps, axis=1).sum())
        message = f"{len(gaps):,} ranges, {size:,} bytes in total, are neither records nor padding"
        yield Finding(Severity.REMARK if is_reported else Severity.DAMAGE, "no-record", message, file.file.path)
