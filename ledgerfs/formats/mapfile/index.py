"""The ``index`` of a MapFile: positions of some of the keys in its data. It is itself a SequenceFile of blocks.

An entry ``key, position`` means that a walk from ``position`` reaches the key, not that the key is the first there: in data that is in
blocks, keys before it may be in the same block. The first entry is that of key -1. There is one for every 128 records, or for more if a
block has more. The data contains all of it, too.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np

from ledgerfs.errors import CorruptIndexError, UnsupportedFormatError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.mapfile.blocks import KEY_BYTES, Block, block_keys, find_block, inflate_part
from ledgerfs.formats.mapfile.first_record import METADATA_KEY
from ledgerfs.formats.mapfile.header import Codec, RecordCompression, SequenceHeader, parse_header
from ledgerfs.formats.mapfile.window import Role, Window


@dataclass(frozen=True, slots=True)
class MapFileIndex:
    """A parsed index.

    Attributes
    ----------
    keys
        Ascending, shape (entries,); empty if the writer ended before it closed the file.
    positions
        Byte offsets in the data, ascending, shape (entries,): where to begin for each key.

    """

    keys: Int64
    positions: Int64

    def __len__(self) -> int:
        return int(self.keys.size)


def parse_index(data: bytes | memoryview, *, data_size: int, key: str | None = None) -> MapFileIndex:
    """Parse a whole index, of data of ``data_size`` bytes.

    Raises `CorruptIndexError` for an index that is broken or cut short, and for keys or positions that do not ascend, or are outside of the
    data; `UnsupportedFormatError` for classes, versions and codecs that ledgerfs does not read, and for an index that is not in blocks.
    Allocates no more than ``data`` could inflate to.
    """
    window = Window(memoryview(data), 0, len(data), Role.INDEX, key)
    # The window is the whole file, so neither header nor block asks for more bytes: they are complete, or an error is raised.
    header = cast("SequenceHeader", parse_header(window))
    if header.codec is None or header.compression is not RecordCompression.BLOCK:
        raise UnsupportedFormatError(f"the index has compression {header.compression.name}, expected BLOCK", key=key)
    at, keys, positions = header.size, [_NONE], [_NONE]
    while at < len(data):
        block = cast("Block", find_block(window, at, header.sync))
        keys.append(block_keys(window, block, header.codec))
        positions.append(_positions(window, block, header.codec))
        at = block.end
    index = MapFileIndex(np.concatenate(keys), np.concatenate(positions))
    _check(window, index, data_size)
    return index


_NONE = np.empty(0, np.int64)


def _positions(window: Window, block: Block, codec: Codec) -> Int64:
    """Return the values of a block, each a ``LongWritable``."""
    count = block.records
    if inflate_part(window, block.value_lengths, codec, count, count).count(KEY_BYTES) != count:
        raise window.corrupt("the index has positions that do not have 8 bytes", block.value_lengths.start)
    values = inflate_part(window, block.values, codec, count * KEY_BYTES, count * KEY_BYTES)
    return np.frombuffer(values, ">i8").astype(np.int64)


def _check(window: Window, index: MapFileIndex, data_size: int) -> None:
    """Raise `CorruptIndexError` unless keys and positions ascend, and every position is in the data."""
    for name, values in (("key", index.keys), ("position", index.positions)):
        wrong = np.flatnonzero(values[1:] <= values[:-1])
        if wrong.size:
            at = int(wrong[0])
            reason = f"{name} {values[at + 1]} of index entry {at + 1} is not greater than {values[at]}, the one before"
            raise CorruptIndexError(reason, key=window.key)
    if len(index) and not (
        index.keys[0] >= METADATA_KEY and 0 <= index.positions[0] <= index.positions[-1] < data_size
    ):
        raise CorruptIndexError(
            f"the index does not match the data: keys from {index.keys[0]}, positions from {index.positions[0]} to {index.positions[-1]}, "
            f"in data of {data_size} bytes",
            key=window.key,
        )
