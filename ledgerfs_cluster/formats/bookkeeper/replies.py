"""Replies of a bookie, in version 2 of its protocol, found in whole buffers by a kernel (``docs/formats/bookkeeper.md``).

Replies to pipelined requests come in any order: match single ones by ledger and entry, those of batches by the request's id.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.kernel import kernel
from ledgerfs.formats.memory_loads import load_int32, load_int64, load_uint32
from ledgerfs_cluster.errors import CorruptReplyError

MAX_REPLY_BYTES = 256 << 20
"""Bookies send no larger frame: their largest entries have 5 MiB, unless configured otherwise."""


class Operation(IntEnum):
    """Kind of request that a reply is for."""

    READ = 2
    BATCH_READ = 7


class ReplyCode(IntEnum):
    """A bookie's result code."""

    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO = 101
    UNAUTHORISED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    UNKNOWN_LEDGER_STATE = 107


@dataclass(frozen=True, slots=True)
class Replies:
    """Whole replies in a buffer, one row each, in the order of the bytes; all arrays have shape (replies,).

    Attributes
    ----------
    operations
        An `Operation` each.
    codes
        A `ReplyCode` each, or a number that later bookies may have.
    ledgers, entries
        As requested: for the newest entry the id is -1, for a batch the first of its ids.
    request_ids
        Request id of a batch; -1 for single entries.
    starts, sizes
        Start of the stored entry, or of a batch's list, in the buffer, and its bytes; 0 bytes if the code is not OK.
    position
        Index in the buffer after the last whole reply.
    missing
        Bytes that the next reply lacks in the buffer, at least 1; with fewer than 4 bytes of it, those up to its length.

    """

    operations: Int64
    codes: Int64
    ledgers: Int64
    entries: Int64
    request_ids: Int64
    starts: Int64
    sizes: Int64
    position: int
    missing: int

    def __len__(self) -> int:
        return int(self.codes.size)


def scan_replies(buffer: memoryview, start: int, end: int, *, key: str) -> Replies:
    """Find the whole replies in ``buffer[start:end]``; ``key`` names the bookie in errors.

    Raises `CorruptReplyError` for a frame that is not a reply to a read, or claims more than `MAX_REPLY_BYTES`. Reads no byte after
    ``end``, and allocates 56 bytes for each reply found.
    """
    data = _bytes_of(buffer, start, end)
    count, position, missing, fault = _count(data, start, end, MAX_REPLY_BYTES)
    if fault:
        raise CorruptReplyError(_FAULTS[fault].format(value=missing), key=key, offset=position)
    rows = np.empty((7, count), np.int64)
    _fill(data, start, rows)
    operations, codes, ledgers, entries, request_ids, starts, sizes = rows
    return Replies(operations, codes, ledgers, entries, request_ids, starts, sizes, position, missing)


def batch_entries(buffer: memoryview, start: int, size: int, *, key: str) -> tuple[Int64, Int64]:
    """Return (starts, sizes) of the stored entries in the list of a batch, ``buffer[start : start + size]``; shape (entries,) each.

    Raises `CorruptReplyError` for a list whose entries do not fill it. Reads no byte outside it.
    """
    end = start + size
    data = _bytes_of(buffer, start, end)
    count, position = _count_listed(data, start, end)
    if position != end:
        raise CorruptReplyError(
            "an entry of a batch reply extends beyond the end of the reply", key=key, offset=position
        )
    rows = np.empty((2, count), np.int64)
    _fill_listed(data, start, rows)
    return rows[0], rows[1]


def _bytes_of(buffer: memoryview, start: int, end: int) -> "np.ndarray[tuple[int], np.dtype[np.uint8]]":
    data = np.frombuffer(buffer.toreadonly(), np.uint8)
    if not 0 <= start <= end <= data.size:
        raise IndexError(f"bytes {start} to {end} of {data.size}")
    return data


_FAULTS = {
    1: "the reply has an impossible size of {value} bytes",
    2: "the header {value:#010x} is not that of a read reply of protocol version 2",
    3: "a batch reply of {value} bytes is too short for its request id",
}


@kernel
def _count(data, start, end, most):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return (whole replies, index after them, bytes missing or the faulty value, number of the fault or 0)."""
    at, count = start, 0
    while end - at >= 4:
        size = np.int64(load_int32(data, at))  # type: ignore[call-arg]
        if size < 24 or size > most:
            return count, at, size, 1
        if end - at >= 8:
            # Check early: a frame that claims to be large may not be a reply, and the rest of it may never arrive.
            header = np.int64(load_uint32(data, at + 4))
            operation = (header >> 16) & 0xFF
            if header >> 24 != 2 or (operation != 2 and operation != 7):  # noqa: PLR1714  (numba compiles this)
                return count, at, header, 2
        if size > end - at - 4:
            return count, at, size - (end - at - 4), 0
        if operation == 7 and size < 32 and load_int32(data, at + 8) == 0:
            return count, at, size, 3
        at += 4 + size
        count += 1
    return count, at, np.int64(4 - (end - at)), 0


@kernel
def _fill(data, start, rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill in replies that `_count` has checked."""
    at = start
    for i in range(rows.shape[1]):
        size = np.int64(load_int32(data, at))  # type: ignore[call-arg]
        operation = (np.int64(load_uint32(data, at + 4)) >> 16) & 0xFF
        code = np.int64(load_int32(data, at + 8))
        has_id = operation == 7 and size >= 32
        body = 32 if operation == 7 else 24
        rows[0, i] = operation
        rows[1, i] = code
        rows[2, i] = load_int64(data, at + 12)
        rows[3, i] = load_int64(data, at + 20)
        rows[4, i] = load_int64(data, at + 28) if has_id else -1
        rows[5, i] = at + 4 + min(body, size)
        rows[6, i] = size - body if code == 0 else 0
        at += 4 + size


@kernel
def _count_listed(data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number of entries in a list, and their end: before ``end`` if one extends beyond it."""
    at, count = start, 0
    while end - at >= 4:
        size = np.int64(load_int32(data, at))  # type: ignore[call-arg]
        if size < 0 or size > end - at - 4:
            return count, at
        at += 4 + size
        count += 1
    return count, at


@kernel
def _fill_listed(data, start, rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = start
    for i in range(rows.shape[1]):
        size = np.int64(load_int32(data, at))  # type: ignore[call-arg]
        rows[0, i] = at + 4
        rows[1, i] = size
        at += 4 + size
