"""Schemas in readable form: the names of their fields, and their definitions as text."""

import json
from typing import Any

from google.protobuf import text_format

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import (
    Array,
    AvroType,
    Fixed,
    Map,
    Primitive,
    Record,
    Union,
    branch_name,
    parse_avro_schema,
)
from ledgerfs.formats.schemas.protobuf_files import read_native_schema
from ledgerfs.formats.schemas.schema_info import SchemaInfo, key_value_schema

_OF_AVRO = frozenset({"AVRO", "JSON", "PROTOBUF"})


def fields_of(schema: SchemaInfo) -> list[str]:
    """Return each field as ``name: type``; none for a type without fields. Raises `InvalidSchemaError` for data that is not of its type."""
    _require_readable(schema)
    if schema.type == "KEY_VALUE":
        parts = key_value_schema(schema)
        return [f"key: {_part(parts.key)}", f"value: {_part(parts.value)}"]
    if schema.type == "PROTOBUF_NATIVE":
        _, message = read_native_schema(schema.data)
        return [f"{one.name}: {_protobuf_type(one)}" for one in message.field]
    if schema.type not in _OF_AVRO:
        return []
    root = parse_avro_schema(schema.data).root
    return (
        [f"{one.name}: {_avro_type(one.type)}" for one in root.fields]
        if isinstance(root, Record)
        else [_avro_type(root)]
    )


def definition_of(schema: SchemaInfo) -> Any:  # noqa: ANN401  (JSON)
    """Return a definition as JSON: the schema in the data, or a text; None for a type that needs none.

    Raises `InvalidSchemaError`.
    """
    _require_readable(schema)
    if schema.type == "KEY_VALUE":
        parts = key_value_schema(schema)
        reported = {name: _named(part) for name, part in (("key", parts.key), ("value", parts.value))}
        return {**reported, "encoding": "SEPARATED" if parts.is_separated else "INLINE"}
    if schema.type == "PROTOBUF_NATIVE":
        files, _ = read_native_schema(schema.data)
        return {"message": json.loads(schema.data)["rootMessageTypeName"], "files": text_format.MessageToString(files)}
    if schema.type not in _OF_AVRO:
        return None
    try:
        return json.loads(schema.data)
    except (ValueError, RecursionError):
        raise InvalidSchemaError(f"the {schema.type} schema is not JSON") from None


def _require_readable(schema: SchemaInfo) -> None:
    if schema.unreadable:
        raise InvalidSchemaError(schema.unreadable)


def _named(schema: SchemaInfo) -> dict[str, Any]:
    return {"type": schema.type, "properties": dict(schema.properties), "definition": definition_of(schema)}


def _part(schema: SchemaInfo) -> str:
    fields = fields_of(schema)
    return f"{schema.type} ({', '.join(fields)})" if fields else schema.type


def _avro_type(kind: AvroType) -> str:
    match kind:
        case Primitive() | Fixed() if kind.logical is not None:
            return kind.logical.name
        case Array():
            return f"array of {_avro_type(kind.items)}"
        case Map():
            return f"map of {_avro_type(kind.values)}"
        case Union():
            names = [_avro_type(one) for one in kind.branches if branch_name(one) != "null"]
            return " or ".join(names) + ("?" if len(names) < len(kind.branches) else "")
        case Record():
            return kind.name.rpartition(".")[2]
        case _:
            return branch_name(kind).rpartition(".")[2]


def _protobuf_type(field: Any) -> str:  # noqa: ANN401  (of protobuf's own)
    kind = field.type_name.rpartition(".")[2] or type(field).Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"repeated {kind}" if field.label == field.LABEL_REPEATED else kind
