"""Columns of values without parts, as whoever made the rows has them, to the one Arrow type of a schema's type.

Nothing is rounded or guessed.
"""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ledgerfs.messages.encode.values.places import Place

_Check = Callable[[pa.DataType], bool]
_CANNOT = (pa.ArrowInvalid, pa.ArrowNotImplementedError)
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
    (pt.is_boolean, pt.is_boolean),
    (_is_number, _is_number),
    (pt.is_string, lambda kind: _is_text(kind) or _is_bytes(kind)),
    (_is_bytes, _is_bytes),
    (pt.is_timestamp, lambda kind: bool(pt.is_timestamp(kind) or _is_text(kind))),
    (pt.is_date, lambda kind: bool(pt.is_date(kind) or _is_text(kind))),
    (pt.is_time, lambda kind: bool(pt.is_time(kind) or _is_text(kind))),
    (pt.is_decimal, _is_number_or_decimal),
)
"""For each type that values have: which columns are taken as it.

Texts of times and decimals are those of CSV; bytes are text if they are UTF-8, as ``value`` is in files of CSV and JSON lines.
"""


def cast_leaf(array: pa.Array, wanted: pa.DataType, place: Place) -> pa.Array:
    """Return the same values as an array of the wanted type.

    Raises `InvalidRowsError` for a column of another kind, and for the first value that the type does not have.
    """
    if pt.is_dictionary(array.type):
        array = _without_dictionary(array)
    if array.type != wanted:
        if pt.is_null(array.type):
            return pa.nulls(len(array), wanted)
        if not any(has(wanted) and takes(array.type) for has, takes in _TAKEN_AS):
            place.refuse_column(f"a column of {array.type}; the schema has {wanted} there")
        if _loses_zone(array.type, wanted):
            place.refuse_column(f"a column of {array.type}, times with a zone; the schema has local times there")
        array = _cast(array, wanted, place)
    if pt.is_time(wanted):
        ticks = array.cast(pa.int32() if pt.is_time32(wanted) else pa.int64()).fill_null(0).to_numpy()
        place.refuse((ticks < 0) | (ticks >= _PER_DAY[wanted.unit]), "is no time of a day")
    return array


def _without_dictionary(array: pa.Array) -> pa.Array:
    values = array.dictionary
    if pt.is_string_view(values.type):  # which Arrow does not take from
        values = values.cast(pa.string())
    return values.take(array.indices)


def _loses_zone(given: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pt.is_timestamp(given) and pt.is_timestamp(wanted) and given.tz is not None and wanted.tz is None)


def _cast(array: pa.Array, wanted: pa.DataType, place: Place) -> pa.Array:
    try:
        made = _converted(array, wanted)
    except _CANNOT as error:
        index = _first_bad(array, wanted)
        place.fail(index, f"is no value of {wanted}: {_shown(array, index)}" + _told(error))
    if pt.is_floating(wanted) and array.type.bit_width > wanted.bit_width and pt.is_floating(array.type):
        back = made.cast(array.type)
        same = pc.or_kleene(pc.equal(back, array), pc.is_nan(array)).fill_null(True)
        bad = ~np.asarray(same)
        if bad.any():
            index = int(np.flatnonzero(bad)[0])
            place.fail(index, f"has more digits than {wanted}: {_shown(array, index)}")
    return made


def _converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.offset and (pt.is_large_string(array.type) or pt.is_large_binary(array.type)):
        # These may be a few of more than 2 GiB, which have to begin anew.
        array = array.take(pa.array(np.arange(len(array))))
    if pt.is_decimal(wanted) and pt.is_integer(array.type):
        # Arrow wants room for all integers of the type.
        return array.cast(pa.string()).cast(wanted)
    if pt.is_fixed_size_binary(wanted) and _is_bytes(array.type):
        return array.cast(pa.binary()).cast(wanted)
    return array.cast(wanted)


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
    try:
        return repr(array[index].as_py())[:80]
    except (ValueError, OverflowError):  # a time that Python does not have
        return str(array[index])[:80]


def _told(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f" ({text[:160]})" if text else ""
