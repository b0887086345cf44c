"""The records of a SequenceFile without blocks, found in whole buffers by a numba kernel; and the values of blocks.

A record is ``int32`` length, ``int32`` length of the key (8), key, value. After a length of -1 the file's marker follows. A value
is a ``BytesWritable``: ``int32`` length and its bytes, or, if compressed, a zlib stream of both. Importing this module imports numba
(half a second); `first_record` and `index` do not need it.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_int32, load_int64

SMALLEST_RECORD = 20
"""Bytes of a record with an empty value; a compressed one is larger."""


class RecordStop(IntEnum):
    """Reason why a scan stopped."""

    COMPLETE = 0
    """All requested records were found."""
    MORE_BYTES = 1
    """The next record, or its lengths, or a marker, ends after the buffer."""
    WRONG_SYNC = 2
    """The file's marker does not follow a length of -1."""
    WRONG_LENGTH = 3
    """A record claims an impossible length."""
    WRONG_KEY_LENGTH = 4
    """A key does not have eight bytes."""
    WRONG_VALUE_LENGTH = 5
    """A value claims another length than its record."""


@dataclass(frozen=True, slots=True)
class RecordScan:
    """The result of `scan_records`.

    Attributes
    ----------
    keys
        Keys of the complete records found, shape (records,).
    starts, sizes
        Positions in the buffer of each value's bytes, shape (records,): the value itself (without its length), or its zlib stream.
    position
        Index in the buffer where the next record, or a marker before it, begins.
    needed
        For `RecordStop.MORE_BYTES`, the bytes that the buffer needs from ``position`` on for the next record, or its length; 0 otherwise.
    stop
        Reason why there are no more.
    found
        The wrong length; 0 for every other stop.

    """

    keys: Int64
    starts: Int64
    sizes: Int64
    position: int
    needed: int
    stop: RecordStop
    found: int


def scan_records(
    buffer: memoryview, start: int, sync: bytes, *, is_compressed: bool, count: int | None = None
) -> RecordScan:
    """Find the records in ``buffer`` from index ``start`` on, up to ``count`` of them.

    Reads no byte outside the buffer, and allocates 24 bytes for each record that could be in it.
    """
    data = read_only(buffer)
    capacity = max(0, data.size - start) // SMALLEST_RECORD + 1
    capacity = capacity if count is None else min(count, capacity)
    keys, starts, sizes = (np.empty(capacity, np.int64) for _ in range(3))
    found, position, stop, value = _scan(data, start, read_only(sync), is_compressed, keys, starts, sizes)
    is_short = stop == RecordStop.MORE_BYTES
    return RecordScan(
        keys[:found],
        starts[:found],
        sizes[:found],
        position,
        value if is_short else 0,
        RecordStop(stop),
        0 if is_short else value,
    )


def read_value_sizes(lengths: bytes, count: int) -> tuple[Int64, int]:
    """Return ``count`` sizes, shape (count,), which ``lengths`` holds as vints, and their sum.

    The sum is -1 if ``lengths`` is not exactly that many vints, or one of them is not a size of a ``BytesWritable``.
    """
    sizes = np.empty(count, np.int64)
    return sizes, int(_read_sizes(read_only(lengths), sizes))


def place_values(values: bytes, sizes: Int64) -> tuple[Int64, Int64, int]:
    """Find the bytes of each ``BytesWritable`` in ``values``, which are ``sizes`` bytes long and fill it.

    Returns starts in ``values`` and sizes of the bytes alone, shapes as ``sizes``, and the number of the first value that claims another
    size than ``sizes`` has, or -1.
    """
    starts, lengths = np.empty_like(sizes), np.empty_like(sizes)
    wrong = int(_place(read_only(values), sizes, starts, lengths))
    return starts, lengths, wrong


def read_only(buffer: bytes | memoryview) -> npt.NDArray[np.uint8]:
    """Return the bytes as an array of the one type that kernels are compiled for."""
    array = np.frombuffer(buffer, np.uint8)
    array.flags.writeable = False
    return array


@kernel
def _scan(data, start, marker, is_compressed, keys, starts, sizes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0911, PLR0917
    at = start
    for i in range(keys.size):
        at, stop = _after_markers(data, at, marker)
        if stop:
            return i, at, stop, 20 if stop == 1 else 0
        length = np.int64(load_int32(data, at))  # type: ignore[call-arg]
        if length < 12:
            return i, at, 3, length
        if at + 8 > data.size:
            return i, at, 1, 8 + length
        key_length = np.int64(load_int32(data, at + 4))
        if key_length != 8:
            return i, at, 4, key_length
        if length > data.size - at - 8:
            return i, at, 1, 8 + length
        value, size = at + 16, length - 8
        if not is_compressed:
            value, size = value + 4, size - 4
            claimed = np.int64(load_int32(data, at + 16))
            if claimed != size:
                return i, at, 5, claimed
        keys[i], starts[i], sizes[i] = load_int64(data, at + 8), value, size
        at += 8 + length
    return keys.size, at, 0, 0


@inlined_kernel
def _after_markers(data, at, marker):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where the length of the next record is, from ``at`` on, and 0; or where reading ended, and a `RecordStop`."""
    while at + 4 <= data.size:
        if load_int32(data, at) != -1:  # type: ignore[call-arg]
            return at, 0
        if at + 20 > data.size:
            return at, 1
        for k in range(16):
            if data[at + 4 + k] != marker[k]:
                return at, 2
        at += 20
    return at, 1


@kernel
def _read_sizes(data, sizes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = total = np.int64(0)
    for i in range(sizes.size):
        if at >= data.size:
            return -1
        size = np.int64(np.int8(data[at]))
        at += 1
        if -116 <= size < -112:
            # As in `read_vint`; an int32 that is not negative takes four bytes at most.
            following = -112 - size
            if at + following > data.size:
                return -1
            size = np.int64(0)
            for k in range(following):
                size = size * 256 + data[at + k]
            at += following
        if not 4 <= size < 2**31:
            return -1
        sizes[i] = size
        total += size
    return total if at == data.size else -1


@kernel
def _place(data, sizes, starts, lengths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = 0
    for i in range(sizes.size):
        if np.int64(load_int32(data, at)) != sizes[i] - 4:  # type: ignore[call-arg]
            return i
        starts[i], lengths[i] = at + 4, sizes[i] - 4
        at += sizes[i]
    return -1
