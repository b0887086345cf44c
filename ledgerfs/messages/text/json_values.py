"""Columns of the message table as JSON values: how long each is, and how it is written.

No Python object is made for a message: a column is two kernels, one that measures and one that writes to given places.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import kernel
from ledgerfs.messages.kernels.arrays import copy_bytes
from ledgerfs.messages.kernels.digits import (
    clock_size,
    date_size,
    number_size,
    time_size,
    write_clock,
    write_date,
    write_number,
    write_time,
)
from ledgerfs.messages.text.json_text import escaped_size, write_base64, write_escaped

ABSENT = -1
"""Size of a missing value."""

_NOT_TEXT = -2
_Item = TypeVar("_Item", bound=np.generic)
_NULL = np.frombuffer(b"null", np.uint8)
_NAN = np.frombuffer(b'"NaN"', np.uint8)
_INFINITY = np.frombuffer(b'"Infinity"', np.uint8)
_NEGATIVE_INFINITY = np.frombuffer(b'"-Infinity"', np.uint8)
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}


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
    sizes = _number_sizes(valid_of(column), source)
    return Values(sizes, partial(_write_numbers, sizes, source))


def floats(column: pa.Array) -> Values:
    """Return floats with the fewest digits that mean them, and with a point or an exponent; what is no number is a string: ``"NaN"``."""
    source = variable_width(column.cast(pa.string()))
    sizes = _float_sizes(valid_of(column), *source)
    return Values(sizes, partial(_write_floats, sizes, *source))


def times(column: pa.Array) -> Values:
    """Return timestamps of any unit as ISO 8601, to the ms, µs or ns, whichever is enough; those with a zone in UTC."""
    ticks, per_second = _view(column, 1, np.int64), _PER_SECOND[column.type.unit]
    ending = 0 if column.type.tz is None else 1
    sizes = _time_sizes(valid_of(column), ticks, per_second, ending)
    return Values(sizes, partial(_write_times, sizes, ticks, per_second, ending))


def dates(column: pa.Array) -> Values:
    """Return dates as ISO 8601."""
    days = _view(column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), 1, np.int64)
    sizes = _date_sizes(valid_of(column), days)
    return Values(sizes, partial(_write_dates, sizes, days))


def clocks(column: pa.Array) -> Values:
    """Return times of day of any unit, to the ms, µs or ns, whichever is enough."""
    number = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
    ticks, per_second = _view(column.cast(number).cast(pa.int64()), 1, np.int64), _PER_SECOND[column.type.unit]
    sizes = _clock_sizes(valid_of(column), ticks, per_second)
    return Values(sizes, partial(_write_clocks, sizes, ticks, per_second))


def escaped_texts(column: pa.Array) -> Values:
    """Return strings, escaped."""
    source = variable_width(column)
    sizes = _checked(_text_sizes(valid_of(column), *source))
    return Values(sizes, partial(_write_texts, sizes, *source))


def base64_texts(column: pa.Array) -> Values:
    """Return bytes in base64."""
    return _base64(column, valid_of(column))


def text_or_base64(column: pa.Array) -> tuple[Values, Values]:
    """Return bytes twice: escaped, absent where they are not UTF-8; and in base64, absent where they are."""
    source = variable_width(column)
    sizes = _text_sizes(valid_of(column), *source)
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
    source = (_view(column, 1, np.int32, 1), *variable_width(keys), *variable_width(items), valid_of(items))
    sizes = _checked(_map_sizes(valid_of(column), *source))
    return Values(sizes, partial(_write_maps, sizes, *source))


def _base64(column: pa.Array, wanted: Mask) -> Values:
    data, offsets = variable_width(column)
    sizes = np.where(wanted, (np.diff(offsets.astype(np.int64)) + 2) // 3 * 4, ABSENT)
    return Values(sizes, partial(_write_base64, sizes, data, offsets))


def _checked(sizes: Int64) -> Int64:
    if (sizes == _NOT_TEXT).any():
        raise CorruptObjectError("a column of text holds what is not UTF-8")
    return sizes


def valid_of(column: pa.Array) -> Mask:
    """Return which values are not null."""
    if column.null_count == 0:
        return np.ones(len(column), bool)
    valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _view(column: pa.Array, buffer: int, kind: type[_Item], more: int = 0) -> npt.NDArray[_Item]:
    """Return the items of a buffer that belong to the column, which may be a slice, as a read-only array."""
    found = column.buffers()[buffer]
    if found is None or not found.size:
        return read_only(np.zeros(len(column) + more, kind))
    return read_only(np.frombuffer(found, kind, len(column) + more, column.offset * np.dtype(kind).itemsize))


def variable_width(column: pa.Array) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """Return the bytes of strings or binary values, and where each begins and the last one ends."""
    found = column.buffers()[2]
    data = np.frombuffer(found, np.uint8) if found is not None and found.size else np.zeros(0, np.uint8)
    return read_only(data), _view(column, 1, np.int32, 1)


def read_only(array: npt.NDArray[_Item]) -> npt.NDArray[_Item]:
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
def _float_sizes(valid, data, offsets):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Sizes of texts such as ``1.5``, ``1e+300``, ``2`` (``2.0``), ``-inf``."""
    sizes = np.full(valid.size, -1, np.int64)
    for i in range(valid.size):
        if not valid[i]:
            continue
        start, end = offsets[i], offsets[i + 1]
        last = data[end - 1]
        if last == ord("n"):
            sizes[i] = _NAN.size
        elif last == ord("f"):
            sizes[i] = _INFINITY.size if data[start] == ord("i") else _NEGATIVE_INFINITY.size
        else:
            sizes[i] = end - start + (2 if _is_whole(data, start, end) else 0)
    return sizes


@kernel
def _is_whole(data, start, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether digits are without a point or an exponent."""
    is_whole = True
    for at in range(start, end):
        if data[at] == ord(".") or data[at] == ord("e"):
            is_whole = False
    return is_whole


@kernel
def _write_floats(sizes, data, offsets, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        if sizes[i] < 0:
            continue
        start, end = offsets[i], offsets[i + 1]
        last = data[end - 1]
        if last == ord("n"):
            copy_bytes(out, at[i], _NAN, 0, _NAN.size)  # type: ignore[call-arg]
        elif last == ord("f") and data[start] == ord("i"):
            copy_bytes(out, at[i], _INFINITY, 0, _INFINITY.size)  # type: ignore[call-arg]
        elif last == ord("f"):
            copy_bytes(out, at[i], _NEGATIVE_INFINITY, 0, _NEGATIVE_INFINITY.size)  # type: ignore[call-arg]
        else:
            copy_bytes(out, at[i], data, start, end - start)  # type: ignore[call-arg]
            if sizes[i] > end - start:
                out[at[i] + end - start] = ord(".")
                out[at[i] + end - start + 1] = ord("0")


@kernel
def _time_sizes(valid, ticks, per_second, ending):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    sizes = np.empty(valid.size, np.int64)
    for i in range(valid.size):
        sizes[i] = time_size(ticks[i], per_second) + ending if valid[i] else -1
    return sizes


@kernel
def _write_times(sizes, ticks, per_second, ending, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    for i in range(sizes.size):
        if sizes[i] >= 0:
            end = write_time(out, at[i], ticks[i], per_second)
            if ending:
                out[end] = ord("Z")


@kernel
def _date_sizes(valid, days):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    sizes = np.empty(valid.size, np.int64)
    for i in range(valid.size):
        sizes[i] = date_size(days[i]) if valid[i] else -1
    return sizes


@kernel
def _write_dates(sizes, days, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        if sizes[i] >= 0:
            write_date(out, at[i], days[i])


@kernel
def _clock_sizes(valid, ticks, per_second):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    sizes = np.empty(valid.size, np.int64)
    for i in range(valid.size):
        sizes[i] = clock_size(ticks[i], per_second) if valid[i] else -1
    return sizes


@kernel
def _write_clocks(sizes, ticks, per_second, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        if sizes[i] >= 0:
            write_clock(out, at[i], ticks[i], per_second)


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
