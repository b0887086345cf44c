"""Last step: bytes that lie about in a buffer, put one behind the other as Arrow wants them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from ledgerfs.errors import CorruptObjectError
from ledgerfs.messages.wire import copy_bytes, read_varint, skip_fixed

Bytes = npt.NDArray[np.uint8]
Int64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_LARGEST_COLUMN = 2**31 - 1


def gather_bytes(data: Bytes, at: Int64, size: Int64, valid: Mask | None = None) -> pa.Array:
    """Return a binary array of ``data[at[i] : at[i] + size[i]]``, null where not ``valid``.

    The caller sees to it that the ranges are inside ``data``. Raises `CorruptObjectError` for more than an array can hold.
    """
    sizes = size if valid is None else np.where(valid, size, 0)
    total = int(sizes.sum())
    if total > _LARGEST_COLUMN:
        raise CorruptObjectError(
            f"{total} bytes in one column of one batch of messages, which repeat what their entry says"
        )
    offsets = np.zeros(at.size + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    target = np.empty(total, np.uint8)
    _copy_all(data, at, sizes, offsets, target)
    buffers = [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(target)]
    return pa.Array.from_buffers(pa.binary(), at.size, buffers)


def gather_text(data: Bytes, at: Int64, size: Int64, valid: Mask | None = None) -> pa.Array:
    """Return the same as a string array; what is not UTF-8 becomes U+FFFD."""
    array = gather_bytes(data, at, size, valid)
    try:
        text = array.view(pa.string())
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(
            [None if one is None else one.decode("utf-8", "replace") for one in array.to_pylist()], pa.string()
        )
    return text


def gather_properties(data: Bytes, at: Int64, end: Int64, fields: Int64, counts: Int64) -> pa.Array:
    """Return a map array of the properties of each message, in their order, duplicates kept.

    ``fields`` is the number of the property field in the metadata at ``data[at[i] : end[i]]``, which has ``counts[i]`` of them.
    """
    offsets = np.zeros(at.size + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    places = np.zeros((int(offsets[-1]), 4), np.int64)
    _find_properties(data, at, end, fields, offsets, places)
    keys = gather_text(data, places[:, 0], places[:, 1])
    values = gather_text(data, places[:, 2], places[:, 3])
    return pa.MapArray.from_arrays(pa.array(offsets), keys, values)


def _bitmap(valid: Mask | None) -> pa.Buffer | None:
    return None if valid is None or valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def masked(values: npt.NDArray[np.generic], valid: Mask, kind: pa.DataType) -> pa.Array:
    """Return an array of numbers of an Arrow type of the same width, null where not ``valid``."""
    return pa.Array.from_buffers(kind, values.size, [_bitmap(valid), pa.py_buffer(np.ascontiguousarray(values))])


@njit(nogil=True, cache=True)
def _copy_all(data, at, sizes, offsets, target):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(at.size):
        copy_bytes(target, offsets[i], data, at[i], sizes[i])  # type: ignore[call-arg]


@njit(nogil=True, cache=True)
def _find_properties(data, at, end, fields, offsets, places):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Find key and value of each property, in metadata that was walked before, so that its fields fit."""
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
            position = _behind_field(data, position, end[i], tag & 7)


@njit(nogil=True, cache=True)
def _find_pair(data, at, end, places, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill a row from a property; what breaks its bounds ends it."""
    while 0 <= at < end:
        tag, at = read_varint(data, at, end)
        if at < 0:
            return
        behind = _behind_field(data, at, end, tag & 7)
        if behind >= 0 and (tag == 0x0A or tag == 0x12):  # noqa: PLR1714  (numba compiles this, not a membership)
            column = 0 if tag == 0x0A else 2
            size, start = read_varint(data, at, end)
            places[row, column] = start
            places[row, column + 1] = size
        at = behind


@njit(nogil=True, cache=True)
def _behind_field(data, at, end, wire_type):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the position behind the value of a field, or -1."""
    if at < 0:
        return -1
    if wire_type == 0:
        _, at = read_varint(data, at, end)
        return at
    if wire_type == 2:
        size, at = read_varint(data, at, end)
        return at + size if at >= 0 and 0 <= size <= end - at else -1
    return skip_fixed(at, end, wire_type)
