"""Columns of any Arrow type as JSON values: numbers, strings, and objects and lists of these, as columns of text (``large_string``).

Nulls are left out of objects, and ``null`` in lists and maps. Types that JSON lacks become strings: bytes in base64, decimals with all
their digits, dates and times in ISO 8601, floats that are not numbers.
"""

import binascii
import json
from collections.abc import Callable, Iterable
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.errors import CorruptObjectError, UnsupportedFormatError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.messages.kernels.arrays import valid_of, variable_width

TEXT = pa.large_string()
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
_DAYS_OF_ERA = 146_097
"""Days of 400 years."""
_escaped = json.JSONEncoder(ensure_ascii=False).encode
"""Escapes one string; orjson takes ten times as long for a short one."""
_QUOTE, _BACKSLASH, _FIRST_PLAIN = 0x22, 0x5C, 0x20
_DAY_OF_YEAR_0, _DAY_OF_YEAR_10000 = -719_528, 2_932_897
"""Days since 1970 of the first year that is written with four digits, and of the first one after those."""


def join(*parts: pa.Array | str) -> pa.Array:
    """Return texts one after the other; null where one of them is."""
    return pc.binary_join_element_wise(*map(_literal, parts), _literal(""))


def objects(members: Iterable[pa.Array], rows: int, end: str = "}") -> pa.Array:
    """Return objects of members (``,"name":value``), without members that are null."""
    members = list(members)
    if not members:
        return pa.repeat(_literal("{" + end), rows)
    # Not null_handling="skip": pyarrow would leave out rows that are all null.
    joined = join("{", *(one.fill_null(_literal("")) for one in members), end)
    return pc.replace_substring(joined, "{,", "{", max_replacements=1)


def member(name: str, values: pa.Array) -> pa.Array:
    """Return members of objects, each after a comma, null where their values are."""
    return join(f",{_escaped(name)}:", values)


def typed_values(column: pa.Array) -> pa.Array:
    """Return a column's values as JSON, null where they are null.

    Raises `UnsupportedFormatError` for types that values cannot have, and `CorruptObjectError` for text that is not UTF-8.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), TEXT)
    for is_kind, make in _BY_TYPE:
        if is_kind(kind):
            return make(column)
    raise UnsupportedFormatError(f"JSON has no form for values of the type {kind}")


def strings(column: pa.Array) -> pa.Array:
    """Return strings in quotes, escaped; raises `CorruptObjectError` for text that is not UTF-8."""
    data, offsets = variable_width(column)
    data = data[offsets[0] : offsets[-1]]
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptObjectError("a text column contains bytes that are not UTF-8") from error
    if ((data < _FIRST_PLAIN) | (data == _QUOTE) | (data == _BACKSLASH)).any():
        return pa.array([None if one is None else _escaped(one) for one in column.to_pylist()], TEXT)
    return join('"', column.cast(TEXT), '"')


def base64_texts(column: pa.Array) -> pa.Array:
    """Return bytes in base64."""
    texts = [None if one is None else binascii.b2a_base64(one, newline=False) for one in column.to_pylist()]
    return pa.array(texts, pa.large_binary()).view(TEXT)


def text_or_base64(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return bytes twice: as text (``string``), null where they are not UTF-8; and in base64, null where they are."""
    try:
        return column.cast(pa.string()), pa.nulls(len(column), TEXT)
    except pa.ArrowInvalid:
        are_text = pa.array([one is not None and _is_text(one) for one in column.to_pylist()])
    return pc.if_else(are_text, column, None).cast(pa.string()), base64_texts(pc.if_else(are_text, None, column))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def times(column: pa.Array) -> pa.Array:
    """Return timestamps of any unit as ISO 8601, to the ms, µs or ns as needed; those with a zone in UTC."""
    unit = column.type.unit
    days, of_day = np.divmod(column.view(pa.int64()).fill_null(0).to_numpy(), 86_400 * _PER_SECOND[unit])
    kind = pa.time32(unit) if unit in {"s", "ms"} else pa.time64(unit)
    clock = pa.array(of_day.astype(f"i{kind.bit_width // 8}")).view(kind)
    texts = join(_dates(days, column.is_valid()), "T", clocks(clock))
    return texts if column.type.tz is None else join(texts, "Z")


def dates(column: pa.Array) -> pa.Array:
    """Return dates as ISO 8601; years before 0 and after 9999 have a sign and six digits at least."""
    return _dates(column.cast(pa.date32()).view(pa.int32()).fill_null(0).to_numpy(), column.is_valid())


def _dates(days: Int64, valid: pa.BooleanArray) -> pa.Array:
    has_four_digits = (days >= _DAY_OF_YEAR_0) & (days < _DAY_OF_YEAR_10000)
    texts = pa.array(np.where(has_four_digits, days, 0).astype(np.int32)).view(pa.date32()).cast(TEXT)
    if not has_four_digits.all():
        # pyarrow returns other texts for these, or wrong ones.
        made = texts.to_pylist()
        for row in np.flatnonzero(~has_four_digits).tolist():
            made[row] = _large_date(int(days[row]))
        texts = pa.array(made, TEXT)
    return texts if not valid.false_count else pc.if_else(valid, texts, None)


def _large_date(days: int) -> str:
    """Return a date outside the years of Python's dates: the calendar repeats every 400 years."""
    eras, day = divmod(days + date(1970, 1, 1).toordinal() - 1, _DAYS_OF_ERA)
    known = date.fromordinal(day + 1)
    return f"{known.year + 400 * eras:+07}-{known.month:02}-{known.day:02}"


def clocks(column: pa.Array) -> pa.Array:
    """Return times of day of any unit, to the ms, µs or ns as needed."""
    unit, texts = column.type.unit, column.cast(TEXT)
    if unit == "s":
        return join(texts, ".000")
    ticks = column.view(pa.int32() if unit == "ms" else pa.int64()).fill_null(0).to_numpy()
    for digits in range(_DIGITS[unit], 3, -3):
        is_surplus = ticks % 10 ** (3 + _DIGITS[unit] - digits) == 0
        shorter = texts if not is_surplus.any() else pc.utf8_slice_codeunits(texts, 0, len("00:00:00.") + digits - 3)
        texts = shorter if is_surplus.all() else pc.if_else(pa.array(is_surplus), shorter, texts)
    return texts


def decimals(column: pa.Array) -> pa.Array:
    """Return decimals with all their digits, and never with an exponent."""
    texts = column.cast(TEXT)
    has_exponent = pc.match_substring(texts, "E")
    if pc.any(has_exponent).as_py():
        texts = pc.if_else(has_exponent, _small_decimals(column), texts)
    return texts


def _small_decimals(column: pa.Array) -> pa.Array:
    """Return decimals below 1 in digits; any text for others."""
    wide = pa.decimal128(38, 0) if column.type.bit_width == 128 else pa.decimal256(76, 0)
    whole = column.view(wide)
    digits = pc.utf8_lpad(pc.abs(whole).cast(TEXT), column.type.scale, "0")
    return join(pc.if_else(pc.less(whole, pa.scalar(0, wide)), _literal("-0."), _literal("0.")), digits)


def properties(column: pa.Array) -> pa.Array:
    """Return maps as JSON objects, pairs in their order and duplicates kept; null where empty."""
    return pc.if_else(pa.array(np.diff(items_of(column)[0]) > 0), _maps(column), None)


def _floats(column: pa.Array) -> pa.Array:
    """Return floats with the fewest digits that identify them, and with a point or an exponent; NaN and infinities as strings."""
    texts = column.cast(TEXT)
    is_whole = pc.match_substring_regex(texts, r"^-?[0-9]+$")
    if pc.any(is_whole).as_py():
        texts = pc.if_else(is_whole, join(texts, ".0"), texts)
    if not pc.all(pc.is_finite(column)).as_py():
        for short, name in (("nan", '"NaN"'), ("-inf", '"-Infinity"'), ("inf", '"Infinity"')):
            texts = pc.if_else(pc.equal(texts, _literal(short)), _literal(name), texts)
    return texts


def _structs(column: pa.Array) -> pa.Array:
    # flatten() passes the nulls of the structs to their fields.
    parts = zip(column.type, column.flatten(), strict=True)
    made = objects((member(one.name, typed_values(part)) for one, part in parts), len(column))
    return _where(valid_of(column), made)


def _lists(column: pa.Array) -> pa.Array:
    offsets, items = items_of(column)
    return _joined(valid_of(column), offsets, _or_null(typed_values(items)), "[]")


def _maps(column: pa.Array) -> pa.Array:
    """Return maps as objects, pairs in their order; with nested keys, as lists of objects with key and value."""
    offsets, pairs = items_of(column)
    if pa.types.is_nested(column.type.key_type):
        return _joined(valid_of(column), offsets, typed_values(pairs), "[]")
    keys, values = pairs.flatten()
    is_bare = any(one(keys.type) for one in (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating))
    names = join('"', typed_values(keys), '"') if is_bare else typed_values(keys)
    return _joined(valid_of(column), offsets, join(names, ":", _or_null(typed_values(values))), "{}")


def items_of(column: pa.Array) -> tuple[Int64, pa.Array]:
    """Return the start of each list's items and the end of the last one, and the items; null lists have none."""
    places = np.frombuffer(column.offsets.buffers()[1], np.int32, len(column) + 1, column.offsets.offset * 4)
    sizes = np.where(valid_of(column), np.diff(places.astype(np.int64)), 0)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    items = column.values.slice(int(places[0]), int(places[-1] - places[0]))
    if offsets[-1] != len(items):
        # Null lists may have items, too.
        items = items.filter(pa.array(np.repeat(valid_of(column), np.diff(places))))
    return offsets, items


def _joined(valid: Mask, offsets: Int64, items: pa.Array, ends: str) -> pa.Array:
    """Return lists of items, none of them null, with commas between and the two ``ends`` around them."""
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items)
    return _where(valid, join(ends[0], pc.binary_join(lists, _literal(",")), ends[1]))


def _or_null(values: pa.Array) -> pa.Array:
    return values.fill_null(_literal("null"))


def _where(valid: Mask, values: pa.Array) -> pa.Array:
    return values if valid.all() else pc.if_else(pa.array(valid), values, None)


def _literal(part: pa.Array | str) -> pa.Array | pa.Scalar:
    return pa.scalar(part, TEXT) if isinstance(part, str) else part


def _cast(kind: Callable[[pa.DataType], pa.DataType]) -> Callable[[pa.Array], pa.Array]:
    return lambda column: typed_values(column.cast(kind(column.type)))


def _quoted(make: Callable[[pa.Array], pa.Array]) -> Callable[[pa.Array], pa.Array]:
    return lambda column: join('"', make(column), '"')


def _digits(column: pa.Array) -> pa.Array:
    return column.cast(TEXT)


_BY_TYPE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_string, strings),
    (pa.types.is_integer, _digits),
    (pa.types.is_floating, _floats),
    (pa.types.is_boolean, _digits),
    (pa.types.is_struct, _structs),
    (pa.types.is_map, _maps),
    (pa.types.is_list, _lists),
    (pa.types.is_binary, _quoted(base64_texts)),
    (pa.types.is_fixed_size_binary, _quoted(base64_texts)),
    (pa.types.is_decimal, _quoted(decimals)),
    (pa.types.is_timestamp, _quoted(times)),
    (pa.types.is_date, _quoted(dates)),
    (pa.types.is_time, _quoted(clocks)),
    (pa.types.is_large_string, _cast(lambda _: pa.string())),
    (pa.types.is_large_binary, _cast(lambda _: pa.binary())),
    (pa.types.is_dictionary, _cast(lambda kind: kind.value_type)),
)
