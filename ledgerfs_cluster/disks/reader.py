"""Read one ledger from disks of bookies: each entry from any log or journal with a sound copy."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import Cuts, LedgerReader, OnDamage, Stream
from ledgerfs.errors import CorruptLedgerError, EntryRangeError, ObjectNotFoundError, StoreError
from ledgerfs.formats.ledger_metadata import LedgerMetadata, LedgerState
from ledgerfs.layouts.described import describe_metadata, describe_ref
from ledgerfs_cluster.cluster_ledgers import entries_between_cuts
from ledgerfs_cluster.disks.entries import EntryReading, Lost, digest_that_fits
from ledgerfs_cluster.disks.index import MOST_ENTRY
from ledgerfs_cluster.disks.place import DiskPlace
from ledgerfs_cluster.disks.rows import CUT_BYTES
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode
from ledgerfs_cluster.formats.bookkeeper.stored_entries import differing_copies

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ledgerfs.catalog.reader import Span
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs_cluster.disks.entries import Read

_TRIES = 5
"""Retries with a new listing for entries that were moved: bookies write them to other logs, and delete the old ones."""


class DiskReader(LedgerReader):
    """`LedgerReader` of a ledger on disks. Thread-safe, also after a fork."""

    __slots__ = ("_digest", "_place", "ref")

    def __init__(self, place: DiskPlace, ref: LedgerRef) -> None:
        self.ref = ref
        self._place = place
        self._digest: Digest | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._place, self.ref))

    @property
    def is_remote(self) -> bool:
        """False."""
        return False

    @property
    def stream(self) -> Stream:
        """The stream for all ledgers on disks."""
        return stream_disks

    def cuts(self) -> Cuts:
        """Return split points, some MiB apart."""
        between = entries_between_cuts(self.ref.entries, self.ref.length, CUT_BYTES)
        return np.arange(0, self.ref.entries, between, dtype=np.int64)

    def batches(self, first: int, last: int, on_damage: OnDamage | None = None) -> "Iterator[EntryBatch]":
        """Yield the entries in whole buffers; ``on_damage`` receives damaged and lost ones instead.

        Raises `EntryRangeError`, `CorruptLedgerError` (no disk has a sound copy of an entry), `StoreError`, `AccessDeniedError`.
        """
        if not 0 <= first <= last <= self.last_entry:
            raise EntryRangeError(
                f"no entries {first} to {last}: the ledger has entries 0 to {self.last_entry}", key=self.ref.key
            )
        tries = 0
        while first <= last:
            try:
                for found in self.reading().windows(first, last):
                    if isinstance(found, Lost):
                        if not self._place.is_young:
                            # A bookie may have written it to a log that the index does not have.
                            raise ObjectNotFoundError("no entry log has the entry any more", key=self.ref.key)
                        self._tell(found, on_damage)
                        first = found.last + 1
                    else:
                        yield found
                        first, tries = found.last_entry + 1, 0
            except ObjectNotFoundError as error:
                tries += 1
                self._list_again(tries, error)
            else:
                return

    def all_copies(self) -> "Iterator[tuple[EntryReading, Read]]":
        """Yield all copies of all entries, also after the ledger's end, each with a reading for `place_of`; raises as `batches`."""
        first = tries = 0
        while True:
            try:
                reading = self.reading()
                for found in reading.all_copies(first, MOST_ENTRY):
                    yield reading, found
                    first, tries = int(found.copies.entries[-1]) + 1, 0
            except ObjectNotFoundError as error:
                tries += 1
                self._list_again(tries, error)
            else:
                return

    def require_agreement(self) -> None:
        """Raise `CorruptLedgerError` if two sound copies of an entry differ; raises as `batches`. Reads nothing where each has one copy."""
        if np.diff(self._place.index().entry_ids(self.ref.ledger_id, self.last_entry)).all():
            return
        for reading, read in self.all_copies():
            for row in differing_copies(read.buffer, read.copies.entries, read.checked).tolist():
                entry = int(read.copies.entries[row])
                if entry <= self.last_entry:
                    path, offset = reading.place_of(read.copies, row)
                    raise CorruptLedgerError(differing(entry, self.ref.ledger_id), key=path, offset=offset)

    def _list_again(self, tries: int, error: ObjectNotFoundError) -> None:
        """List the disks again; raises `StoreError` after `_TRIES` listings without progress."""
        if tries > _TRIES:
            reason = "the bookie deleted entry logs during each of several tries to read them; try again"
            raise StoreError(reason, key=self.ref.key) from error
        self._place.index_now()

    def reread(self) -> None:
        """Do nothing: no bytes are cached."""

    def metadata(self) -> LedgerMetadata | None:
        """Return BookKeeper's metadata, None without any; raises as `ledgerfs_cluster.disks.known_ledgers.known_ledgers`.

        For a ledger that is not closed, add its last entry here as its end; it counts as closed only if its end is that of a recovery.
        """
        node = self.node()
        if node is None:
            return None
        state = node.state if node.is_closed or self.ref.is_open else LedgerState.CLOSED
        if self.ref.managed_ledger is None and not node.is_closed:
            state = LedgerState.OPEN
        return replace(node.closed_at(self.last_entry, self.length), state=state)

    def node(self) -> LedgerNode | None:
        """Return the ledger's node; None without metadata. Raises as `metadata`."""
        known = self._place.known()
        return None if known is None else known.node(self.ref.ledger_id)

    def describe(self) -> dict[str, Any]:
        """Return ledger metadata, and the files with the ledger's entries."""
        metadata = self.metadata()
        index = self._place.index()
        copies = index.copies(self.ref.ledger_id, 0, self.last_entry)
        files, counts = np.unique(copies.files, return_counts=True)
        return {
            **describe_ref(self.ref),
            "where": "disks",
            "is_open": self.ref.is_open,
            "files": [
                {"path": index.files[file].file.path, "entries": count}
                for file, count in zip(files.tolist(), counts.tolist(), strict=True)
            ],
            "ledger_metadata": None if metadata is None else describe_metadata(metadata),
            "blocks": [],
            "objects": {},
        }

    def reading(self) -> EntryReading:
        """Return a reader of entries with the current index; raises as `batches`."""
        entry_bytes = max(1, self.length // max(1, self.ref.entries))
        return EntryReading(self._place.index(), self.ref.ledger_id, self.digest(), entry_bytes)

    def digest(self) -> Digest:
        """Return the digest for checking entries; raises as `metadata`, and `CorruptLedgerError` if none fits."""
        if self._digest is None:
            node = self.node() if self._place.disks.metadata is not None else None
            digest = node.digest if node is not None else None
            if digest is None:
                digest = digest_that_fits(self._place.index(), self.ref.ledger_id, self.last_entry)
            if digest is None:
                raise CorruptLedgerError("no entry of the ledger matches a digest any more", key=self.ref.key)
            self._digest = digest
        return self._digest

    def _tell(self, lost: Lost, on_damage: OnDamage | None) -> None:
        error = lost_error(lost, self.ref.key)
        if on_damage is None:
            raise error
        on_damage(lost.first, lost.last, error)


def differing(entry: int, ledger_id: int) -> str:
    """Return the message about a sound copy of an entry that differs from another one."""
    return f"two copies of entry {entry} of ledger {ledger_id} differ, although the digests of both match"


def lost_error(lost: Lost, key: str) -> CorruptLedgerError:
    """Return the error for entries without a sound copy; it names the first damaged copy, if there is one."""
    if not lost.damaged:
        return CorruptLedgerError(
            f"entry {lost.first} is missing on all given disks; add the disks of the ledger's other bookies", key=key
        )
    path, offset = lost.damaged[0]
    copies = "its only copy" if len(lost.damaged) == 1 else f"each of its {len(lost.damaged)} copies"
    return CorruptLedgerError(
        f"entry {lost.first} of {key} is lost: {copies} on the given disks is damaged", key=path, offset=offset
    )


def stream_disks(spans: "Sequence[Span]") -> "Iterator[tuple[int, EntryBatch]]":
    """Read spans of ledgers one after the other (`ledgerfs.catalog.reader.Stream`); the operating system reads ahead."""
    for number, span in enumerate(spans):
        for batch in span.ledger.batches(span.first, span.last, span.on_damage):
            yield number, batch
