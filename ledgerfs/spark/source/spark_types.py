"""Convert Arrow types to Spark types, for a query's plan, and Arrow arrays of these types, in its tasks.

No digit is lost. Types that Spark lacks become text: times with nanoseconds, times of day, decimals of more than 38 digits.

===================================  ====================================================================================
Arrow                                Spark
===================================  ====================================================================================
timestamps of s, ms, µs              ``timestamp``, or ``timestamp_ntz`` without a zone
timestamps of ns                     ``string``: ``2026-11-01T12:00:00.123456789Z``, without ``Z`` if it has no zone
times of day                         ``string``: ``12:00:00.123``, with the digits of its unit
unsigned integers                    the next larger signed one; ``decimal(20,0)`` for 64 bits
decimals                             ``decimal``; ``string`` for more than 38 digits
binary of fixed size                 ``binary``
a value that is always null          ``string``
a struct without fields              ``boolean``: true where it is there
===================================  ====================================================================================

Spark ignores the case of names: where names differ only in case, the second gets the suffix ``_2``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ledgerfs.errors import InvalidOptionError, UndecodableValueError

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_MOST = 2**63 - 1
_DIGITS = 38
_LARGER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
}
_SPARKS = {pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()} | {
    pa.string(),
    pa.binary(),
    pa.date32(),
}


@dataclass(slots=True)
class Unheld:
    """Values out of Spark's range: times that do not fit into 64 bits of microseconds.

    Attributes
    ----------
    topic
        The topic of the values.
    are_errors
        Whether the first such value is an error; otherwise they become null, and are counted.
    counts
        Number of values by path, such as ``value.until``.

    """

    topic: str
    are_errors: bool = True
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, place: str, count: int) -> None:
        """Count values; raises `UndecodableValueError` if they are errors."""
        if self.are_errors:
            reason = (
                "the time is outside of Spark's range; read it with a schema that has a number instead (schemaVersion), or pass "
                "onUndecodable=null"
            )
            raise UndecodableValueError(reason, key=f"{place} of {self.topic}")
        self.counts[place] = self.counts.get(place, 0) + count


Convert = Callable[[pa.Array, Unheld], pa.Array]


@dataclass(frozen=True, slots=True)
class SparkForm:
    """Spark's form of an Arrow type: the Arrow type that Spark supports, and a function that converts arrays; None if not needed."""

    type: pa.DataType
    convert: Convert | None = None


@dataclass(frozen=True, slots=True)
class SparkColumns:
    """The columns of a table with Spark's types; `schema` may have other names than the table."""

    schema: pa.Schema
    forms: tuple[SparkForm, ...]

    @classmethod
    def of(cls, schema: pa.Schema, named: Iterable[str] = ()) -> "SparkColumns":
        """Return the columns of a table; the columns ``named`` keep their names.

        Raises `InvalidOptionError` for a type without an equivalent in Spark.
        """
        forms = tuple(form_of(one.type, one.name) for one in schema)
        names = distinct_names(schema.names, frozenset(named))
        fields = [pa.field(name, form.type) for name, form in zip(names, forms, strict=True)]
        return cls(pa.schema(fields), forms)

    def of_batch(self, batch: pa.RecordBatch, unheld: Unheld) -> pa.RecordBatch:
        """Convert a batch of the table for Spark; raises as `Unheld.add`."""
        if not self.forms:
            # A batch without columns still has a number of rows.
            return batch
        arrays = [_converted(array, form, unheld) for array, form in zip(batch.columns, self.forms, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def form_of(kind: pa.DataType, place: str) -> SparkForm:
    """Return Spark's form of a type; raises `InvalidOptionError` with ``place`` if there is none."""
    for is_such, form in _FORMS:
        if is_such(kind):
            return form(kind, place)
    wanted = _cast_to(kind)
    if wanted is None:
        reason = f"has the type {kind}, which Spark does not support; pass values=bytes to read the values as bytes"
        raise InvalidOptionError(reason, key=place)
    return _cast_form(wanted, kind)


def distinct_names(names: Sequence[str], kept: frozenset[str] = frozenset()) -> list[str]:
    """Make names distinct, ignoring case; the first occurrences of ``kept`` stay unchanged."""
    taken = {name.lower() for name in kept}
    left = set(kept)
    found = []
    for name in names:
        made, number = name, 1
        if name in left:
            left.remove(name)
        else:
            while made.lower() in taken:
                number += 1
                made = f"{name}_{number}"
        taken.add(made.lower())
        found.append(made)
    return found


def _cast_to(kind: pa.DataType) -> pa.DataType | None:
    """Return the Spark type to which a scalar type is cast; None if there is none."""
    types = pa.types
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if types.is_time(kind) or types.is_null(kind):
        return pa.string()
    if types.is_decimal(kind):
        is_known = kind.precision <= _DIGITS and 0 <= kind.scale <= kind.precision
        return pa.decimal128(kind.precision, kind.scale) if is_known else pa.string()
    return kind if kind in _SPARKS else _LARGER.get(kind)


def _converted(array: pa.Array, form: SparkForm, unheld: Unheld) -> pa.Array:
    return array if form.convert is None else form.convert(array, unheld)


def _cast_form(kind: pa.DataType, given: pa.DataType) -> SparkForm:
    return SparkForm(kind) if kind == given else SparkForm(kind, lambda array, _: array.cast(kind))


def _timestamp_form(kind: pa.DataType, place: str) -> SparkForm:
    if kind.unit == "ns":
        return SparkForm(pa.string(), lambda array, _: _time_texts(array))
    wanted = pa.timestamp("us", None if kind.tz is None else "UTC")
    if kind.unit == "us":
        return _cast_form(wanted, kind)
    most = _MOST // _MICROSECONDS[kind.unit]

    def convert(array: pa.Array, unheld: Unheld) -> pa.Array:
        numbers = array.cast(pa.int64())
        are_outside = pc.or_(pc.greater(numbers, most), pc.less(numbers, -most))
        count = pc.sum(are_outside).as_py() or 0
        if count:
            unheld.add(place, count)
            array = pc.if_else(are_outside, pa.scalar(None, kind), array)
        return array.cast(wanted)

    return SparkForm(wanted, convert)


def _time_texts(array: pa.Array) -> pa.Array:
    """Return times with nanoseconds as text; times with a zone in UTC."""
    texts = pc.replace_substring(array.cast(pa.timestamp("ns")).cast(pa.string()), " ", "T")
    return texts if array.type.tz is None else pc.binary_join_element_wise(texts, "Z", "")


def _dictionary_form(kind: pa.DataType, place: str) -> SparkForm:
    inner = form_of(kind.value_type, place)
    return SparkForm(inner.type, lambda array, unheld: _converted(array.cast(kind.value_type), inner, unheld))


def _struct_form(kind: pa.DataType, place: str) -> SparkForm:
    inner = [form_of(one.type, f"{place}.{one.name}") for one in kind]
    if not inner:
        return SparkForm(pa.bool_(), lambda array, _: pc.if_else(array.is_valid(), True, pa.scalar(None, pa.bool_())))
    names = distinct_names([one.name for one in kind])
    made = pa.struct([pa.field(name, form.type) for name, form in zip(names, inner, strict=True)])
    if made == kind:
        return SparkForm(made)

    def convert(array: pa.Array, unheld: Unheld) -> pa.Array:
        parts = [_converted(array.field(place), form, unheld) for place, form in enumerate(inner)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(parts, fields=list(made), mask=mask)

    return SparkForm(made, convert)


def _list_form(kind: pa.DataType, place: str) -> SparkForm:
    inner = form_of(kind.value_type, f"{place}[]")
    made = pa.list_(pa.field("element", inner.type))

    def convert(array: pa.Array, unheld: Unheld) -> pa.Array:
        items = _converted(array.values, inner, unheld)
        return pa.Array.from_buffers(
            made, len(array), array.buffers()[:2], array.null_count, array.offset, children=[items]
        )

    return SparkForm(made, None if made == kind else convert)


def _map_form(kind: pa.DataType, place: str) -> SparkForm:
    key, value = form_of(kind.key_type, f"{place}{{}}"), form_of(kind.item_type, f"{place}{{}}")
    made = pa.map_(key.type, value.type)

    def convert(array: pa.Array, unheld: Unheld) -> pa.Array:
        parts = [_converted(array.keys, key, unheld), _converted(array.items, value, unheld)]
        pairs = pa.StructArray.from_arrays(parts, fields=[made.key_field, made.item_field])
        return pa.Array.from_buffers(
            made, len(array), array.buffers()[:2], array.null_count, array.offset, children=[pairs]
        )

    return SparkForm(made, None if made == kind else convert)


_FORMS: Sequence[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str], SparkForm]]] = (
    (pa.types.is_struct, _struct_form),
    (pa.types.is_map, _map_form),
    (pa.types.is_list, _list_form),
    (pa.types.is_timestamp, _timestamp_form),
    (pa.types.is_dictionary, _dictionary_form),
)
"""Functions that create the form of a nested type, or of a type with units."""
