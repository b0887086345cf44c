"""Read entries of one ledger from logs and journals: any sound copy, in whole buffers."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs.formats.records import EntryBatch
from ledgerfs_cluster.disks.index import Copies, DiskIndex
from ledgerfs_cluster.disks.reading import UNREADABLE, empty_bytes, read_into
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.stored_entries import Checked, check_entries

WINDOW_BYTES = 8 << 20
"""Bytes of entries that are read at once; more if a single one is larger."""

_MOST_ENTRIES = 1 << 17
_NEAR_BYTES = 1 << 16
"""A gap of up to so many bytes between two entries is read with them: that costs less than another request."""


class Lost(NamedTuple):
    """Entries without a sound copy in any file.

    Attributes
    ----------
    first, last
        Their ids, without a gap.
    damaged
        (path, offset) of the first entry's damaged copies.

    """

    first: int
    last: int
    damaged: tuple[tuple[str, int], ...]


class Read(NamedTuple):
    """Stored entries of one window: the buffer, the copies in it, and the result of their check."""

    buffer: memoryview
    copies: Copies
    checked: Checked


class EntryReading:
    """Reads the entries of one ledger.

    Parameters
    ----------
    entry_bytes
        Average size of an entry, bytes.

    """

    __slots__ = ("_digest", "_step", "index", "ledger_id")

    def __init__(self, index: DiskIndex, ledger_id: int, digest: Digest, entry_bytes: int = 1) -> None:
        self.index = index
        self.ledger_id = ledger_id
        self._digest = digest
        self._step = int(min(_MOST_ENTRIES, max(16, 2 * WINDOW_BYTES // max(1, entry_bytes))))

    def windows(self, first: int, last: int) -> Iterator[EntryBatch | Lost]:
        """Yield the entries ``first`` to ``last``, both included, in order, with a `Lost` for each lost run.

        Raises `ObjectNotFoundError` if a file is gone since the disks were listed, `AccessDeniedError` and `StoreError`.
        """
        while first <= last:
            there = self.index.next_entry(self.ledger_id, first)
            if there is None or there > last:
                yield Lost(first, last, ())
                return
            if there > first:
                yield Lost(first, there - 1, ())
            end, copies = self._copies(there, last)
            yield from self._window(there, end, copies)
            first = end + 1

    def all_copies(self, first: int, last: int) -> Iterator[Read]:
        """Yield all copies of the entries ``first`` to ``last``, window by window; raises as `windows`."""
        there = self.index.next_entry(self.ledger_id, first)
        while there is not None and there <= last:
            end, copies = self._copies(there, last)
            yield self.read(copies)
            there = self.index.next_entry(self.ledger_id, end + 1)

    def place_of(self, copies: Copies, row: int) -> tuple[str, int]:
        """Return the path and the offset of a copy."""
        return self.index.files[int(copies.files[row])].file.path, int(copies.places[row])

    def read(self, copies: Copies) -> Read:
        """Return copies as stored, also damaged ones; raises as `windows`."""
        buffer, starts = self._stored(copies)
        checked = check_entries(buffer, starts, copies.sizes, self.ledger_id, copies.entries, self._digest)
        return Read(buffer, copies, checked)

    def _copies(self, first: int, last: int) -> tuple[int, Copies]:
        """Return the last entry of the next read, and the copies of its entries."""
        end = min(last, first + self._step - 1)
        return _cut(self.index.copies(self.ledger_id, first, end), end)

    def _window(self, first: int, last: int, copies: Copies) -> Iterator[EntryBatch | Lost]:
        found = self._best(copies)
        is_sound = found.checked.wrong == 0
        ids = found.copies.entries[is_sound]
        behind = first
        for low, high in _runs(ids):
            if ids[low] > behind:
                yield self._lost(behind, int(ids[low]) - 1, copies)
            rows = np.flatnonzero(is_sound)[low:high]
            yield EntryBatch(int(ids[low]), found.buffer, found.checked.starts[rows], found.checked.sizes[rows])
            behind = int(ids[high - 1]) + 1
        if behind <= last:
            yield self._lost(behind, last, copies)

    def _best(self, copies: Copies) -> Read:
        """Return the first sound copy of each entry, or its last copy if none is."""
        chosen = np.flatnonzero(copies.is_first)
        ends = np.append(chosen[1:], len(copies))
        while True:
            found = self.read(copies.at(chosen))
            others = (found.checked.wrong != 0) & (chosen + 1 < ends)
            if not others.any():
                return found
            chosen = chosen + others

    def _lost(self, first: int, last: int, copies: Copies) -> Lost:
        of_first = np.flatnonzero(copies.entries == first).tolist()
        return Lost(first, last, tuple(self.place_of(copies, row) for row in of_first))

    def _stored(self, copies: Copies) -> tuple[memoryview, Int64]:
        """Return a buffer with all copies, and the start of each in it."""
        order = np.lexsort((copies.places, copies.files))
        files, places = copies.files[order], copies.places[order]
        behind = places + copies.sizes[order]
        is_new = np.append(True, (np.diff(files) != 0) | (places[1:] - behind[:-1] > _NEAR_BYTES))[: places.size]
        begins = np.flatnonzero(is_new)
        froms = places[begins]
        # A copy lies within another one only in a damaged file; the range ends after the last byte of both.
        untils = np.maximum.reduceat(behind, begins) if begins.size else behind
        offsets = np.append(0, np.cumsum(untils - froms))
        buffer = empty_bytes(int(offsets[-1]))
        for row, start, end, offset in zip(
            files[begins].tolist(), froms.tolist(), untils.tolist(), offsets.tolist()[:-1], strict=True
        ):
            target = buffer[offset : offset + end - start]
            target[read_into(self.index.opened(row).fileno(), target, start) :] = UNREADABLE
        starts = np.empty(places.size, np.int64)
        ranges = np.cumsum(is_new) - 1
        starts[order] = places - froms[ranges] + offsets[ranges]
        return buffer.data, starts


def _cut(copies: Copies, end: int) -> tuple[int, Copies]:
    """Return the last entry of the read, limited to `WINDOW_BYTES`, and the copies up to it."""
    if not len(copies):
        return end, copies
    firsts = np.flatnonzero(copies.is_first)
    count = max(1, int(np.searchsorted(np.cumsum(copies.sizes[firsts]), WINDOW_BYTES, "right")))
    if count >= firsts.size:
        return end, copies
    end = int(copies.entries[firsts[count - 1]])
    return end, copies.at(np.arange(firsts[count]))


def _runs(ids: Int64) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows with consecutive ids."""
    if ids.size:
        cuts = np.flatnonzero(np.diff(ids) != 1) + 1
        yield from zip([0, *cuts.tolist()], [*cuts.tolist(), ids.size], strict=True)


_TRIED = (DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC)
"""Most usual first; HMAC with an empty password, which is Pulsar's. Without a digest damage would be invisible."""

_LOOKED_AT = 16


def digest_that_fits(index: DiskIndex, ledger_id: int, last: int) -> Digest | None:
    """Return the digest that fits one of a ledger's first or last entries; None if none fits; raises as `EntryReading`."""
    copies = index.copies(ledger_id, 0, last)
    if not len(copies):
        return None
    rows = np.unique(
        np.append(np.arange(min(_LOOKED_AT, len(copies))), np.arange(max(0, len(copies) - _LOOKED_AT), len(copies)))
    )
    some = copies.at(rows)
    for kind in _TRIED:
        digest = Digest(kind)
        if (EntryReading(index, ledger_id, digest).read(some).checked.wrong == 0).any():
            return digest
    return None
