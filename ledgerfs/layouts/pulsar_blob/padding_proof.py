"""The exact padding at the end of each block, proved without reading the data.

The index gives the padding of all blocks together, by subtraction. The run of the padding pattern at a block's end bounds that block's
padding from above; a block of few entries is walked from record header to record header, which is exact. If all of these add up to the
total, every bound is exact. If they are more, some entry ends in the pattern, and blocks are walked record by record until the sum fits. If
they are less, or never fit, index and data contradict each other: nothing is guessed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.pulsar_blob.block import trailing_padding
from ledgerfs.formats.pulsar_blob.index import OffloadIndex
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.layouts.pulsar_blob.block_map import block_ends, record_spaces
from ledgerfs.storage.ordered_map import ordered_map

_FEW_ENTRIES = 16
_FIRST_TAIL = 64 << 10
_LARGEST_TAIL = 4 << 20
_THREADS = 8


@dataclass(frozen=True, slots=True)
class _Padding:
    """What is known of one block's padding: its exact size, or an upper bound, bytes."""

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
                f"the blocks end in {sum(sizes)} bytes of padding, the index leaves room for {total}",
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
            # A tail that is all padding (except up to 3 bytes, by its phase) tells too little.
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
                    f"entry {found} of {length} bytes stands where entry {entry} should, in a block that ends at byte {end}",
                    key=self.key,
                    offset=at,
                )
            at += RECORD_HEADER_BYTES + length
        return end - at
