"""Find an entry in a data object: by the index, and by the offsets that earlier walks learned.

The index contains the first entry of each block of many MiB. Every walk over records learns offsets, about one per MiB, closer ones where
single entries were read. All of them are certain: a walk begins at a block's start or at a learned offset, and each record's length gives
the position of the next one. Scanning for records would be unsafe: they carry no mark, and a producer chooses its payload and can predict
ids, so bytes from the middle of a block may be records, or one payload that imitates records up to its end. Only the records before them
decide which.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.pulsar_blob.index import OffloadIndex
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.layouts.pulsar_blob.block_map import block_ends
from ledgerfs.layouts.pulsar_blob.learned_offsets import STEP, LearnedOffsets

if TYPE_CHECKING:
    from ledgerfs.layouts.pulsar_blob.record_walk import RecordStretch

NEAR = 512 << 10
"""Up to about so many bytes of entries are read with one request."""

_FINE_STEP = 16 << 10
_SMALLEST_READ = 64 << 10


class Anchor(NamedTuple):
    """An entry, and the offset of its record in the data object."""

    entry: int
    offset: int


class EntryPlaces:
    """The offsets of one ledger's entries. Safe in threads.

    Parameters
    ----------
    size
        Bytes of the data object in the store.

    Attributes
    ----------
    firsts
        The first entry of each block.
    learned
        Offsets that walks learned.

    """

    __slots__ = ("_ends", "_fine", "_index", "_key", "_size", "firsts", "learned")

    def __init__(self, index: OffloadIndex, key: str, size: int) -> None:
        self._index = index
        self._key = key
        self._size = size
        self._ends = block_ends(index)
        self._fine = LearnedOffsets(_FINE_STEP)
        self.firsts = np.array([block.first_entry for block in index.blocks], np.int64)
        self.learned = LearnedOffsets()

    def blocks_of(self, first: int, last: int) -> range:
        """Return the blocks that hold the entries ``first`` to ``last``."""
        low = bisect_right(self._index.blocks, first, key=lambda block: block.first_entry) - 1
        high = bisect_right(self._index.blocks, last, key=lambda block: block.first_entry)
        return range(low, high)

    def last_entry_of(self, block: int) -> int:
        """Return the id of a block's last entry."""
        blocks = self._index.blocks
        return blocks[block + 1].first_entry - 1 if block + 1 < len(blocks) else self._index.metadata.last_entry

    def start_of(self, block: int) -> Anchor:
        """Return the first entry of a block."""
        start = self._index.blocks[block]
        return Anchor(start.first_entry, start.offset + self._index.header_length)

    def end_of(self, block: int) -> int:
        """Return the offset at which a block ends; raises `CorruptLedgerError` if the object ends before the block's records begin."""
        end, start = self._bound_of(block), self.start_of(block)
        if start.offset > end:
            raise CorruptLedgerError(
                f"entries from {start.entry} on are not in the object: the index places them at byte "
                f"{self._index.blocks[block].offset}, but the blocks end at byte {min(self._index.data_length, self._size)}",
                key=self._key,
                offset=self._index.blocks[block].offset,
            )
        return end

    def before(self, entry: int) -> Anchor:
        """Return the nearest known offset at or before an entry, in its block."""
        (block,) = self.blocks_of(entry, entry)
        known, bound = self.start_of(block), self._bound_of(block)
        for offsets in (self.learned, self._fine):
            near = offsets.at_or_before(entry)
            if near is not None and near[0] > known.entry and known.offset < near[1] < bound:
                known = Anchor(*near)
        return known

    def after(self, entry: int) -> Anchor:
        """Return the nearest known offset after an entry: of another entry of its block, or the block's end."""
        (block,) = self.blocks_of(entry, entry)
        known, start = Anchor(self.last_entry_of(block) + 1, self._bound_of(block)), self.start_of(block)
        for offsets in (self.learned, self._fine):
            near = offsets.at_or_after(entry + 1)
            if near is not None and near[0] < known.entry and start.offset < near[1] < known.offset:
                known = Anchor(*near)
        return known

    def enough(self, start: Anchor, first: int, last: int) -> int:
        """Return about how many bytes from ``start`` on contain the entries ``first`` to ``last``."""
        near = self.after(first)
        record = (near.offset - start.offset) / max(1, near.entry - start.entry)
        expected = int(record * (last + 1 - start.entry)) + RECORD_HEADER_BYTES
        # Some more, since entries differ in size.
        return max(_SMALLEST_READ, expected + min(expected // 4, STEP))

    def learn(self, stretch: "RecordStretch", *, is_single: bool) -> None:
        """Remember offsets of the records of a walk: one per MiB, more where single entries are read."""
        starts = stretch.batch.offsets + (stretch.position - RECORD_HEADER_BYTES)
        for offsets, step in ((self.learned, STEP), (self._fine, _FINE_STEP)) if is_single else ((self.learned, STEP),):
            for i in _steps(starts, step):
                offsets.learn(stretch.batch.first_entry + i, int(starts[i]))

    def forget(self) -> None:
        """Drop the learned offsets, because data contradicts them."""
        self.learned.clear()
        self._fine.clear()

    def _bound_of(self, block: int) -> int:
        return min(self._ends[block], self._size)


def _steps(starts: "np.ndarray[tuple[int], np.dtype[np.int64]]", step: int) -> list[int]:
    """Return the row of the first record, and of the first one in each further ``step`` bytes."""
    rows: list[int] = np.flatnonzero(np.diff(starts // step, prepend=-1)).tolist()
    return rows
