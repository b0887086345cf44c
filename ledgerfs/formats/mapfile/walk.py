"""Walk through the records of a file's data, with any compression: batches of consecutive records with plain values.

A reader fetches a window of some MiB, calls `read_records` until that needs more bytes than the window has, and fetches the next window.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.errors import LedgerfsError, UnsupportedFormatError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.mapfile.blocks import MAX_LENGTH_BYTES, block_keys, find_block, inflate_part
from ledgerfs.formats.mapfile.compressed_values import InflatedValues, InflateStop, inflate_values
from ledgerfs.formats.mapfile.header import Codec, RecordCompression, SequenceHeader
from ledgerfs.formats.mapfile.inflating import MOST_OF_A_BYTE
from ledgerfs.formats.mapfile.records import (
    RecordScan,
    RecordStop,
    place_values,
    read_value_sizes,
    scan_records,
)
from ledgerfs.formats.mapfile.window import Window

DEFAULT_LIMIT = 1 << 30
"""Bytes of the largest block or value that is read. Pulsar writes blocks of 1 MB and up to one entry more; entries have up to 5 MiB."""

_RECORD_HEADER = 16
"""Two lengths and a key."""


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive records of a file.

    Attributes
    ----------
    buffer
        The bytes that hold the values: the window's own buffer if nothing is compressed.
    keys
        Shape (records,), as they are in the file: the caller checks that they ascend. The value of -1 is the ledger's metadata.
    starts, sizes
        Where in ``buffer`` each value is, bytes, shape (records,).
    places
        Index in the window's buffer where each record begins, with a marker before it, or the block that has it, shape (records,).

    """

    buffer: memoryview
    keys: Int64
    starts: Int64
    sizes: Int64
    places: Int64

    def __len__(self) -> int:
        return int(self.keys.size)


@dataclass(frozen=True, slots=True)
class Step:
    """Result of `read_records`.

    Attributes
    ----------
    records
        None if the window has no whole record from the start on, and at the end of the file.
    position
        Index in the window's buffer where the next record or block begins.
    needed
        How many bytes from ``position`` on a window needs at least to read on; 0 if this window may hold more records, and at the end of
        the file.

    """

    records: Records | None
    position: int
    needed: int


def read_records(
    window: Window, start: int, header: SequenceHeader, *, limit: int = DEFAULT_LIMIT, count: int | None = None
) -> Step:
    """Return the next records from index ``start`` on: one block of them, or as many as are in the window, up to ``count``.

    A record or block, or a marker before it, begins at ``start``. If values are compressed one by one, the records returned are those that
    fit into four times their compressed bytes, or into ``limit``. ``count`` does not cut blocks.

    Raises `CorruptLedgerError` with the offset for an invalid record, and for one whose length exceeds the file; the
    records before it are returned first. Raises `UnsupportedFormatError` for a value or block of more than ``limit`` bytes.
    """
    if window.offset + start >= window.file_size:
        return Step(None, start, 0)
    if header.compression is RecordCompression.BLOCK and header.codec is not None:
        return _read_block(window, start, header.sync, header.codec, limit)
    is_compressed = header.codec is not None
    scan = scan_records(window.buffer, start, header.sync, is_compressed=is_compressed, count=count)
    if not scan.keys.size:
        return _nothing(window, scan, limit)
    if header.codec is not None:
        return _inflated(window, start, scan, header.codec, limit)
    places = _places(scan, start, scan.keys.size)
    return Step(Records(window.buffer, scan.keys, scan.starts, scan.sizes, places), scan.position, 0)


def _nothing(window: Window, scan: RecordScan, limit: int) -> Step:
    """Return the step of a scan that found no whole record, or raise the error that explains it."""
    at = scan.position
    if scan.stop is RecordStop.MORE_BYTES:
        if window.offset + at >= window.file_size:
            return Step(None, at, 0)
        window.check_inside("a record", at, scan.needed)
        _check_limit(window, "a record", at, scan.needed, limit)
        return Step(None, at, scan.needed)
    if scan.stop is RecordStop.COMPLETE:
        return Step(None, at, 0)
    raise window.corrupt(
        {
            RecordStop.WRONG_SYNC: "the sync marker between records differs from that of the file",
            RecordStop.WRONG_LENGTH: f"a record has the impossible length of {scan.found} bytes",
            RecordStop.WRONG_KEY_LENGTH: f"a record has a key of {scan.found} bytes, expected 8",
            RecordStop.WRONG_VALUE_LENGTH: f"a value has the impossible length of {scan.found} bytes",
        }[scan.stop],
        at,
    )


def _places(scan: RecordScan, start: int, count: int) -> Int64:
    """Return where each of the first records of a scan from ``start`` begins: where the one before it ends."""
    return np.append(np.int64(start), (scan.starts + scan.sizes)[: count - 1])


def _inflated(window: Window, start: int, scan: RecordScan, codec: Codec, limit: int) -> Step:
    """Return the records of a scan with their values inflated, as many as fit; at least one."""
    room = min(limit, 4 * max(int(scan.sizes.sum()), 16 << 10))
    most = min(limit, MOST_OF_A_BYTE * int(scan.sizes[0]))
    values = inflate_values(window.buffer, scan.starts, scan.sizes, codec, room)
    while not values.starts.size and values.stop is InflateStop.FULL and room < most:
        room = min(most, 4 * room)
        values = inflate_values(window.buffer, scan.starts[:1], scan.sizes[:1], codec, room)
    done = values.starts.size
    if not done:
        raise _wrong_value(window, int(scan.starts[0]), values, limit)
    position = scan.position if done == scan.keys.size else int(scan.starts[done]) - _RECORD_HEADER
    places = _places(scan, start, done)
    return Step(Records(values.buffer, scan.keys[:done], values.starts, values.sizes, places), position, 0)


def _wrong_value(window: Window, at: int, values: InflatedValues, limit: int) -> LedgerfsError:
    if values.stop is InflateStop.FULL:
        return _too_large(window, "a value", at, limit + 1, limit)
    if values.stop is InflateStop.BROKEN:
        return window.corrupt("a value is not one complete zlib stream", at)
    return window.corrupt("the length field of a value does not match its length", at)


def _read_block(window: Window, start: int, sync: bytes, codec: Codec, limit: int) -> Step:
    block = find_block(window, start, sync)
    if isinstance(block, int) or block.end > len(window.buffer):
        needed = block if isinstance(block, int) else block.end - start
        _check_limit(window, "a block", start, needed, limit)
        return Step(None, start, needed)
    keys = block_keys(window, block, codec)
    lengths = inflate_part(window, block.value_lengths, codec, block.records, MAX_LENGTH_BYTES * block.records)
    sizes, total = read_value_sizes(lengths, block.records)
    if total < 0:
        raise window.corrupt("a block has invalid lengths of values", block.value_lengths.start)
    if total <= MOST_OF_A_BYTE * (
        block.values.end - block.values.start
    ):  # a larger claim is false: inflating raises that
        _check_limit(window, "a block", start, total, limit)
    values = inflate_part(window, block.values, codec, total, total)
    starts, sizes, wrong = place_values(values, sizes)
    if wrong >= 0:
        raise window.corrupt(
            f"the length field of value {wrong} of the block does not match the lengths in the block",
            block.values.start,
        )
    places = np.full(block.records, block.start, np.int64)
    return Step(Records(memoryview(values), keys, starts, sizes, places), block.end, 0)


def _check_limit(window: Window, what: str, at: int, size: int, limit: int) -> None:
    if size > limit:
        raise _too_large(window, what, at, size, limit)


def _too_large(window: Window, what: str, at: int, size: int, limit: int) -> UnsupportedFormatError:
    reason = f"{what} has {size} bytes or more, above the limit of {limit}"
    return UnsupportedFormatError(reason, key=window.key, offset=window.offset + at)
