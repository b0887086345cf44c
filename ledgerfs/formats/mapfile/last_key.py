"""The last key of a file, which proves that nothing is missing at its end. Without numba, since a catalog reads it of every ledger."""

import struct

from ledgerfs.formats.mapfile.blocks import KEY_BYTES, SYNC_ESCAPE, block_keys, find_block
from ledgerfs.formats.mapfile.header import SYNC_BYTES, RecordCompression, SequenceHeader
from ledgerfs.formats.mapfile.window import Window

_LENGTHS = struct.Struct(">iiq")


def keys_to_end(window: Window, start: int, header: SequenceHeader) -> tuple[int, int]:
    """Return the first and last key of the records from index ``start`` to the end of the file; the window ends there, too.

    A record, a block or a marker begins at ``start``. Raises `CorruptLedgerError` if the file is cut short or broken, if keys are not
    consecutive, and if there is no record. Values are not read.
    """
    in_blocks = header.compression is RecordCompression.BLOCK
    first = last = None
    at = start
    while at < len(window.buffer):
        found = _block(window, at, header) if in_blocks else _record(window, at, header)
        low, high, end = found
        if low is not None and high is not None:
            if last is not None and low != last + 1:
                raise window.corrupt(f"found key {low}, expected {last + 1}", at)
            first, last = low if first is None else first, high
        at = end
    if first is None or last is None:
        raise window.corrupt("truncated: no record", start)
    return first, last


def _block(window: Window, at: int, header: SequenceHeader) -> tuple[int, int, int]:
    """Return the first and last key of a block, and where it ends."""
    block = find_block(window, at, header.sync)
    if isinstance(block, int) or header.codec is None:
        raise window.corrupt("truncated: a block ends after the end of the file", at)
    keys = block_keys(window, block, header.codec)
    if (keys[1:] - keys[:-1] != 1).any():
        raise window.corrupt("the keys of a block are not consecutive", at)
    return int(keys[0]), int(keys[-1]), block.end


def _record(window: Window, at: int, header: SequenceHeader) -> tuple[int | None, int | None, int]:
    """Return the key of a record, as first and as last, and where the record ends; a marker has None for keys."""
    buffer = window.buffer
    if buffer[at : at + len(SYNC_ESCAPE)] == SYNC_ESCAPE:
        end = at + len(SYNC_ESCAPE) + SYNC_BYTES
        window.check_inside("a marker", at, end - at)
        if buffer[at + len(SYNC_ESCAPE) : end] != header.sync:
            raise window.corrupt("the sync marker between records differs from that of the file", at)
        return None, None, end
    window.check_inside("a record", at, _LENGTHS.size)
    length, key_length, key = _LENGTHS.unpack_from(buffer, at)
    if key_length != KEY_BYTES or length < KEY_BYTES + 4:
        raise window.corrupt(
            f"a record has the impossible length of {length} bytes, or key length of {key_length} bytes", at
        )
    window.check_inside("a record", at, 8 + length)
    return key, key, at + 8 + length
