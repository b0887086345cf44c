"""Where in a data object an entry is: what the index tells, what earlier passes learned, and a guess that is checked.

The index knows the first entry of each block of many MiB. Every pass over records leaves offsets behind, about one a MiB, which are
certain. For an entry far from all of these, its place is guessed from the entries' average size, and the records around are found by their
headers (`ledgerfs.formats.record_search`); such places serve single entries only, and nothing that passes over many.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ledgerfs.cache.learned_offsets import STEP, LearnedOffsets
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.block import RECORD_HEADER_BYTES
from ledgerfs.formats.index import OffloadIndex
from ledgerfs.vfs.block_map import block_ends

if TYPE_CHECKING:
    from ledgerfs.vfs.record_walk import Stretch

LOOK = 512 << 10
"""Bytes that are read around a guess; what is nearer than so much is walked to."""

_FINE_STEP = 16 << 10
_GUESSES = 3
_SMALLEST_READ = 64 << 10


class Anchor(NamedTuple):
    """An entry, and the offset of its record in the data object."""

    entry: int
    offset: int


class EntryPlaces:
    """The places of one ledger's entries. Safe in threads.

    Parameters
    ----------
    size
        Bytes of the data object as the store tells it.
    learned
        Certain places, also from earlier processes.

    """

    __slots__ = ("_ends", "_found", "_index", "_key", "_size", "learned")

    def __init__(self, index: OffloadIndex, key: str, size: int, learned: LearnedOffsets) -> None:
        self._index = index
        self._key = key
        self._size = size
        self._ends = block_ends(index)
        self._found = LearnedOffsets(_FINE_STEP)
        self.learned = learned

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
        """Return the offset behind a block; raises `CorruptLedgerError` where the object ends before its records begin."""
        end, start = self._bound_of(block), self.start_of(block)
        if start.offset > end:
            raise CorruptLedgerError(
                f"entries from {start.entry} on are not in the object: the index places them at byte "
                f"{self._index.blocks[block].offset}, the blocks end at byte {min(self._index.data_length, self._size)}",
                key=self._key,
                offset=self._index.blocks[block].offset,
            )
        return end

    def before(self, entry: int, *, is_single: bool) -> Anchor:
        """Return the nearest known place at or before an entry, in its block; for a single entry it may be one that was found."""
        (block,) = self.blocks_of(entry, entry)
        known, bound = self.start_of(block), self._bound_of(block)
        for offsets in (self.learned, self._found) if is_single else (self.learned,):
            near = offsets.at_or_before(entry)
            if near is not None and near[0] > known.entry and known.offset < near[1] < bound:
                known = Anchor(*near)
        return known

    def behind(self, entry: int, *, is_single: bool) -> Anchor:
        """Return the nearest known place behind an entry: of another entry of its block, or the block's end."""
        (block,) = self.blocks_of(entry, entry)
        known, start = Anchor(self.last_entry_of(block) + 1, self._bound_of(block)), self.start_of(block)
        for offsets in (self.learned, self._found) if is_single else (self.learned,):
            near = offsets.at_or_after(entry + 1)
            if near is not None and near[0] < known.entry and start.offset < near[1] < known.offset:
                known = Anchor(*near)
        return known

    def reach(self, start: Anchor, first: int, last: int, *, is_single: bool) -> tuple[int, int]:
        """Return where entries certainly end, and about how many bytes from a place before them on will do."""
        near = self.behind(first, is_single=is_single)
        record = (near.offset - start.offset) / max(1, near.entry - start.entry)
        # A quarter more: entries are not all alike.
        enough = int(1.25 * record * (last + 1 - start.entry)) + RECORD_HEADER_BYTES
        return self.behind(last, is_single=is_single).offset, max(_SMALLEST_READ, enough)

    def approach(self, entry: int, read: Callable[[int, int], bytes]) -> None:
        """Find places near an entry that is far from all known ones, with one read of `LOOK` bytes, seldom two; or leave it."""
        # numba, which this imports, is not needed by those who only copy bytes.
        from ledgerfs.formats.record_search import find_records

        for _ in range(_GUESSES):
            low, high = self.before(entry, is_single=True), self.behind(entry, is_single=True)
            step = (entry - low.entry) * (high.offset - low.offset) // (high.entry - low.entry)
            if step <= LOOK or high.offset - low.offset <= LOOK:
                return
            start = max(low.offset, min(low.offset + step - LOOK // 2, high.offset - LOOK))
            looked = read(start, start + LOOK)
            found = find_records(looked, low.entry, high.entry - 1, high.offset - start)
            if found is None:
                return
            self._keep_found(found.first_entry, found.starts + start)

    def learn(self, stretch: "Stretch", *, is_single: bool) -> None:
        """Remember places among records that were passed: one a MiB, more where single entries are looked for."""
        starts = stretch.batch.offsets + (stretch.position - RECORD_HEADER_BYTES)
        for i in _steps(starts, STEP):
            self.learned.learn(stretch.batch.first_entry + i, int(starts[i]))
        if is_single:
            self._keep_found(stretch.batch.first_entry, starts)

    def forget(self) -> bool:
        """Drop what was learned, which something contradicts; return whether there was anything."""
        return any([self.learned.clear(), self._found.clear()])

    def _bound_of(self, block: int) -> int:
        return min(self._ends[block], self._size)

    def _keep_found(self, first_entry: int, starts: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        for i in _steps(starts, _FINE_STEP):
            self._found.learn(first_entry + i, int(starts[i]))


def _steps(starts: "np.ndarray[tuple[int], np.dtype[np.int64]]", step: int) -> list[int]:
    """Return the rows of the first record, and of the first one in each stretch of ``step`` bytes."""
    rows: list[int] = np.flatnonzero(np.diff(starts // step, prepend=-1)).tolist()
    return rows
