"""Choose the decoder for the values of a schema."""

from collections.abc import Callable

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import parse_avro_schema
from ledgerfs.formats.schemas.protobuf_schema import FIELDS_PROPERTY, protobuf_schema
from ledgerfs.formats.schemas.schema_info import SchemaInfo, key_value_schema
from ledgerfs.messages.values.avro_values import AvroDecoder
from ledgerfs.messages.values.json_values import JsonDecoder
from ledgerfs.messages.values.json_versions import names_in
from ledgerfs.messages.values.key_values import InlineDecoder, SeparatedDecoder
from ledgerfs.messages.values.primitive_values import PRIMITIVE_TYPES, PrimitiveDecoder
from ledgerfs.messages.values.protobuf_values import ProtobufDecoder
from ledgerfs.messages.values.value_decoder import ValueDecoder

_OF_PROTOBUF = frozenset({"PROTOBUF", "PROTOBUF_NATIVE"})
"""Types with the same payloads: one may be read by a schema of the other."""


def decoder_of(writer: SchemaInfo, reader: SchemaInfo | None = None) -> ValueDecoder:
    """Return the decoder of values of ``writer`` as those of ``reader``; raises `InvalidSchemaError` if that is impossible."""
    wanted = writer if reader is None else reader
    if writer.unreadable or wanted.unreadable:
        raise InvalidSchemaError(writer.unreadable or wanted.unreadable)
    if writer.type != wanted.type and not {writer.type, wanted.type} <= _OF_PROTOBUF:
        raise InvalidSchemaError(f"its schema has the type {writer.type}, which cannot be read as {wanted.type}")
    if writer.type in PRIMITIVE_TYPES:
        return PrimitiveDecoder(writer.type, writer.charset)
    if writer.type not in _DECODERS:
        raise InvalidSchemaError(f"ledgerfs cannot read values of type {writer.type}")
    return _DECODERS[writer.type](writer, wanted)


def _avro(writer: SchemaInfo, reader: SchemaInfo) -> ValueDecoder:
    schema = parse_avro_schema(writer.data)
    wanted = schema if reader.data == writer.data else parse_avro_schema(reader.data)
    return AvroDecoder.of(schema, wanted, writer.avro_offset)


def _json(writer: SchemaInfo, reader: SchemaInfo) -> ValueDecoder:
    wanted = parse_avro_schema(reader.data)
    names = {} if reader.data == writer.data else names_in(parse_avro_schema(writer.data), wanted)
    return JsonDecoder.of_schema(wanted, names)


def _key_value(writer: SchemaInfo, reader: SchemaInfo) -> ValueDecoder:
    written, wanted = key_value_schema(writer), key_value_schema(reader)
    make = SeparatedDecoder if written.is_separated else InlineDecoder
    return make(decoder_of(written.key, wanted.key), decoder_of(written.value, wanted.value))


def _protobuf(writer: SchemaInfo, reader: SchemaInfo) -> ValueDecoder:
    wanted = protobuf_schema(reader)
    # An old schema may lack its fields; a descriptor that a user gives for it has them.
    is_known = writer != reader and (writer.type == "PROTOBUF_NATIVE" or FIELDS_PROPERTY in writer.properties)
    return ProtobufDecoder.of(protobuf_schema(writer) if is_known else wanted, wanted)


_DECODERS: dict[str, Callable[[SchemaInfo, SchemaInfo], ValueDecoder]] = {
    "AVRO": _avro,
    "JSON": _json,
    "KEY_VALUE": _key_value,
    "PROTOBUF": _protobuf,
    "PROTOBUF_NATIVE": _protobuf,
}
"""The function that makes the decoder of a type, from the writer's schema and the reader's of the same type."""
