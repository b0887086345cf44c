"""JSON values to Arrow arrays, by an Avro schema, as Pulsar's JSON schemas are, or as an Arrow type.

Everything may be null: Pulsar's clients write any value they get, and leave out nulls, whatever the schema requires.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.schemas.avro_schema import (
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Recursive,
    Union,
    branch_name,
    parse_avro_schema,
)
from ledgerfs.messages.kernels.arrays import spans
from ledgerfs.messages.values.avro_columns import column_of, is_null, names_of_branches
from ledgerfs.messages.values.avro_matching import described
from ledgerfs.messages.values.json_parsing import BYTES_AT_ONCE, NO_JSON, Documents
from ledgerfs.messages.values.json_parts import (
    Base64,
    Choice,
    Field,
    Integer,
    Items,
    Pairs,
    Part,
    Plain,
    Real,
    Run,
    Text,
)
from ledgerfs.messages.values.json_parts import Record as Objects
from ledgerfs.messages.values.json_places import Place
from ledgerfs.messages.values.json_unions import branches_of_values
from ledgerfs.messages.values.value_columns import MOST_NODES, Numbering, type_of
from ledgerfs.messages.values.value_program import Reason, explain

_INT, _LONG = range(-(1 << 31), 1 << 31), range(-(1 << 63), 1 << 63)
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_RANGES = {
    pa.int8(): (range(-(1 << 7), 1 << 7), "not a number of 8 bits"),
    pa.int16(): (range(-(1 << 15), 1 << 15), "not a number of 16 bits"),
    pa.int32(): (_INT, "not an int"),
    pa.int64(): (_LONG, "not a long"),
    pa.date32(): (_INT, "not a date in days"),
    pa.time32("ms"): (range(86_400_000), "not a time of day in milliseconds"),
    pa.time64("us"): (range(86_400_000_000), "not a time of day in microseconds"),
    pa.time64("ns"): (range(86_400_000_000_000), "not a time of day in nanoseconds"),
}
_HAS_MORE = "it has a field that the inferred type lacks"


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """Decodes documents by a schema (Pulsar's JSON schemas are Avro's), or as an Arrow type. A `ValueDecoder`."""

    _root: Part
    _reasons: tuple[str, ...]

    @classmethod
    def of_schema(cls, schema: AvroSchema | str | bytes, names: Mapping[int, str] | None = None) -> "JsonDecoder":
        """Return the decoder of a schema; raises `InvalidSchemaError`.

        ``names`` are the names of fields in documents, by the identities of these fields; without them all aliases are further names.
        """
        wanted = schema if isinstance(schema, AvroSchema) else parse_avro_schema(schema)
        maker = _Maker(names=names)
        return cls(maker.of_avro(wanted.root, Place()), tuple(maker.reasons))

    @classmethod
    def of_type(cls, kind: pa.DataType, *, is_closed: bool = False) -> "JsonDecoder":
        """Return a decoder that makes arrays of an Arrow type; for text, values that are not text become JSON.

        Fields that the type lacks are left out; with ``is_closed`` a document that has one cannot be decoded. Raises `InvalidSchemaError`.
        """
        maker = _Maker(is_closed)
        return cls(maker.of_arrow(kind, Place()), tuple(maker.reasons))

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        return self._root.type

    def decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None = None) -> tuple[pa.Array, Int64]:
        """Return an array of the documents ``data[starts[i] : ends[i]]``, and the reason for each that could not be decoded.

        A document that is null, or lacks a part of the schema, has null there and no reason. Raises as in `ValueDecoder`.
        """
        parts = [
            self._decode(data, starts[first:last], ends[first:last], None if valid is None else valid[first:last])
            for first, last in [*spans(ends - starts, BYTES_AT_ONCE)] or [(0, 0)]
        ]
        reasons: Int64 = np.concatenate([one for _, one in parts])
        return pa.concat_arrays([array for array, _ in parts]), reasons

    def _decode(self, data: Bytes, starts: Int64, ends: Int64, valid: Mask | None) -> tuple[pa.Array, Int64]:
        documents = Documents.parsed(data, starts, ends, valid)
        rows = np.arange(starts.size)
        while True:
            run = Run(documents)
            array = self._root.build(documents.values, rows, run)
            if run.is_done:
                return array, documents.reasons
            for row in run.failed.keys() - run.inexact:
                documents.refuse(row, run.failed[row])
            for row in run.inexact:
                documents.parse_exactly(row)

    def explain(self, reason: int) -> str:
        """Return a reason in words that follow the name of a message."""
        return explain(reason, self._reasons)


@dataclass(slots=True)
class _Maker:
    """Makes parts, and collects the reasons for values of other types."""

    is_closed: bool = False
    names: Mapping[int, str] | None = None
    reasons: list[str] = field(default_factory=lambda: [NO_JSON, _HAS_MORE])
    _parts: int = 0

    def of_avro(self, kind: AvroType, place: Place) -> Part:  # noqa: PLR0911  (one for each kind of type)
        """Return the part of an Avro type."""
        self._count()
        match kind:
            case Primitive(name="null"):
                return Plain(pa.null(), self._reason(place, "not null"))
            case Primitive() | Fixed() | Enum():
                arrow = type_of(column_of(kind, Numbering()))
                # Symbols, UUIDs and decimals are written as text or a number, so any content is accepted.
                is_text = pa.types.is_string(arrow) or pa.types.is_decimal(arrow)
                return Text(self._reason(place, "not text")) if is_text else self._scalar(arrow, place)
            case Recursive():
                return Text(self._reason(place, "not an object"), has_parts=True, is_object=True)
            case Union():
                values = [one for one in kind.branches if not is_null(one)]
                if len(values) < 2:
                    return self.of_avro(values[0] if values else kind.branches[0], place)
                return self._choice(kind, place)
            case Record():
                fields = [
                    Field(one.name, self.of_avro(one.type, place.field(one.name)), self._aliases(kind, one.name))
                    for one in kind.fields
                ]
                return Objects(tuple(fields), self._reason(place, "not an object"))
            case Array():
                before = self._parts
                item = self.of_avro(kind.items, place.part("an item"))
                return Items(item, self._reason(place, "not a list"), self._parts - before)
            case Map():
                before = self._parts
                value = self.of_avro(kind.values, place.part("a value"))
                return Pairs(value, self._reason(place, "not an object"), self._parts - before + 1)

    def _aliases(self, record: Record, name: str) -> tuple[str, ...]:
        """Return further names of a field: those that are not names of another field, or aliases of an earlier one."""
        taken = {one.name for one in record.fields}
        for one in record.fields:
            found = one.aliases if self.names is None else [self.names[id(one)]] if id(one) in self.names else []
            free = tuple(alias for alias in found if alias not in taken)
            if one.name == name:
                return free
            taken.update(free)
        return ()

    def _choice(self, union: Union, place: Place) -> Part:
        branches = {
            number: (name, self.of_avro(branch, place))
            for number, (name, branch) in enumerate(zip(names_of_branches(union), union.branches, strict=True))
            if not is_null(branch)
        }
        names = ", ".join(described(one) if isinstance(one, Primitive) else branch_name(one) for one in union.branches)
        none = self._reason(place, f"not one of [{names}]")
        several = self._reason(
            place, f"ambiguous: several types of [{names}] match it, and JSON does not distinguish them"
        )
        return Choice(branches, branches_of_values(union), none, several)

    def of_arrow(self, kind: pa.DataType, place: Place) -> Part:
        """Return the part of an Arrow type; text accepts everything, with values that are not text as JSON."""
        self._count()
        if pa.types.is_null(kind):
            return Plain(pa.null(), self._reason(place, "not null"))
        if pa.types.is_string(kind):
            return Text(0, has_parts=True)
        if pa.types.is_struct(kind):
            names = [one.name for one in kind]
            if len(set(names)) < len(names):
                raise InvalidSchemaError(f"the type {kind} has a field twice")
            if any("\0" in one for one in names):
                raise InvalidSchemaError(
                    f"the type has a NUL character in field names ({names!r}), where other libraries cut them off"
                )
            fields = [Field(one.name, self.of_arrow(one.type, place.field(one.name))) for one in kind]
            more = Reason.OF_PROGRAM + self.reasons.index(_HAS_MORE) if self.is_closed else 0
            return Objects(tuple(fields), self._reason(place, "not an object"), more)
        before = self._parts
        if pa.types.is_list(kind):
            item = self.of_arrow(kind.value_type, place.part("an item"))
            return Items(item, self._reason(place, "not a list"), self._parts - before)
        if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            value = self.of_arrow(kind.item_type, place.part("a value"))
            return Pairs(value, self._reason(place, "not an object"), self._parts - before + 1)
        return self._scalar(kind, place)

    def _scalar(self, kind: pa.DataType, place: Place) -> Part:
        if pa.types.is_boolean(kind):
            return Plain(kind, self._reason(place, "not a boolean"))
        if kind in (pa.float32(), pa.float64()):
            too_large = self._reason(place, f"a number outside the range of {kind}")
            return Real(kind, self._reason(place, "not a number"), too_large)
        if pa.types.is_binary(kind):
            return Base64(kind, self._reason(place, "not base64 text"))
        if pa.types.is_fixed_size_binary(kind):
            return Base64(kind, self._reason(place, f"not base64 text of {kind.byte_width} bytes"))
        if pa.types.is_timestamp(kind):
            return Integer(kind, _LONG, self._reason(place, f"not a time in {_UNITS[kind.unit]}"))
        if kind not in _RANGES:
            raise InvalidSchemaError(f"JSON cannot be read as the type {kind}")
        numbers, text = _RANGES[kind]
        return Integer(kind, numbers, self._reason(place, text))

    def _count(self) -> None:
        self._parts += 1
        if self._parts > MOST_NODES:
            raise InvalidSchemaError(f"the schema has more than {MOST_NODES:,} columns, including nested ones")

    def _reason(self, place: Place, what: str) -> int:
        """Return the number of a reason."""
        self.reasons.append(place.is_no(what))
        return Reason.OF_PROGRAM + len(self.reasons) - 1
