"""The columns of a Protobuf message, and Arrow's types for Protobuf's."""

from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.protobuf_schema import Field, Kind, Message, ProtobufSchema
from ledgerfs.messages.values.value_columns import Column, Items, Nullable, Numbering, Pairs, Struct, Words

_DEPTHS = (64, 16, 8, 4, 3, 2)
"""How many messages inside each other become columns, from the first to the last of these that makes not too many of them."""
_MOST_COLUMNS = 1 << 13
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


def columns_of(schema: ProtobufSchema) -> tuple[Struct, Numbering]:
    """Return the columns of the outermost message, and their nodes.

    Those of each part are numbered one after the other, a list before its items. A message inside its own definition stays bytes, and so
    do messages so deep inside that there would be more than 8,192 columns. Raises `InvalidSchemaError` for far too many outside of them.
    """
    for most_depth in _DEPTHS:
        with suppress(InvalidSchemaError):
            column, nodes = _columns_of(schema, most_depth)
            if len(nodes.sizes) <= _MOST_COLUMNS:
                return column, nodes
    return _columns_of(schema, 1)


def _columns_of(schema: ProtobufSchema, most_depth: int) -> tuple[Struct, Numbering]:
    nodes = Numbering()
    return _Columns(schema, nodes, most_depth).struct(schema.messages[schema.root], (schema.root,)), nodes


@dataclass(frozen=True, slots=True)
class _Columns:
    """Makes columns of messages that are inside some others, whose names are ``inside``."""

    schema: ProtobufSchema
    nodes: Numbering
    most_depth: int

    def struct(self, message: Message, inside: tuple[str, ...]) -> Struct:
        shared: dict[str, int] = {}
        made = []
        for field in message.fields:
            if field.is_repeated:
                column = self._list(field, inside)
            elif field.oneof is not None:
                if field.oneof not in shared:
                    shared[field.oneof] = self.nodes.node()
                column = Nullable(shared[field.oneof], self._value(field, inside), field.number)
            elif field.has_presence and not message.is_map_entry:
                column = Nullable(self.nodes.node(), self._value(field, inside))
            else:
                column = self._value(field, inside)
            made.append((field.name, column))
        return Struct(tuple(made))

    def _list(self, field: Field, inside: tuple[str, ...]) -> Column:
        entry = self.schema.messages.get(field.message or "")
        node = self.nodes.node()
        outer = self.nodes.enter(node)
        try:
            if entry is None or not entry.is_map_entry:
                return Items(node, self._value(field, inside))
            parts = dict(self.struct(entry, (*inside, entry.name)).fields)
            return Pairs(node, parts["key"], parts["value"], last_wins=True)
        finally:
            self.nodes.leave(outer)

    def _value(self, field: Field, inside: tuple[str, ...]) -> Column:
        if field.message is not None and field.message not in inside and len(inside) < self.most_depth:
            return self.struct(self.schema.messages[field.message], (*inside, field.message))
        if field.enum is not None:
            words = Words.CLOSED_ENUM if field.enum.is_closed else Words.OPEN_ENUM
            return self.nodes.leaf(words, pa.string(), field.enum.names, field.enum.numbers)
        return self.nodes.leaf(*_LEAVES[field.kind])
