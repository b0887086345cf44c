"""Map the ``.entries`` file to the data object, which also has block headers and padding.

The index contains the start of each block, but not the size of the padding at its end; `PaddingProof` finds that without reading the data.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.pulsar_blob.block import trailing_padding
from ledgerfs.formats.pulsar_blob.index import OffloadIndex
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.storage.ordered_map import ordered_map


@dataclass(frozen=True, slots=True)
class BlockMap:
    """Where the records of each block are, in the data object and in the ``.entries`` file.

    Attributes
    ----------
    object_starts
        Offset of the block's first record in the data object.
    file_starts
        Offset of the same record in the ``.entries`` file; at the end the file's size, so there is one more than blocks.

    """

    object_starts: tuple[int, ...]
    file_starts: tuple[int, ...]

    @classmethod
    def of(cls, index: OffloadIndex, paddings: Sequence[int]) -> "BlockMap":
        """Build the map from the exact padding of each block, bytes."""
        spaces = record_spaces(index)
        lengths = (space - padding for space, padding in zip(spaces, paddings, strict=True))
        starts = tuple(block.offset + index.header_length for block in index.blocks)
        return cls(starts, tuple(accumulate(lengths, initial=0)))

    def ranges(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of the data object that make up bytes ``start`` to ``end`` of the file, in order."""
        found = []
        block = bisect_right(self.file_starts, start) - 1
        while start < end:
            stop = min(end, self.file_starts[block + 1])
            at = self.object_starts[block] + start - self.file_starts[block]
            if stop > start:
                found.append((at, at + stop - start))
            start = stop
            block += 1
        return found


def block_ends(index: OffloadIndex) -> list[int]:
    """Return the offset at which each block ends: where the next one begins, or the data object's length."""
    return [*(block.offset for block in index.blocks[1:]), index.data_length]


def record_spaces(index: OffloadIndex) -> list[int]:
    """Return how many bytes each block has after its header: records and padding."""
    ends = block_ends(index)
    return [end - block.offset - index.header_length for block, end in zip(index.blocks, ends, strict=True)]


_FEW_ENTRIES = 16
_FIRST_TAIL = 64 << 10
_LARGEST_TAIL = 4 << 20
_THREADS = 8


@dataclass(frozen=True, slots=True)
class _Padding:
    """One block's padding: its exact size, or an upper bound, bytes."""

    size: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class PaddingProof:
    """Finds the paddings of one ledger.

    Attributes
    ----------
    read
        Returns bytes ``start`` to ``end`` of the data object.
    walk
        Walks all records of a block and returns the offset at which the last one ends.

    """

    index: OffloadIndex
    key: str
    read: Callable[[int, int], bytes]
    walk: Callable[[int], int]

    def paddings(self) -> list[int]:
        """Return the padding of each block, bytes; that of the last one is 0. Raises `CorruptLedgerError`."""
        total = self.index.padding
        inner = range(len(self.index.blocks) - 1)
        found = list(ordered_map(self._look, inner, _THREADS, "ledgerfs-padding")) if inner else []
        for block in inner:
            if sum(padding.size for padding in found) <= total:
                break
            if not found[block].is_exact:
                found[block] = _Padding(block_ends(self.index)[block] - self.walk(block), is_exact=True)
        sizes = [padding.size for padding in found]
        if sum(sizes) != total:
            raise CorruptLedgerError(
                f"the blocks end in {sum(sizes)} bytes of padding, but the index leaves room for {total}",
                key=self.key,
                offset=0,
            )
        return [*sizes, 0]

    def _look(self, block: int) -> _Padding:
        blocks = self.index.blocks
        if blocks[block + 1].first_entry - blocks[block].first_entry <= _FEW_ENTRIES:
            return _Padding(self._hop(block), is_exact=True)
        end, space = block_ends(self.index)[block], record_spaces(self.index)[block]
        most = max(0, min(space, self.index.padding))
        size = min(most, _FIRST_TAIL)
        while True:
            bound = trailing_padding(self.read(end - size, end))
            # Bytes at the end that are all padding (except up to 3, by its phase) do not show where it begins.
            if bound + 3 < size or size == most:
                return _Padding(bound, is_exact=bound == 0)
            if size == _LARGEST_TAIL:
                return _Padding(end - self.walk(block), is_exact=True)
            size = min(most, 4 * size, _LARGEST_TAIL)

    def _hop(self, block: int) -> int:
        """Go from record header to record header of a block of few entries; return the bytes after the last record."""
        start, end = self.index.blocks[block], block_ends(self.index)[block]
        at = start.offset + self.index.header_length
        for entry in range(start.first_entry, self.index.blocks[block + 1].first_entry):
            if at + RECORD_HEADER_BYTES > end:
                raise CorruptLedgerError(
                    f"entry {entry} does not fit its block, which ends at byte {end}", key=self.key, offset=at
                )
            header = self.read(at, at + RECORD_HEADER_BYTES)
            length = int.from_bytes(header[:4], "big", signed=True)
            found = int.from_bytes(header[4:], "big", signed=True)
            if found != entry or not 0 <= length <= end - at - RECORD_HEADER_BYTES:
                raise CorruptLedgerError(
                    f"found entry {found} of {length} bytes, expected entry {entry}, in a block that ends at byte {end}",
                    key=self.key,
                    offset=at,
                )
            at += RECORD_HEADER_BYTES + length
        return end - at
