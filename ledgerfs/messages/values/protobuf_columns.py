"""The columns of a Protobuf message, and Arrow's types for Protobuf's."""

import pyarrow as pa

from ledgerfs.formats.schemas.protobuf_schema import Field, Kind, Message, ProtobufSchema
from ledgerfs.messages.values.value_columns import Column, Items, Nullable, Numbering, Pairs, Struct, Words

MOST_DEPTH = 64
"""Messages inside each other that become columns; those deeper inside stay bytes."""
_LEAVES = {
    Kind.DOUBLE: (Words.DOUBLE_BITS, pa.float64()),
    Kind.FLOAT: (Words.FLOAT_BITS, pa.float32()),
    Kind.INT64: (Words.INTEGER, pa.int64()),
    Kind.UINT64: (Words.INTEGER, pa.uint64()),
    Kind.INT32: (Words.INTEGER, pa.int32()),
    Kind.FIXED64: (Words.INTEGER, pa.uint64()),
    Kind.FIXED32: (Words.INTEGER, pa.uint32()),
    Kind.BOOL: (Words.BOOLEAN, pa.bool_()),
    Kind.STRING: (Words.TEXT, pa.string()),
    Kind.GROUP: (Words.BYTES, pa.binary()),
    Kind.MESSAGE: (Words.BYTES, pa.binary()),
    Kind.BYTES: (Words.BYTES, pa.binary()),
    Kind.UINT32: (Words.INTEGER, pa.uint32()),
    Kind.ENUM: (Words.INTEGER, pa.int32()),
    Kind.SFIXED32: (Words.INTEGER, pa.int32()),
    Kind.SFIXED64: (Words.INTEGER, pa.int64()),
    Kind.SINT32: (Words.INTEGER, pa.int32()),
    Kind.SINT64: (Words.INTEGER, pa.int64()),
}
"""Messages are leaves where they stay bytes, enums where their names are not known."""


def columns_of(schema: ProtobufSchema, nodes: Numbering) -> Struct:
    """Return the columns of the outermost message, their nodes numbered.

    Those of each part are numbered one after the other, a list before its items. A message inside its own definition stays bytes.
    """
    return _struct(schema, schema.messages[schema.root], nodes, (schema.root,))


def _struct(schema: ProtobufSchema, message: Message, nodes: Numbering, inside: tuple[str, ...]) -> Struct:
    shared: dict[str, int] = {}
    made = []
    for field in message.fields:
        if field.is_repeated:
            column = _list(schema, field, nodes, inside)
        elif field.oneof is not None:
            if field.oneof not in shared:
                shared[field.oneof] = nodes.node()
            column = Nullable(shared[field.oneof], _value(schema, field, nodes, inside), field.number)
        elif field.has_presence and not message.is_map_entry:
            column = Nullable(nodes.node(), _value(schema, field, nodes, inside))
        else:
            column = _value(schema, field, nodes, inside)
        made.append((field.name, column))
    return Struct(tuple(made))


def _list(schema: ProtobufSchema, field: Field, nodes: Numbering, inside: tuple[str, ...]) -> Column:
    entry = schema.messages.get(field.message or "")
    node = nodes.node()
    outer = nodes.enter(node)
    try:
        if entry is None or not entry.is_map_entry:
            return Items(node, _value(schema, field, nodes, inside))
        parts = dict(_struct(schema, entry, nodes, (*inside, entry.name)).fields)
        return Pairs(node, parts["key"], parts["value"], last_wins=True)
    finally:
        nodes.leave(outer)


def _value(schema: ProtobufSchema, field: Field, nodes: Numbering, inside: tuple[str, ...]) -> Column:
    if field.message is not None and field.message not in inside and len(inside) < MOST_DEPTH:
        return _struct(schema, schema.messages[field.message], nodes, (*inside, field.message))
    if field.enum is not None:
        words = Words.CLOSED_ENUM if field.enum.is_closed else Words.OPEN_ENUM
        return nodes.leaf(words, pa.string(), field.enum.names, field.enum.numbers)
    return nodes.leaf(*_LEAVES[field.kind])
