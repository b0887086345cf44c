"""Choose the encoder for the values of a schema: the inverse of `ledgerfs.messages.values.decoders`."""

import codecs
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.schemas.avro_schema import AvroSchema, Record, parse_avro_schema
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.encode.values.avro_arrays import arrow_type, avro_array, require_writable
from ledgerfs.messages.encode.values.avro_payloads import avro_payloads
from ledgerfs.messages.encode.values.json_payloads import json_payloads, require_json
from ledgerfs.messages.encode.values.places import Place
from ledgerfs.messages.encode.values.primitive_payloads import primitive_array, primitive_payloads
from ledgerfs.messages.values.primitive_values import PRIMITIVE_TYPES


class ValueEncoder(Protocol):
    """Makes payloads of one schema."""

    @property
    def record(self) -> Record | None:
        """The record that values are; None for values without fields."""
        ...

    @property
    def type(self) -> pa.DataType:
        """Arrow's type for them."""
        ...

    def array_of(self, column: pa.Array, present: Mask, place: Place) -> pa.Array:
        """Return a column in the Arrow type of the schema; raises `InvalidRowsError` for values that the schema does not accept."""
        ...

    def payloads(self, values: pa.Array, present: Mask) -> pa.Array:
        """Return the payloads (``large_binary``) of values of that type, null where they are not ``present``."""
        ...


@dataclass(frozen=True, slots=True)
class AvroEncoder:
    """Makes Avro data, or JSON documents of an Avro schema."""

    schema: AvroSchema
    is_json: bool = False

    @property
    def record(self) -> Record | None:
        """The record that values are."""
        return self.schema.root if isinstance(self.schema.root, Record) else None

    @property
    def type(self) -> pa.DataType:
        """Arrow's type for the values."""
        return arrow_type(self.schema.root)

    def array_of(self, column: pa.Array, present: Mask, place: Place) -> pa.Array:
        """Return a column as the Arrow type of the schema (see `ValueEncoder`)."""
        return avro_array(self.schema.root, column, present, place)

    def payloads(self, values: pa.Array, present: Mask) -> pa.Array:
        """Return the payloads (see `ValueEncoder`)."""
        if self.is_json:
            return json_payloads(values)
        return avro_payloads(self.schema.root, values, present).to_array()


@dataclass(frozen=True, slots=True)
class PrimitiveEncoder:
    """Makes payloads of a primitive type, by its name in Pulsar."""

    name: str

    @property
    def record(self) -> Record | None:
        """None: such values have no fields."""
        return None

    @property
    def type(self) -> pa.DataType:
        """Arrow's type for the values."""
        return PRIMITIVE_TYPES[self.name]

    def array_of(self, column: pa.Array, _: Mask, place: Place) -> pa.Array:
        """Return a column in Arrow's type for the primitive type (see `ValueEncoder`)."""
        return primitive_array(self.name, column, place)

    def payloads(self, values: pa.Array, present: Mask) -> pa.Array:
        """Return the payloads (see `ValueEncoder`)."""
        if self.name == "STRING":
            return values.cast(pa.large_binary())
        return primitive_payloads(self.name, values, present).to_array()


def encoder_of(schema: SchemaInfo) -> ValueEncoder:
    """Return the encoder for values of a schema; raises `InvalidSchemaError` for one whose values cannot be written."""
    if schema.type in {"AVRO", "JSON"}:
        if schema.avro_offset:
            raise InvalidSchemaError("values of this schema begin with foreign bytes, which ledgerfs cannot write")
        parsed = parse_avro_schema(schema.data)
        require_writable(parsed)
        if schema.type == "JSON":
            require_json(parsed)
        return AvroEncoder(parsed, schema.type == "JSON")
    if schema.type not in PRIMITIVE_TYPES or schema.type == "BYTES":
        known = ", ".join(("AVRO", "JSON", *(one for one in PRIMITIVE_TYPES if one != "BYTES")))
        raise InvalidSchemaError(f"values of type {schema.type} cannot be written; supported types are {known}")
    _require_utf8(schema)
    return PrimitiveEncoder(schema.type)


def _require_utf8(schema: SchemaInfo) -> None:
    try:
        is_utf8 = codecs.lookup(schema.charset).name == "utf-8"
    except LookupError:
        is_utf8 = False
    if not is_utf8:
        raise InvalidSchemaError(f"text is written in UTF-8, not in {schema.charset!r}")
