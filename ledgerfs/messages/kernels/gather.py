"""Last step: bytes and numbers are copied from places in a buffer to the contiguous columns of Arrow."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_int64
from ledgerfs.messages.kernels.arrays import borrowed, copy_bytes, empty
from ledgerfs.messages.kernels.wire import ABSENT, read_varint, skip_fixed

_LARGEST_COLUMN = 2**31 - 1
_MOST_MICROSECONDS = 2**63 // 1000


def gather_bytes(data: Bytes, at: Int64, size: Int64, valid: Mask | None = None) -> pa.Array:
    """Return a binary array of ``data[at[i] : at[i] + size[i]]``, null where not ``valid``.

    The caller has checked that the ranges are inside ``data``. Raises `CorruptObjectError` for more bytes than an array can hold.
    """
    offsets, target = _gather(data, at, size, valid)
    return pa.Array.from_buffers(pa.binary(), at.size, [bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(target)])


def packed_bytes(data: Bytes, size: Int64, valid: Mask | None = None) -> pa.Array:
    """Return a binary array of items that are contiguous in ``data``, ``size[i]`` bytes each; nothing is copied."""
    offsets = _offsets(size)
    return pa.Array.from_buffers(pa.binary(), size.size, [bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(data)])


def gather_text(data: Bytes, at: Int64, size: Int64, valid: Mask | None = None) -> pa.Array:
    """Return the same as a string array; what is not UTF-8 becomes U+FFFD."""
    offsets, target = _gather(data, at, size, valid)
    buffers = [bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(target)]
    text = pa.Array.from_buffers(pa.string(), at.size, buffers)
    if target.size and target.max() >= 0x80:
        try:
            text.validate(full=True)
        except pa.ArrowInvalid:
            require_countable(3 * target.size)  # U+FFFD has three bytes
            return pa.array([_decoded(one) for one in text.view(pa.binary()).to_pylist()], pa.string())
    return text


def gather_properties(data: Bytes, at: Int64, end: Int64, fields: Int64, counts: Int64) -> pa.Array:
    """Return a map array of the properties of each message, in their order, duplicates kept.

    ``fields`` is the number of the property field in the metadata at ``data[at[i] : end[i]]``, which has ``counts[i]`` of them.
    """
    offsets = _offsets(counts)
    total = int(offsets[-1])
    places = empty(4 * total, np.int64).reshape(total, 4)
    places.fill(0)
    _find_properties(data, at, end, fields, offsets, places)
    keys = gather_text(data, places[:, 0], places[:, 1])
    values = gather_text(data, places[:, 2], places[:, 3])
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values)


def are_equal(data: Bytes, at: Int64, size: Int64) -> bool:
    """Whether all of ``data[at[i] : at[i] + size[i]]`` are the same bytes."""
    return bool(_are_equal(data, at, size))


def gather_times(milliseconds: Int64, absent: int = ABSENT) -> tuple[pa.Array, int]:
    """Return times, null where ``absent``, and where a 64-bit count of microseconds overflows; and how many do."""
    microseconds, valid = empty(milliseconds.size, np.int64), empty(milliseconds.size, np.bool_)
    overflown = _to_microseconds(milliseconds, absent, microseconds, valid)
    return masked(microseconds, valid, pa.timestamp("us", tz="UTC")), overflown


def take(values: Int64, positions: Int64) -> Int64:
    """Return ``values[positions]``."""
    taken: Int64 = empty(positions.size, np.int64)
    # Positions are inside; with any other mode numpy would copy once more.
    np.take(values, positions, out=taken, mode="clip")
    return taken


def masked(values: "npt.NDArray[Any]", valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Return an array of numbers of an Arrow type of the same width, null where not ``valid``."""
    return pa.Array.from_buffers(kind, values.size, [bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))])


def require_countable(total: int) -> None:
    """Raise `CorruptObjectError` for more bytes or items than the offsets of an array can count."""
    if not 0 <= total <= _LARGEST_COLUMN:
        raise CorruptObjectError(
            f"{total} bytes in one column of one batch of messages, which repeat a field of their entry"
        )


def _gather(data: Bytes, at: Int64, size: Int64, valid: Mask | None) -> tuple["npt.NDArray[np.int32]", Bytes]:
    """Return offsets and bytes of a column."""
    offsets = _offsets(size, valid)
    target = empty(int(offsets[-1]), np.uint8)
    # Of columns that lie scattered in a table: to a kernel they are another type.
    _copy_all(data, np.ascontiguousarray(at), offsets, target)
    return offsets, target


def bitmap(valid: Mask | None) -> pa.Buffer | None:
    """Return which items of an array are not null, as Arrow has it; None for all."""
    return None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode("utf-8", "replace")


def _offsets(size: Int64, valid: Mask | None = None) -> "npt.NDArray[np.int32]":
    """Return where each item begins, and where the last one ends; raises as `require_countable`."""
    sizes = size if valid is None else np.where(valid, size, 0)
    # Of sizes that are all countable the sum does not wrap.
    require_countable(int(sizes.max(initial=0)))
    ends = np.cumsum(sizes)
    require_countable(int(ends[-1]) if ends.size else 0)
    offsets = empty(size.size + 1, np.int32)
    offsets[0] = 0
    offsets[1:] = ends
    return offsets


@kernel
def _copy_all(data, at, offsets, target):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(at.size):
        start = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - start
        if length > 0:
            copy_bytes(target, start, data, at[i], length)  # type: ignore[call-arg]


@kernel
def _are_equal(data, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    data = borrowed(data)  # type: ignore[call-arg]
    for i in range(1, at.size):  # noqa: SIM110  (numba compiles loops)
        if size[i] != size[0] or not _is_same(data, at[0], at[i], size[0]):
            return False
    return True


@inlined_kernel
def _is_same(data, one, other, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Compare eight bytes at a time, the last eight once more."""
    if size < 8:
        for k in range(size):  # noqa: SIM110
            if data[one + k] != data[other + k]:
                return False
        return True
    for k in range(0, size - 8, 8):
        if load_int64(data, one + k) != load_int64(data, other + k):  # type: ignore[call-arg]
            return False
    last = size - 8
    return load_int64(data, one + last) == load_int64(data, other + last)  # type: ignore[call-arg]


@kernel
def _to_microseconds(milliseconds, absent, microseconds, valid):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    overflown = 0
    for i in range(milliseconds.size):
        value = milliseconds[i]
        valid[i] = value != absent and -_MOST_MICROSECONDS < value < _MOST_MICROSECONDS
        microseconds[i] = value * 1000 if valid[i] else 0
        overflown += value != absent and not valid[i]
    return overflown


@kernel
def _find_properties(data, at, end, fields, offsets, places):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Find key and value of each property, in metadata whose bounds an earlier walk has checked."""
    data, places = borrowed(data), borrowed(places)  # type: ignore[call-arg]
    for i in range(at.size):
        row = np.int64(offsets[i])
        position = at[i]
        while row < offsets[i + 1] and 0 <= position < end[i]:
            tag, position = read_varint(data, position, end[i])
            if position >= 0 and tag & 7 == 2:
                size, start = read_varint(data, position, end[i])
                if tag >> 3 == fields[i]:
                    _find_pair(data, start, start + size, places, row)
                    row += 1
            position = _after_field(data, position, end[i], tag & 7)


@kernel
def _find_pair(data, at, end, places, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill a row from a property, up to the first field that breaks its bounds."""
    while 0 <= at < end:
        tag, at = read_varint(data, at, end)
        if at < 0:
            return
        after = _after_field(data, at, end, tag & 7)
        if after >= 0 and (tag == 0x0A or tag == 0x12):  # noqa: PLR1714  (numba compiles this, not a membership)
            column = 0 if tag == 0x0A else 2
            size, start = read_varint(data, at, end)
            places[row, column] = start
            places[row, column + 1] = size
        at = after


@kernel
def _after_field(data, at, end, wire_type):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the index after the value of a field, or -1."""
    if at < 0:
        return -1
    if wire_type == 0:
        _, at = read_varint(data, at, end)
        return at
    if wire_type == 2:
        size, at = read_varint(data, at, end)
        return at + size if at >= 0 and 0 <= size <= end - at else -1
    return skip_fixed(at, end, wire_type)
