"""Columns of the message table as JSON values: how long each is, and how it is written.

No Python object is made for a message: a column is two kernels, one that measures and one that writes to given places.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import kernel
from ledgerfs.messages.kernels.arrays import copy_bytes
from ledgerfs.messages.kernels.digits import number_size, time_size, write_number, write_time
from ledgerfs.messages.text.json_text import escaped_size, write_base64, write_escaped

ABSENT = -1
"""Size of a missing value."""

_NOT_TEXT = -2
_NULL = np.frombuffer(b"null", np.uint8)


@dataclass(frozen=True, slots=True)
class Values:
    """The texts of a column's values, without quotes around strings.

    Attributes
    ----------
    sizes
        Bytes of each, or `ABSENT`.
    write
        Called with an array of bytes and the index in it of each value; writes those that are not absent.

    """

    sizes: Int64
    write: Callable[[Bytes, Int64], None]

    @property
    def present(self) -> pa.BooleanArray:
        """Which values are not absent."""
        return pa.array(self.sizes != ABSENT)

    def to_array(self) -> pa.Array:
        """Return them as a column of text, null where absent."""
        ends = np.cumsum(np.maximum(self.sizes, 0))
        offsets = np.zeros(ends.size + 1, np.int64)
        offsets[1:] = ends
        out = np.empty(offsets[-1], np.uint8)
        self.write(out, offsets[:-1])
        bitmap = np.packbits(self.sizes != ABSENT, bitorder="little")
        buffers = [pa.py_buffer(bitmap), pa.py_buffer(offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.large_string(), ends.size, buffers)


def numbers(column: pa.Array) -> Values:
    """Return integers as digits."""
    column = column.cast(pa.int64())
    source = _view(column, 1, np.int64)
    sizes = _number_sizes(_valid(column), source)
    return Values(sizes, partial(_write_numbers, sizes, source))


def times(column: pa.Array) -> Values:
    """Return timestamps in microseconds as ISO 8601, UTC, to the ms."""
    source = _view(column, 1, np.int64)
    sizes = _time_sizes(_valid(column), source)
    return Values(sizes, partial(_write_times, sizes, source))


def escaped_texts(column: pa.Array) -> Values:
    """Return strings, escaped."""
    source = _variable_width(column)
    sizes = _checked(_text_sizes(_valid(column), *source))
    return Values(sizes, partial(_write_texts, sizes, *source))


def base64_texts(column: pa.Array) -> Values:
    """Return bytes in base64."""
    return _base64(column, _valid(column))


def text_or_base64(column: pa.Array) -> tuple[Values, Values]:
    """Return bytes twice: escaped, absent where they are not UTF-8; and in base64, absent where they are."""
    source = _variable_width(column)
    sizes = _text_sizes(_valid(column), *source)
    is_binary = sizes == _NOT_TEXT
    sizes[is_binary] = ABSENT
    return Values(sizes, partial(_write_texts, sizes, *source)), _base64(column, is_binary)


def constants(text: bytes, wanted: Mask) -> Values:
    """Return the same text wherever ``wanted``."""
    sizes = np.where(wanted, len(text), ABSENT)
    return Values(sizes, partial(_write_constants, sizes, np.frombuffer(text, np.uint8)))


def properties(column: pa.Array) -> Values:
    """Return maps as JSON objects, pairs in their order and duplicates kept; absent where empty."""
    keys, items = column.values.flatten()
    source = (_view(column, 1, np.int32, 1), *_variable_width(keys), *_variable_width(items), _valid(items))
    sizes = _checked(_map_sizes(_valid(column), *source))
    return Values(sizes, partial(_write_maps, sizes, *source))


def _base64(column: pa.Array, wanted: Mask) -> Values:
    data, offsets = _variable_width(column)
    sizes = np.where(wanted, (np.diff(offsets.astype(np.int64)) + 2) // 3 * 4, ABSENT)
    return Values(sizes, partial(_write_base64, sizes, data, offsets))


def _checked(sizes: Int64) -> Int64:
    if (sizes == _NOT_TEXT).any():
        raise CorruptObjectError("a column of text holds what is not UTF-8")
    return sizes


def _valid(column: pa.Array) -> Mask:
    if column.null_count == 0:
        return np.ones(len(column), bool)
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _view(column: pa.Array, buffer: int, kind: type[np.generic], more: int = 0) -> npt.NDArray[np.generic]:
    """Return the items of a buffer that belong to the column, which may be a slice, as a read-only array."""
    found = column.buffers()[buffer]
    if found is None or not found.size:
        return _read_only(np.zeros(len(column) + more, kind))
    return _read_only(np.frombuffer(found, kind, len(column) + more, column.offset * np.dtype(kind).itemsize))


def _variable_width(column: pa.Array) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """Return the bytes of strings or binary values, and where each begins and the last one ends."""
    found = column.buffers()[2]
    data = np.frombuffer(found, np.uint8) if found is not None and found.size else np.zeros(0, np.uint8)
    return _read_only(data), _view(column, 1, np.int32, 1)


def _read_only(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return the array as the one type that kernels are compiled for."""
    array.flags.writeable = False
    return array


@kernel
def _number_sizes(valid, numbers):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    sizes = np.empty(valid.size, np.int64)
    for i in range(valid.size):
        sizes[i] = number_size(numbers[i]) if valid[i] else -1
    return sizes


@kernel
def _write_numbers(sizes, numbers, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        if sizes[i] >= 0:
            write_number(out, at[i], sizes[i], numbers[i])


@kernel
def _time_sizes(valid, microseconds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    sizes = np.empty(valid.size, np.int64)
    for i in range(valid.size):
        sizes[i] = time_size(microseconds[i]) if valid[i] else -1
    return sizes


@kernel
def _write_times(sizes, microseconds, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        if sizes[i] >= 0:
            write_time(out, at[i], microseconds[i])


@kernel
def _text_sizes(valid, data, offsets):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    sizes = np.full(valid.size, -1, np.int64)
    for i in range(valid.size):
        if valid[i]:
            size = escaped_size(data, offsets[i], offsets[i + 1])
            sizes[i] = size if size >= 0 else -2
    return sizes


@kernel
def _write_texts(sizes, data, offsets, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        start, end = offsets[i], offsets[i + 1]
        if sizes[i] == end - start:
            copy_bytes(out, at[i], data, start, end - start)  # type: ignore[call-arg]
        elif sizes[i] >= 0:
            write_escaped(out, at[i], data, start, end)


@kernel
def _write_base64(sizes, data, offsets, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        if sizes[i] >= 0:
            write_base64(out, at[i], data, offsets[i], offsets[i + 1])


@kernel
def _write_constants(sizes, text, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        if sizes[i] >= 0:
            copy_bytes(out, at[i], text, 0, sizes[i])  # type: ignore[call-arg]


@kernel
def _map_sizes(valid, maps, keys, key_offsets, items, item_offsets, item_valid):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """``{"key":"item","key":"item"}``: each pair has four quotes, a colon, and a comma or one of the braces."""
    sizes = np.full(valid.size, -1, np.int64)
    for i in range(valid.size):
        if not valid[i] or maps[i] == maps[i + 1]:
            continue
        size = 1
        for pair in range(maps[i], maps[i + 1]):
            key = escaped_size(keys, key_offsets[pair], key_offsets[pair + 1])
            item = escaped_size(items, item_offsets[pair], item_offsets[pair + 1]) if item_valid[pair] else 2
            if key < 0 or item < 0:
                size = -2
                break
            size += key + item + 6
        sizes[i] = size
    return sizes


@kernel
def _write_maps(sizes, maps, keys, key_offsets, items, item_offsets, item_valid, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    for i in range(sizes.size):
        if sizes[i] < 0:
            continue
        to = at[i]
        for pair in range(maps[i], maps[i + 1]):
            out[to] = ord("{") if pair == maps[i] else ord(",")
            out[to + 1] = ord('"')
            to = write_escaped(out, to + 2, keys, key_offsets[pair], key_offsets[pair + 1])
            out[to] = ord('"')
            out[to + 1] = ord(":")
            if item_valid[pair]:
                out[to + 2] = ord('"')
                to = write_escaped(out, to + 3, items, item_offsets[pair], item_offsets[pair + 1])
                out[to] = ord('"')
                to += 1
            else:
                copy_bytes(out, to + 2, _NULL, 0, 4)  # type: ignore[call-arg]
                to += 6
        out[to] = ord("}")
