"""The map from the ``.entries`` file to the data object, which has block headers and padding besides.

The index gives where blocks begin, not how much padding is at their end; `padding_proof` finds that without reading the data.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ledgerfs.formats.pulsar_blob.index import OffloadIndex


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
