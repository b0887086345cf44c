"""Columns of values without parts, in any type that rows have, to the one Arrow type of a schema's type.

Nothing is rounded or guessed.
"""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ledgerfs.messages.encode.values.places import Place
from ledgerfs.messages.encode.values.text_casts import from_text, is_read_from_text, reported
from ledgerfs.messages.text.json_typed import typed_values

_Check = Callable[[pa.DataType], bool]
_CANNOT = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
_DIGITS_OF_INTEGERS = 20
_PER_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind)
    )


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_floating(kind))


def _is_number_or_decimal(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_decimal(kind) or _is_text(kind))


_TAKEN_AS: tuple[tuple[_Check, _Check], ...] = (
    (pt.is_boolean, lambda kind: bool(pt.is_boolean(kind) or _is_text(kind))),
    (_is_number, lambda kind: _is_number(kind) or _is_text(kind)),
    (pt.is_string, lambda kind: _is_text(kind) or _is_bytes(kind)),
    (_is_bytes, _is_bytes),
    (pt.is_timestamp, lambda kind: bool(pt.is_timestamp(kind) or _is_text(kind))),
    (pt.is_date, lambda kind: bool(pt.is_date(kind) or _is_text(kind))),
    (pt.is_time, lambda kind: bool(pt.is_time(kind) or _is_text(kind))),
    (pt.is_decimal, _is_number_or_decimal),
)
"""For each type of values: the columns that it accepts.

Texts of numbers, booleans and times are those of CSV; bytes are text if they are UTF-8, as ``value`` is in files of CSV and JSON lines.
"""


def cast_leaf(array: pa.Array, wanted: pa.DataType, place: Place) -> pa.Array:
    """Return the same values as an array of the wanted type.

    Raises `InvalidRowsError` for a column of another kind, and for the first value outside the type's range.
    """
    if pt.is_dictionary(array.type):
        array = _without_dictionary(array)
    if array.type != wanted:
        if pt.is_null(array.type):
            return pa.nulls(len(array), wanted)
        if not any(has(wanted) and takes(array.type) for has, takes in _TAKEN_AS):
            place.refuse_column(f"has the type {array.type}, but the schema has {wanted}")
        if _loses_zone(array.type, wanted):
            place.refuse_column(f"has the type {array.type} (times with a zone), but the schema has local times")
        array = _cast(array, wanted, place)
    elif pt.is_time(wanted):
        _check_times_of_day(array, place)
    return array


def _without_dictionary(array: pa.Array) -> pa.Array:
    values = array.dictionary
    if pt.is_string_view(values.type):  # Arrow's ``take`` does not support it
        values = values.cast(pa.string())
    return values.take(array.indices)


def _loses_zone(given: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pt.is_timestamp(given) and pt.is_timestamp(wanted) and given.tz is not None and wanted.tz is None)


def _cast(array: pa.Array, wanted: pa.DataType, place: Place) -> pa.Array:
    if _is_text(array.type):
        array = _from_zero(array).cast(pa.string())
        if is_read_from_text(wanted):
            return _from_text(array, wanted, place)
    if pt.is_integer(array.type) and pt.is_decimal(wanted):
        array = array.cast(pa.decimal128(_DIGITS_OF_INTEGERS, 0))
    _check_range(array, wanted, place)
    try:
        made = _converted(array, wanted)
    except _CANNOT as error:
        index = _first_bad(array, wanted)
        place.fail(index, f"is not a value of {wanted}: {_shown(array, index)}" + _reported(error))
    if pt.is_floating(wanted):
        _check_float(array, made, place)
    return made


def _from_text(texts: pa.Array, wanted: pa.DataType, place: Place) -> pa.Array:
    made, reasons = from_text(texts, wanted)
    for index in np.flatnonzero(reasons)[:1].tolist():
        place.fail(
            index, f"is not a value of {wanted}: {_shown(texts, index)}" + _reported(reported(int(reasons[index])))
        )
    return _cast(made, wanted, place) if pt.is_integer(wanted) else made


def _check_range(array: pa.Array, wanted: pa.DataType, place: Place) -> None:
    """Refuse values that Arrow's own casts would change."""
    if pt.is_time(array.type):
        _check_times_of_day(array, place)
    elif pt.is_date64(array.type) and pt.is_date32(wanted):
        days = array.view(pa.int64()).fill_null(0).to_numpy() // _PER_DAY["ms"]
        place.refuse(days != days.astype(np.int32), f"is not a value of {wanted}: it is outside its range")
    elif pt.is_decimal(array.type) and pt.is_decimal(wanted):
        _check_digits(array, wanted, place)


def _check_digits(array: pa.Array, wanted: pa.DataType, place: Place) -> None:
    """Refuse decimals with more digits before the point than the type has."""
    given = array.type
    digits = max(0, wanted.precision - wanted.scale + given.scale)
    if digits < given.precision:
        if given.bit_width < 128:  # Arrow does not compare these
            array = array.cast(pa.decimal128(given.precision, given.scale))
        limit = pa.scalar(Decimal(1).scaleb(digits - given.scale), array.type)
        is_large = np.asarray(pc.greater_equal(pc.abs(array), limit).fill_null(False))
        for index in np.flatnonzero(is_large)[:1].tolist():
            place.fail(index, f"is not a value of {wanted}: {_shown(array, index)}")


def _check_times_of_day(array: pa.Array, place: Place) -> None:
    ticks = array.cast(pa.int32() if pt.is_time32(array.type) else pa.int64()).fill_null(0).to_numpy()
    place.refuse((ticks < 0) | (ticks >= _PER_DAY[array.type.unit]), "is not a time of day")


def _check_float(given: pa.Array, made: pa.Array, place: Place) -> None:
    """Refuse numbers that a float cannot hold exactly; texts become the nearest float, if there is one."""
    if pt.is_string(given.type):
        is_infinite = np.asarray(pc.is_inf(made).fill_null(False))
        if is_infinite.any():
            has_digits = np.asarray(pc.match_substring_regex(given, "[0-9]").fill_null(False))
            for index in np.flatnonzero(is_infinite & has_digits)[:1].tolist():
                place.fail(index, f"is not a value of {made.type}: {_shown(given, index)} (it is outside the range)")
    elif pt.is_floating(given.type) and given.type.bit_width > made.type.bit_width:
        same = pc.or_kleene(pc.equal(made.cast(given.type), given), pc.is_nan(given)).fill_null(True)
        for index in np.flatnonzero(~np.asarray(same))[:1].tolist():
            place.fail(index, f"has more digits than {made.type}: {_shown(given, index)}")


def _converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    array = _from_zero(array)
    if pt.is_fixed_size_binary(wanted) and _is_bytes(array.type):
        return array.cast(pa.binary()).cast(wanted)
    return array.cast(wanted)


def _from_zero(array: pa.Array) -> pa.Array:
    if array.offset and (pt.is_large_string(array.type) or pt.is_large_binary(array.type)):
        # Of more than 2 GiB, these may be a few rows: copy them, so that offsets start at 0.
        return array.take(pa.array(np.arange(len(array))))
    return array


def _first_bad(array: pa.Array, wanted: pa.DataType) -> int:
    """Return the first item that cannot be converted, by bisection."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _converted(array.slice(low, middle - low), wanted)
        except _CANNOT:
            high = middle
        else:
            low = middle
    return low


def _shown(array: pa.Array, index: int) -> str:
    one = array.slice(index, 1)
    if pt.is_date64(one.type):
        one = one.view(pa.timestamp("ms"))
    if pt.is_temporal(one.type):  # Python does not support all of them
        return str(typed_values(one)[0].as_py()).strip('"')
    return repr(one[0].as_py())[:80]


def _reported(error: Exception | str) -> str:
    text = " ".join(str(error).split())
    return f" ({text[:160]})" if text else ""
