"""Blocks of a SequenceFile: many records, with their keys compressed together, and their values together.

``int32`` -1, the file's marker, vint number of records, then four parts, each a vint size and a stream: the keys' lengths (vints), the
keys, the values' lengths (vints), the values. The size of each stream's content follows from the number of records and the values' lengths.
It is inflated to exactly that size; a size that its stream is too short for is refused before memory is allocated.
"""

import re
from dataclasses import dataclass

import numpy as np

from ledgerfs.errors import DecompressionError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.mapfile.header import MAX_VINT_BYTES, SYNC_BYTES, Codec, read_vint
from ledgerfs.formats.mapfile.inflating import MOST_OF_A_BYTE, inflate
from ledgerfs.formats.mapfile.window import Window

SYNC_ESCAPE = b"\xff\xff\xff\xff"
MAX_LENGTH_BYTES = 5
"""Bytes of the longest vint that holds an int32."""

_PARTS = ("key lengths", "keys", "value lengths", "values")
KEY_BYTES = 8
_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BlockPart:
    """One of a block's four streams: indexes in the window's buffer."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Block:
    """Position of a block in a window.

    Attributes
    ----------
    start
        Index of its first byte in the window's buffer.
    records
        Number of its records, at least one.
    key_lengths, keys, value_lengths, values
        Its streams. Only the values may continue after the window.

    """

    start: int
    records: int
    key_lengths: BlockPart
    keys: BlockPart
    value_lengths: BlockPart
    values: BlockPart

    @property
    def end(self) -> int:
        """Index where the next block begins."""
        return self.values.end


def find_block(window: Window, start: int, sync: bytes) -> Block | int:
    """Find the streams of the block that begins at index ``start``, without inflating any.

    If the window ends before the sizes of all streams, returns a lower bound of the bytes that the block takes from ``start`` on.
    Raises `CorruptLedgerError` (in an index, `CorruptIndexError`) if no block begins there, or it would end after the file.
    """
    buffer, at = window.buffer, start + len(SYNC_ESCAPE) + SYNC_BYTES
    begin = buffer[start : start + len(SYNC_ESCAPE)]
    if begin != SYNC_ESCAPE[: len(begin)]:
        raise window.corrupt("expected the start of a block", start)
    if at > len(buffer):
        return _needed(window, start, at)
    if buffer[start + len(SYNC_ESCAPE) : at] != sync:
        raise window.corrupt("the sync marker of the block differs from that of the file", start + len(SYNC_ESCAPE))
    counted = _length(window, at, "number of records")
    if counted is None:
        return _needed(window, start, at)
    records, at = counted
    parts: list[BlockPart] = []
    for name in _PARTS:
        sized = _length(window, at, f"size of the {name}")
        if sized is None:
            return _needed(window, start, at)
        size, begins = sized
        at = begins + size
        window.check_inside("a block", start, at - start)
        parts.append(BlockPart(begins, at))
    block = Block(start, records, *parts)
    if not 0 < records <= MOST_OF_A_BYTE * (block.key_lengths.end - block.key_lengths.start):
        raise window.corrupt(f"a block has an impossible number of records: {records}", start)
    return block


def block_keys(window: Window, block: Block, codec: Codec) -> Int64:
    """Return the keys of a block, shape (records,), without inflating its values.

    Raises the errors of `find_block` for broken streams, and for keys that do not have eight bytes.
    """
    count = block.records
    lengths = inflate_part(window, block.key_lengths, codec, count, count)
    if lengths.count(KEY_BYTES) != count:
        raise window.corrupt(f"a block has keys that do not have {KEY_BYTES} bytes", block.key_lengths.start)
    keys = inflate_part(window, block.keys, codec, count * KEY_BYTES, count * KEY_BYTES)
    return np.frombuffer(keys, ">i8").astype(np.int64)


def inflate_part(window: Window, part: BlockPart, codec: Codec, least: int, most: int) -> bytes:
    """Return the ``least`` to ``most`` bytes that one stream of a block holds; raises the errors of `find_block` for any other size."""
    try:
        return inflate(window.buffer[part.start : part.end], codec, least, most)
    except DecompressionError as error:
        raise window.corrupt(str(error), part.start) from error


def _length(window: Window, at: int, what: str) -> tuple[int, int] | None:
    """Return a number from 0 to Java's longest array, and the index after it; None if the window ends before."""
    read = read_vint(window.buffer[at : at + MAX_VINT_BYTES], 0)
    if read is None:
        return None
    number, size = read
    if not 0 <= number <= _MAX_INT32:
        raise window.corrupt(f"the {what} of a block is impossible: {number}", at)
    return number, at + size


def _needed(window: Window, start: int, at: int) -> int:
    """Return how many bytes from ``start`` on are needed to read the number at ``at``; raises if the file ends before."""
    needed = max(at, len(window.buffer)) + 1 - start
    window.check_inside("a block", start, needed)
    return needed


def find_sync(buffer: memoryview, sync: bytes, start: int) -> int | None:
    """Return the first index from ``start`` on where a marker begins, with the -1 before it, or None: for a reader without an index.

    A block begins there, or, in files without blocks, a record begins after it. A value that holds the same bytes, such as a part of the
    same file, looks like a marker; only a walk from the start of the file, or from a position of the index, can distinguish them.
    """
    found = re.compile(re.escape(SYNC_ESCAPE + sync)).search(buffer, start)
    return None if found is None else found.start()
