"""The ledger's metadata: the value of key -1, the first record of the data, read from a few KiB and without numba.

A catalog reads only this of each ledger. Compressed streams are inflated at their beginnings only, and their checksums are at their ends:
damage that still parses is found when the records are read.
"""

import struct

from ledgerfs.errors import DecompressionError
from ledgerfs.formats.mapfile.blocks import KEY_BYTES, SYNC_ESCAPE, BlockPart, find_block
from ledgerfs.formats.mapfile.header import SYNC_BYTES, Codec, RecordCompression, SequenceHeader
from ledgerfs.formats.mapfile.inflating import inflate_start
from ledgerfs.formats.mapfile.window import Window

METADATA_KEY = -1

MAX_METADATA_BYTES = 1 << 20
"""Larger than any metadata, which takes a hundred bytes for each change of bookies."""

_RECORD = struct.Struct(">iiq")


def read_metadata_value(window: Window, header: SequenceHeader) -> bytes | int:
    """Return the bytes of the ledger's metadata, for `parse_ledger_metadata`; ``window`` has the first bytes of the file.

    If the window ends before the metadata does, returns how many bytes it needs at least.
    Raises `CorruptLedgerError` if the first record is broken, cut short, or not the metadata.
    """
    if header.size >= window.file_size:
        raise window.corrupt("truncated: the file has a header, but no records", header.size)
    in_blocks = header.compression is RecordCompression.BLOCK
    found = _first_of_block(window, header) if in_blocks else _first_record(window, header)
    if isinstance(found, int):
        return found
    key, at, value = found
    if key != METADATA_KEY:
        raise window.corrupt(f"the first record has key {key}, expected the metadata's key {METADATA_KEY}", at)
    return _value(window, value, header.codec)


def _first_record(window: Window, header: SequenceHeader) -> tuple[int, int, BlockPart] | int:
    """Return the key, where its record begins, and where its value is; or how many bytes the window needs."""
    buffer, at = window.buffer, header.size
    while buffer[at : at + 4] == SYNC_ESCAPE:
        if at + 4 + SYNC_BYTES > len(buffer):
            return _needed(window, at, 4 + SYNC_BYTES)
        if buffer[at + 4 : at + 4 + SYNC_BYTES] != header.sync:
            raise window.corrupt("the sync marker between records differs from that of the file", at)
        at += 4 + SYNC_BYTES
    if at + _RECORD.size > len(buffer):
        return _needed(window, at, _RECORD.size)
    length, key_length, key = _RECORD.unpack_from(buffer, at)
    if key_length != KEY_BYTES or length < KEY_BYTES + 4:
        raise window.corrupt(
            f"a record has the impossible length of {length} bytes, or key length of {key_length} bytes", at
        )
    _needed(window, at, 8 + length)
    return key, at, BlockPart(at + _RECORD.size, at + 8 + length)


def _first_of_block(window: Window, header: SequenceHeader) -> tuple[int, int, BlockPart] | int:
    """Return the first key, where its block begins, and where the block's values are; or how many bytes the window needs."""
    block = find_block(window, header.size, header.sync)
    if isinstance(block, int):
        return block + header.size
    key = _start(window, block.keys, header.codec, KEY_BYTES)
    if len(key) < KEY_BYTES:
        raise window.corrupt("a block has no keys", block.keys.start)
    return int.from_bytes(key, "big", signed=True), block.start, block.values


def _value(window: Window, part: BlockPart, codec: Codec | None) -> bytes | int:
    """Return the first value in ``part``, without its length; or how many bytes the window needs."""
    given = _start(window, part, codec, 4)
    length = int.from_bytes(given, "big", signed=True) if len(given) == 4 else 0
    if not 0 <= length <= MAX_METADATA_BYTES:
        raise window.corrupt(f"the metadata has the impossible length of {length} bytes", part.start)
    value = _start(window, part, codec, 4 + length)
    if len(value) == 4 + length:
        return value[4:]
    if part.end <= len(window.buffer):
        raise window.corrupt(f"the metadata has {max(0, len(value) - 4)} bytes, expected {length}", part.start)
    return min(part.end, 2 * len(window.buffer))


def _start(window: Window, part: BlockPart, codec: Codec | None, size: int) -> bytes:
    """Return the first ``size`` bytes that a stream holds, or fewer if the window ends before."""
    stream = window.buffer[part.start : part.end]
    if codec is None:
        return bytes(stream[:size])
    try:
        return inflate_start(stream, codec, size)
    except DecompressionError as error:
        raise window.corrupt(str(error), part.start) from error


def _needed(window: Window, at: int, size: int) -> int:
    window.check_inside("a record", at, size)
    return at + size
