"""Last step: copy bytes and numbers from a buffer to the contiguous columns of Arrow."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import kernel
from ledgerfs.formats.memory_loads import load_int64
from ledgerfs.messages.kernels.arrays import borrowed, copy_bytes, empty
from ledgerfs.messages.kernels.wire import ABSENT, field_map, read_varint, skip_fixed, walk_fields

_LARGEST_COLUMN = 2**31 - 1
_MOST_MICROSECONDS = 2**63 // 1000
_PAIR = field_map(places={1: 0, 2: 2})
"""Key and value of a property."""


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
    """Return the same as a string array; bytes that are not UTF-8 become U+FFFD."""
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
    places = empty(4 * total, np.int64).reshape(4, total)
    places.fill(0)
    _find_properties(data, at, end, fields, offsets, places, _PAIR)
    keys = gather_text(data, places[0], places[1])
    values = gather_text(data, places[2], places[3])
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values)


def are_equal(data: Bytes, at: Int64, size: Int64) -> bool:
    """Whether all of ``data[at[i] : at[i] + size[i]]`` are the same bytes."""
    return bool(_are_equal(data, at, size))


def gather_times(milliseconds: Int64, absent: int = ABSENT) -> tuple[pa.Array, int]:
    """Return times, null where ``absent`` or where a 64-bit count of microseconds overflows; and the number of overflows."""
    valid, overflown = milliseconds != absent, 0
    if milliseconds.min(initial=0) <= -_MOST_MICROSECONDS or milliseconds.max(initial=0) >= _MOST_MICROSECONDS:
        fitting = (milliseconds > -_MOST_MICROSECONDS) & (milliseconds < _MOST_MICROSECONDS)
        overflown = int(np.count_nonzero(valid & ~fitting))
        valid &= fitting
    microseconds = empty(milliseconds.size, np.int64)
    np.multiply(milliseconds, 1000, out=microseconds)
    microseconds[~valid] = 0
    return masked(microseconds, valid, pa.timestamp("us", tz="UTC")), overflown


def take(values: Int64, positions: Int64) -> Int64:
    """Return ``values[positions]``."""
    taken: Int64 = empty(positions.size, np.int64)
    # Positions are valid; with any other mode numpy would copy once more.
    values.take(positions, out=taken, mode="clip")
    return taken


def masked(values: "npt.NDArray[Any]", valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Return an array of numbers of an Arrow type of the same width, null where not ``valid``."""
    return pa.Array.from_buffers(kind, values.size, [bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))])


def require_countable(total: int) -> None:
    """Raise `CorruptObjectError` for more bytes or items than the offsets of an array can count."""
    if not 0 <= total <= _LARGEST_COLUMN:
        raise CorruptObjectError(
            f"a column of one batch of messages needs {total} bytes, because its messages repeat a field of their entry"
        )


def _gather(data: Bytes, at: Int64, size: Int64, valid: Mask | None) -> tuple["npt.NDArray[np.int32]", Bytes]:
    """Return offsets and bytes of a column."""
    offsets = _offsets(size, valid)
    target = empty(int(offsets[-1]), np.uint8)
    # Columns that are scattered in a table would be another type for a kernel.
    _copy_all(data, np.ascontiguousarray(at), offsets, target)
    return offsets, target


def bitmap(valid: Mask | None) -> pa.Buffer | None:
    """Return the validity bitmap of an array in Arrow's form; None if all items are valid."""
    return None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _decoded(text: bytes | None) -> str | None:
    return None if text is None else text.decode("utf-8", "replace")


def _offsets(size: Int64, valid: Mask | None = None) -> "npt.NDArray[np.int32]":
    """Return the start of each item, and the end of the last one; raises as `require_countable`."""
    sizes = size if valid is None else np.where(valid, size, 0)
    # The sum of sizes that are all countable does not wrap.
    require_countable(int(sizes.max(initial=0)))
    ends = sizes.cumsum()
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
    """Compare eight bytes at a time, the last eight once more."""
    data = borrowed(data)  # type: ignore[call-arg]
    for i in range(1, at.size):
        one, other = at[0], at[i]
        last = size[0] - 8
        if size[i] != size[0]:
            return False
        for k in range(0, last, 8):
            if load_int64(data, one + k) != load_int64(data, other + k):
                return False
        if last >= 0:
            if load_int64(data, one + last) != load_int64(data, other + last):
                return False
            continue
        for k in range(size[0]):
            if data[one + k] != data[other + k]:
                return False
    return True


@kernel
def _find_properties(data, at, end, fields, offsets, places, pair):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Find key and value of each property up to the first field that breaks the bounds of its message."""
    data, places, pair = borrowed(data), borrowed(places), borrowed(pair)  # type: ignore[call-arg]
    for i in range(at.size):
        row, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        position = at[i]
        while row < stop and 0 <= position < end[i]:
            tag, position = read_varint(data, position, end[i])
            wire_type = tag & 7
            if position < 0 or (wire_type != 0 and wire_type != 2):  # noqa: PLR1714  (numba compiles this, not a membership)
                position = skip_fixed(position, end[i], wire_type) if position >= 0 else position
                continue
            size, position = read_varint(data, position, end[i])
            if wire_type == 0 or position < 0:
                continue
            if size < 0 or size > end[i] - position:
                break
            if tag >> 3 == fields[i]:
                walk_fields(data, position, position + size, places, row, pair, np.int64(0))
                row += 1
            position += size
