"""Columns of the message table from texts, as in JSON lines and CSV files (the inverse of `ledgerfs.messages.text.json_lines`).

Bytes are in base64, in a column of their name followed by ``_base64``; ``value`` may be in either. Times are ISO 8601, or ms since 1970
UTC. Properties are JSON objects. Integers are decimal digits: pyarrow would read ``0x10`` as 16.
"""

import base64
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ledgerfs.messages.encode.input_columns import (
    IGNORED_COLUMNS,
    INPUT_COLUMNS,
    TOO_FINE,
    require_count,
    require_kept,
    require_time,
)
from ledgerfs.messages.text.field_columns import BASE64_SUFFIX

_TEXT, _TIME, _INTEGER = pa.string(), pa.timestamp("us", tz="UTC"), pa.int64()
TWO_VALUES = "the row has both value and value_base64"

_IN_BASE64 = ("key_bytes", "ordering_key", "schema_version")

TEXT_COLUMNS: Mapping[str, pa.DataType] = MappingProxyType(
    {
        **{name: _TEXT for name in INPUT_COLUMNS if name not in _IN_BASE64},
        **{name + BASE64_SUFFIX: _TEXT for name in ("value", *_IN_BASE64)},
        "sequence_id": _INTEGER,
        **dict.fromkeys(IGNORED_COLUMNS, _TEXT),
        **dict.fromkeys(("ledger_id", "entry_id", "batch_index", "partition", "broker_index"), _INTEGER),
    }
)
"""{column that files of texts may have: its type before conversion}."""

_MILLISECONDS = re.compile(r"-?[0-9]+\Z")
_DATE = re.compile(r"[+-]?[0-9]{4,6}-[0-9]{2}-[0-9]{2}")
_NO_ZONE = re.compile(r"Z\Z")
_BELOW_MS = re.compile(r"[.,][0-9]{3}[0-9]*[1-9]")
_INTEGER_TEXT = r"^-?[0-9]+$"


def from_texts(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return columns by the names of the message table, without those of a message's old position; others as they are.

    A ``value`` becomes text only if it must be: a caller with its schema may read it as a number.

    Raises `ValueError` for a text that is invalid for its column, which it names, and for a row with two values.
    """
    made: dict[str, pa.Array] = {}
    has_bytes = f"value{BASE64_SUFFIX}" in columns
    for name, column in columns.items():
        # Columns of fields stay as they are: the schema defines their types.
        plain = name.removesuffix(BASE64_SUFFIX) if name in TEXT_COLUMNS else name
        if name in IGNORED_COLUMNS:
            continue
        try:
            found = from_base64(column) if plain != name else _CONVERTED.get(name, _as_it_is)(column)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
        if name == "value" and has_bytes:
            found = found.cast(pa.binary())
        made[plain] = found if plain not in made else _either(made[plain], found)
    return made


def _either(one: pa.Array, other: pa.Array) -> pa.Array:
    if other.null_count == len(other):
        return one
    row = pc.index(pc.and_(one.is_valid(), other.is_valid()), value=True).as_py()
    if row >= 0:
        raise ValueError(f"{TWO_VALUES} ({other[row].as_py()[:80]!r})")
    return pc.coalesce(one.cast(pa.binary()), other.cast(pa.binary()))


def _as_it_is(column: pa.Array) -> pa.Array:
    return column


def from_base64(column: pa.Array) -> pa.Array:
    """Return the bytes of texts; raises `ValueError`."""
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.binary())
    return pa.array(
        [None if text is None else base64.b64decode(text, validate=True) for text in column.to_pylist()], pa.binary()
    )


def _integers(column: pa.Array) -> pa.Array:
    if pt.is_integer(column.type):
        return column
    row = pc.index(pc.match_substring_regex(column, _INTEGER_TEXT), value=False).as_py()
    if row >= 0:
        raise ValueError(f"{column[row].as_py()[:80]!r} is not an integer of 64 bits")
    return column.cast(_INTEGER)


def _times(name: str, column: pa.Array) -> pa.Array:
    try:
        times = column.cast(_TIME)
    except pa.ArrowInvalid:
        counts = [None if text is None else _microseconds(text) for text in column.to_pylist()]
        times = pa.array(counts, _INTEGER).cast(_TIME)
    require_kept(name, times)
    return times


def _microseconds(text: str) -> int:
    """Return a time that pyarrow cannot parse: a count of ms, a time without a zone, or one of a year with six digits."""
    if _MILLISECONDS.match(text):
        require_count(int(text))
        return int(text) * 1000
    if _BELOW_MS.search(text):
        raise ValueError(TOO_FINE)
    try:
        return int(pa.scalar(text).cast(_TIME).value)
    except pa.ArrowInvalid:
        if not _DATE.match(text):
            raise
        # numpy overflows silently; no valid time of six-digit years has so many ms.
        plain = _NO_ZONE.sub("", text)
        require_time(int(np.datetime64(plain, "ms").astype(np.int64)))
        return int(np.datetime64(plain, "us").astype(np.int64))


_CONVERTED: Mapping[str, Callable[[pa.Array], pa.Array]] = MappingProxyType(
    {
        **{name: partial(_times, name) for name in ("event_time", "publish_time", "deliver_at_time")},
        "sequence_id": _integers,
    }
)
