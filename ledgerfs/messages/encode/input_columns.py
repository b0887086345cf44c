"""Columns of rows that become messages: the supported ones, and the conversion of each to one Arrow type.

Names are those of the message table (`ledgerfs.messages.decode.table_schema`), so that an export can be imported again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ledgerfs.errors import InvalidRowsError
from ledgerfs.messages.text.json_typed import base64_texts

_BYTES = "text or bytes"
_TIME = "timestamps, or integers of ms since 1970 UTC"
_PROPERTIES = "a map of texts, a struct of texts, or texts that are JSON objects with texts as values"

INPUT_COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "value": _BYTES,
        "key": "text, or bytes for keys of bytes",
        "key_bytes": "bytes",
        "ordering_key": _BYTES,
        "properties": _PROPERTIES,
        "event_time": _TIME,
        "publish_time": _TIME,
        "producer_name": _BYTES,
        "sequence_id": "integers",
        "schema_version": _BYTES,
        "deliver_at_time": _TIME,
        "replicated_from": _BYTES,
    }
)
"""{column: the types that it may have}."""

IGNORED_COLUMNS = (
    "topic",
    "ledger_id",
    "entry_id",
    "batch_index",
    "partition",
    "broker_index",
    "broker_time",
    "txn_id",
    "txn_state",
)
"""Columns of the message table with a message's position and state in its old ledger. New messages get new ones."""

PROPERTIES_TYPE = pa.map_(pa.string(), pa.string())

_FIRST_TIME, _LAST_TIME = 1 - 2**63 // 1000, 253_402_300_799_999
"""ms since 1970: the first time in the range of a 64-bit count of microseconds (the table's type), and the end of the year 9999."""
_FIRST_COUNT = 10**11
"""Lowest number that is read as ms since 1970 (March 1973); as seconds it would be after the year 5138."""

_ZERO_IS_UNSET = ("event_time", "deliver_at_time")
"""Times that are 0 in a message if they are not set."""

TOO_FINE = "the time is finer than 1 ms, the precision of messages; round it to ms"


class InputColumns:
    """The columns of some rows, checked by their names and types.

    Parameters
    ----------
    schema
        Schema of all rows.

    Raises
    ------
    InvalidRowsError
        A column is unknown, occurs twice, or has a wrong type; or ``value`` is missing.

    Attributes
    ----------
    ignored
        Names of `IGNORED_COLUMNS` that the rows have.

    """

    __slots__ = ("_plans", "ignored", "schema")

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.ignored = tuple(name for name in schema.names if name in IGNORED_COLUMNS)
        names = [name for name in schema.names if name not in IGNORED_COLUMNS]
        _check_names(names)
        self._plans = {name: _Plan.of(name, schema.field(name).type) for name in names}
        if [plan.target for plan in self._plans.values()].count("key_bytes") > 1:
            raise InvalidRowsError(
                "the rows have both a column key of bytes and key_bytes; remove one of them", key="key"
            )

    def plain(self, rows: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
        """Return the columns of the messages, without those that are all null.

        Bytes and texts are ``large_binary``; ``key_bytes`` are in base64; times are int64, ms; properties are a map of strings.
        Raises `InvalidRowsError` for an invalid row (``first_row`` is the number of the first), and for other columns than the schema's.
        """
        if not rows.schema.equals(self.schema, check_metadata=False):
            raise InvalidRowsError(
                f"these rows have other columns than the first ones: {_difference(self.schema, rows.schema)}"
            )
        made = {}
        for name, plan in self._plans.items():
            column = rows.column(name)
            if name == "value" or column.null_count < len(column):
                made[plan.target] = _built(plan.build, name, column, first_row)
        if "key" in made and "key_bytes" in made:
            _check_keys(made["key"], made["key_bytes"], first_row)
        return pa.RecordBatch.from_pydict(made)


def _check_names(names: list[str]) -> None:
    accepted = f"{', '.join(INPUT_COLUMNS)}; ignored are {', '.join(IGNORED_COLUMNS)}"
    for name in names:
        if name not in INPUT_COLUMNS:
            raise InvalidRowsError(f"no such column; accepted are {accepted}", key=name)
        if names.count(name) > 1:
            raise InvalidRowsError("the column occurs twice", key=name)
    if "value" not in names:
        raise InvalidRowsError(f"the column is missing; accepted are {accepted}", key="value")


def _difference(wanted: pa.Schema, found: pa.Schema) -> str:
    fields = [field for field in found if field not in wanted] or [field for field in wanted if field not in found]
    return ", ".join(f"{field.name} ({field.type})" for field in fields) or "another order"


def _check_keys(keys: pa.Array, key_bytes: pa.Array, first_row: int) -> None:
    both = pc.and_(keys.is_valid(), key_bytes.is_valid())
    row = pc.index(both, value=True).as_py()
    if row >= 0:
        raise InvalidRowsError.of(first_row + row, "the row has both key and key_bytes")


def require_time(ms: int) -> None:
    """Raise `ValueError` for a time, ms since 1970 UTC, that cannot be read back, or is probably in µs or ns."""
    if ms > _LAST_TIME:
        unit = "microseconds" if ms // 1000 <= _LAST_TIME else "nanoseconds"
        hint = f"; perhaps these are {unit}" if ms < 2**63 else ""
        raise ValueError(f"a time of {ms} ms is after the year 9999{hint}")
    if ms < _FIRST_TIME:
        raise ValueError(f"a time of {ms} ms is too early to be read back")


def require_count(ms: int) -> None:
    """Raise `ValueError` for a number that is not a count of ms since 1970 UTC: probably of s, µs or ns. 0 is accepted."""
    require_time(ms)
    if 0 < abs(ms) < _FIRST_COUNT:
        raise ValueError(
            f"{ms} looks like seconds; expected ms since 1970, such as {1000 * ms}, or a timestamp for times near 1970"
        )


def require_kept(name: str, times: pa.Array) -> None:
    """Raise `ValueError` for timestamps (of any unit) that messages cannot store exactly."""
    kind = pa.timestamp("ms", times.type.tz)
    whole = times.cast(options=pc.CastOptions(kind, allow_time_truncate=True))
    if not whole.cast(times.type).equals(times):
        raise ValueError(TOO_FINE)
    if name in _ZERO_IS_UNSET and pc.any(pc.equal(whole.cast(pa.int64()), 0)).as_py():
        raise ValueError("a time of 0 (1970-01-01T00:00:00Z) means in a message that no time is set; make it null")


Builder = Callable[[pa.Array], pa.Array]

_CONVERSION_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Conversion of a column: the new name, and the function."""

    target: str
    build: Builder

    @classmethod
    def of(cls, name: str, kind: pa.DataType) -> "_Plan":
        plain = kind.value_type if pt.is_dictionary(kind) else kind
        target = "key_bytes" if name == "key" and _is_bytes(plain) else name
        return cls(target, _builder(target, kind))


def _builder(name: str, kind: pa.DataType) -> Builder:
    """Return the function that converts a column; raises `InvalidRowsError` for a wrong type."""
    if pt.is_dictionary(kind):
        build = _builder(name, kind.value_type)
        return lambda column: build(column.dictionary_decode())
    if pt.is_null(kind):
        return lambda column: column.cast(pa.large_binary())
    found: Builder | None
    if INPUT_COLUMNS[name] == _TIME:
        read = _timestamps if pt.is_timestamp(kind) else _counts if pt.is_integer(kind) else None
        found = None if read is None else partial(read, name)
    elif name == "sequence_id":
        found = _integers if pt.is_integer(kind) else None
    elif name == "properties":
        found = _properties_builder(kind)
    else:
        found = _bytes_builder(name, kind)
    if found is None:
        raise InvalidRowsError(f"the column has the type {kind}, expected {INPUT_COLUMNS[name]}", key=name)
    return found


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind) or pt.is_fixed_size_binary(kind)
    )


def _bytes_builder(name: str, kind: pa.DataType) -> Builder | None:
    if not (_is_bytes(kind) or (_is_text(kind) and name != "key_bytes")):
        return None
    return _base64 if name == "key_bytes" else _bytes


def _bytes(column: pa.Array) -> pa.Array:
    return column.cast(pa.large_binary())


def _base64(column: pa.Array) -> pa.Array:
    return base64_texts(column).view(pa.large_binary())


def _integers(column: pa.Array) -> pa.Array:
    return column.cast(pa.int64())


def _timestamps(name: str, column: pa.Array) -> pa.Array:
    """Return times as ms."""
    require_kept(name, column)
    times = column.cast(pa.timestamp("ms", column.type.tz)).cast(pa.int64())
    for ms in pc.min_max(times).as_py().values():
        if ms is not None:
            require_time(ms)
    return times


def _counts(name: str, column: pa.Array) -> pa.Array:
    """Return numbers of ms."""
    numbers = column.cast(pa.int64())
    times = _timestamps(name, numbers.cast(pa.timestamp("ms")))
    low = pc.and_(pc.less(pc.abs(times), _FIRST_COUNT), pc.not_equal(times, 0))
    for ms in times.filter(low).slice(0, 1).to_pylist():
        require_count(ms)
    return times


def _properties_builder(kind: pa.DataType) -> Builder | None:
    if pt.is_map(kind):
        return _maps if _is_text(kind.key_type) and _is_text(kind.item_type) else None
    if pt.is_struct(kind):
        return _structs if all(_is_text(field.type) for field in kind) else None
    return _json_objects if _is_text(kind) else None


def _maps(column: pa.Array) -> pa.Array:
    return column.cast(PROPERTIES_TYPE)


def _structs(column: pa.Array) -> pa.Array:
    """Return the fields of structs as properties, without those that are null."""
    names, width, rows = [field.name for field in column.type], column.type.num_fields, len(column)
    if not width:
        return pa.array([None] * rows, PROPERTIES_TYPE)
    items = pa.concat_arrays([field.cast(pa.string()) for field in column.flatten()])
    by_rows = np.arange(width * rows).reshape(width, rows).T.ravel()
    found = items.take(pa.array(by_rows))
    is_there = found.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(is_there.reshape(rows, width).sum(axis=1), out=offsets[1:])
    keys = pa.array(names, pa.string()).take(pa.array(np.flatnonzero(is_there) % width))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, found.drop_null())


def _json_objects(column: pa.Array) -> pa.Array:
    """Return properties from JSON objects, in which a name may occur twice. Unlike other columns, makes Python objects of rows."""
    return pa.array([None if text is None else _pairs_of(text) for text in column.to_pylist()], PROPERTIES_TYPE)


def _pairs_of(text: str) -> list[tuple[str, str]]:
    pairs = json.loads(text, object_pairs_hook=tuple)
    if not isinstance(pairs, tuple) or not all(isinstance(item, str) for _, item in pairs):
        raise ValueError(f"{text[:80]} is not a JSON object with texts as values")
    return list(pairs)


def _built(build: Builder, name: str, column: pa.Array, first_row: int) -> pa.Array:
    try:
        made = build(column)
    except _CONVERSION_ERRORS:
        row, error = first_bad(build, column)
        raise InvalidRowsError.of(first_row + row, f"its {name} is invalid: {error}") from error
    if name == "properties":
        _check_properties(made, first_row)
    return made


def first_bad(convert: Callable[[Any], object], rows: Any) -> tuple[int, Exception]:  # noqa: ANN401
    """Return the first row that cannot be converted (found by bisection), and its error; for an array or a record batch that cannot."""
    low, high = 0, len(rows)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            convert(rows.slice(low, middle - low))
        except _CONVERSION_ERRORS:
            high = middle
        else:
            low = middle
    try:
        convert(rows.slice(low, 1))
    except _CONVERSION_ERRORS as error:
        return low, error
    raise AssertionError("rows that can be converted one by one, but not together")


def _check_properties(maps: pa.Array, first_row: int) -> None:
    """Raise `InvalidRowsError` for a property without a value, which messages cannot have."""
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    items = maps.items.slice(first, last - first)
    if not items.null_count:
        return
    bad = np.flatnonzero(items.is_null().to_numpy(zero_copy_only=False))
    of_rows = np.searchsorted(maps.offsets.to_numpy() - first, bad, "right") - 1
    for row in of_rows.tolist():
        if maps[row].is_valid:
            raise InvalidRowsError.of(first_row + row, "a property has no value")
