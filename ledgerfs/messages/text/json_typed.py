"""Columns of any Arrow type as JSON values: numbers, strings, and objects and lists of these.

Each kind of column has a function that measures its values and knows how to write them (`Values`); those of a nested column are composed of
those of its parts, so no Python object is made for a row. Nulls are left out of objects, and ``null`` in lists and maps. What JSON has no
type for is a string: bytes in base64, decimals with all their digits, dates and times in ISO 8601, floats that are no number.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.errors import UnsupportedFormatError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.kernel import kernel
from ledgerfs.messages.kernels.arrays import copy_bytes
from ledgerfs.messages.text.json_values import (
    ABSENT,
    Values,
    base64_texts,
    clocks,
    constants,
    dates,
    escaped_texts,
    floats,
    numbers,
    times,
    valid_of,
)


@dataclass(frozen=True, slots=True)
class Field:
    """One member of objects: the text before and after its value, and the values."""

    before: Bytes
    after: Bytes
    values: Values

    @classmethod
    def of(cls, name: str, values: Values, quote: str = "") -> "Field":
        """Return the field of this name, with ``quote`` around its values."""
        before = f",{json.dumps(name, ensure_ascii=False)}:{quote}"
        return cls(np.frombuffer(before.encode(), np.uint8), np.frombuffer(quote.encode(), np.uint8), values)


def objects(fields: Iterable[Field], present: Mask) -> Values:
    """Return objects with these fields, where they are present; a field that is absent in one is left out of it."""
    fields = list(fields)
    sizes = np.zeros(present.size, np.int64)
    for field in fields:
        _add_sizes(sizes, field.before.size + field.after.size, field.values.sizes)
    # The first field's comma becomes the brace.
    sizes = np.where(present, np.maximum(sizes, 1) + 1, ABSENT)

    def write(out: Bytes, places: Int64) -> None:
        at = places.copy()
        for field in fields:
            field.values.write(out, _frame(out, at, field.before, field.after, field.values.sizes))
        _write_ends(sizes, ord("{"), ord("}"), out, places)

    return Values(sizes, write)


def typed_values(column: pa.Array) -> Values:
    """Return a column's values as JSON, strings with their quotes, absent where null.

    Raises `UnsupportedFormatError` for types that no value has.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return Values(np.full(len(column), ABSENT, np.int64), lambda *_: None)
    for is_kind, make in _BY_TYPE:
        if is_kind(kind):
            return make(column)
    raise UnsupportedFormatError(f"JSON has no form for values of the type {kind}")


def decimals(column: pa.Array) -> Values:
    """Return decimals with all their digits, and never with an exponent."""
    texts = column.cast(pa.string())
    has_exponent = pc.match_substring(texts, "E")
    if pc.any(has_exponent).as_py():
        texts = pc.if_else(has_exponent, _small_decimals(column), texts)
    return escaped_texts(texts)


def _small_decimals(column: pa.Array) -> pa.Array:
    """Return decimals below 1 in digits; of others anything."""
    wide = pa.decimal128(38, 0) if column.type.bit_width == 128 else pa.decimal256(76, 0)
    whole = column.view(wide)
    digits = pc.utf8_lpad(pc.abs(whole).cast(pa.string()), column.type.scale, "0")
    sign = pc.if_else(pc.less(whole, pa.scalar(0, wide)), "-0.", "0.")
    return pc.binary_join_element_wise(sign, digits, "")


def _booleans(column: pa.Array) -> Values:
    are_true = column.fill_null(False).to_numpy(zero_copy_only=False)
    return _either(constants(b"true", are_true), constants(b"false", valid_of(column) & ~are_true))


def _large_numbers(column: pa.Array) -> Values:
    """Return unsigned integers of 64 bits."""
    return escaped_texts(column.cast(pa.string()))


def _structs(column: pa.Array) -> Values:
    # This hands the nulls of the structs on to their fields.
    parts = zip(column.type, column.flatten(), strict=True)
    return objects((Field.of(one.name, typed_values(part)) for one, part in parts), valid_of(column))


def _lists(column: pa.Array) -> Values:
    offsets, items = items_of(column)
    return _joined(valid_of(column), offsets, _or_null(typed_values(items)), "[]")


def _maps(column: pa.Array) -> Values:
    """Return maps as objects, pairs in their order; keys that are nested make them lists of objects with key and value."""
    offsets, pairs = items_of(column)
    if pa.types.is_nested(column.type.key_type):
        return _joined(valid_of(column), offsets, typed_values(pairs), "[]")
    keys, values = pairs.flatten()
    is_bare = any(one(keys.type) for one in (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating))
    names = _quoted(typed_values(keys)) if is_bare else typed_values(keys)
    return _joined(valid_of(column), offsets, _pairs(names, _or_null(typed_values(values))), "{}")


def items_of(column: pa.Array) -> tuple[Int64, pa.Array]:
    """Return where the items of each list begin and the last one ends, and the items; null lists have none."""
    places = np.frombuffer(column.offsets.buffers()[1], np.int32, len(column) + 1, column.offsets.offset * 4)
    sizes = np.where(valid_of(column), np.diff(places.astype(np.int64)), 0)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    items = column.values.slice(int(places[0]), int(places[-1] - places[0]))
    if offsets[-1] != len(items):
        # Something lies where lists are null.
        items = items.filter(pa.array(np.repeat(valid_of(column), np.diff(places))))
    return offsets, items


def _quoted(values: Values) -> Values:
    """Return values with quotes around them."""
    sizes = np.where(values.sizes == ABSENT, ABSENT, values.sizes + 2)

    def write(out: Bytes, at: Int64) -> None:
        values.write(out, at + 1)
        _write_ends(sizes, ord('"'), ord('"'), out, at)

    return Values(sizes, write)


def _either(one: Values, other: Values) -> Values:
    """Return the values of two columns, of which never both have one in a row."""

    def write(out: Bytes, at: Int64) -> None:
        one.write(out, at)
        other.write(out, at)

    return Values(np.maximum(one.sizes, other.sizes), write)


def _or_null(values: Values) -> Values:
    return _either(values, constants(b"null", values.sizes == ABSENT))


def _pairs(keys: Values, values: Values) -> Values:
    """Return ``key:value``; none may be absent."""

    def write(out: Bytes, at: Int64) -> None:
        colons = at + keys.sizes
        keys.write(out, at)
        out[colons] = ord(":")
        values.write(out, colons + 1)

    return Values(keys.sizes + 1 + values.sizes, write)


def _joined(valid: Mask, offsets: Int64, items: Values, ends: str) -> Values:
    """Return lists of items, of which none may be absent, with commas between and the two ``ends`` around them."""
    sizes = _list_sizes(valid, offsets, items.sizes)

    def write(out: Bytes, at: Int64) -> None:
        items.write(out, _write_commas(sizes, offsets, items.sizes, out, at))
        _write_ends(sizes, ord(ends[0]), ord(ends[1]), out, at)

    return Values(sizes, write)


def _cast(kind: Callable[[pa.DataType], pa.DataType]) -> Callable[[pa.Array], Values]:
    return lambda column: typed_values(column.cast(kind(column.type)))


def _strings(make: Callable[[pa.Array], Values]) -> Callable[[pa.Array], Values]:
    return lambda column: _quoted(make(column))


_BY_TYPE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Values]], ...] = (
    (pa.types.is_string, _strings(escaped_texts)),
    (pa.types.is_uint64, _large_numbers),
    (pa.types.is_integer, numbers),
    (pa.types.is_floating, floats),
    (pa.types.is_boolean, _booleans),
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
    (pa.types.is_binary, _strings(base64_texts)),
    (pa.types.is_decimal, _strings(decimals)),
    (pa.types.is_timestamp, _strings(times)),
    (pa.types.is_date, _strings(dates)),
    (pa.types.is_time, _strings(clocks)),
    (pa.types.is_duration, _cast(lambda _: pa.int64())),
    (pa.types.is_fixed_size_binary, _cast(lambda _: pa.binary())),
    (pa.types.is_large_string, _cast(lambda _: pa.string())),
    (pa.types.is_large_binary, _cast(lambda _: pa.binary())),
    (pa.types.is_dictionary, _cast(lambda kind: kind.value_type)),
)


@kernel
def _add_sizes(totals, around, sizes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(totals.size):
        if sizes[i] >= 0:
            totals[i] += sizes[i] + around


@kernel
def _frame(out, at, before, after, sizes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the text before and after each value, move ``at`` after it, and return where the values go."""
    values = np.empty(at.size, np.int64)
    for i in range(at.size):
        if sizes[i] >= 0:
            values[i] = at[i] + before.size
            copy_bytes(out, at[i], before, 0, before.size)  # type: ignore[call-arg]
            copy_bytes(out, values[i] + sizes[i], after, 0, after.size)
            at[i] = values[i] + sizes[i] + after.size
    return values


@kernel
def _write_ends(sizes, first, last, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for i in range(sizes.size):
        if sizes[i] >= 0:
            out[at[i]] = first
            out[at[i] + sizes[i] - 1] = last


@kernel
def _list_sizes(valid, offsets, items):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    sizes = np.full(valid.size, -1, np.int64)
    for i in range(valid.size):
        if valid[i]:
            # The first of the ends is in the place of a comma.
            size = 1 + max(1, offsets[i + 1] - offsets[i])
            for item in range(offsets[i], offsets[i + 1]):
                size += items[item]
            sizes[i] = size
    return sizes


@kernel
def _write_commas(sizes, offsets, items, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write a comma before each item, and return where the items go."""
    places = np.empty(items.size, np.int64)
    for i in range(sizes.size):
        if sizes[i] < 0:
            continue
        to = at[i]
        for item in range(offsets[i], offsets[i + 1]):
            out[to] = ord(",")
            places[item] = to + 1
            to += 1 + items[item]
    return places
