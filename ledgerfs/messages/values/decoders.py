"""Which decoder the values of a schema need."""

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import parse_avro_schema
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.messages.values.avro_program import avro_program
from ledgerfs.messages.values.avro_values import decode_avro
from ledgerfs.messages.values.primitive_values import PRIMITIVE_TYPES, decode_primitive
from ledgerfs.messages.values.value_columns import type_of
from ledgerfs.messages.values.value_decoder import ValueDecoder
from ledgerfs.messages.values.value_program import REASONS, Reason


class AvroDecoder:
    def __init__(self, w, r, off):
        self.p = avro_program(w, r)
        self.off = off
        self.type = type_of(self.p.column)

    def decode(self, data, starts, ends, valid=None):
        import numpy as np

        return decode_avro(self.p, data, np.minimum(starts + self.off, ends), ends, valid)

    def explain(self, reason):
        return self.p.reasons[reason - 16] if reason >= 16 else REASONS[Reason(reason)]


class PrimitiveDecoder:
    def __init__(self, kind, charset):
        self.kind, self.charset = kind, charset
        self.type = PRIMITIVE_TYPES[kind]

    def decode(self, data, starts, ends, valid=None):
        return decode_primitive(self.kind, data, starts, ends, valid, self.charset)

    def explain(self, reason):
        return REASONS[Reason(reason)]


def decoder_of(writer: SchemaInfo, reader: SchemaInfo | None = None) -> ValueDecoder:
    """Return what decodes values of ``writer`` as those of ``reader``; raises `InvalidSchemaError` where that cannot be."""
    wanted = writer if reader is None else reader
    if writer.type != wanted.type:
        raise InvalidSchemaError(f"it is a value of a schema of type {writer.type}, which is not read as {wanted.type}")
    if writer.type == "AVRO":
        schemas = parse_avro_schema(writer.data), parse_avro_schema(wanted.data)
        return AvroDecoder(*schemas, writer.avro_offset)
    if writer.type in PRIMITIVE_TYPES:
        return PrimitiveDecoder(writer.type, writer.charset)
    raise InvalidSchemaError(f"schemas of type {writer.type} are not read yet")
