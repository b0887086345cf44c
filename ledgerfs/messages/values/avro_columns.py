"""The columns of an Avro schema, and Arrow types for Avro types."""

from collections import Counter

import pyarrow as pa

from ledgerfs.formats.schemas.avro_schema import (
    Array,
    AvroType,
    Enum,
    Fixed,
    Logical,
    Map,
    Primitive,
    Record,
    Recursive,
    Union,
    branch_name,
    short_name,
)
from ledgerfs.messages.values.value_columns import (
    Choice,
    Column,
    Items,
    Nothing,
    Nullable,
    Numbering,
    Pairs,
    Struct,
    Words,
)

_DIGITS_OF_16_BYTES = 38
WIDEST_FIXED = 256
"""Bytes of the largest fixed type that has a fixed width in Arrow, where each null takes as much. A type of no bytes has none either."""
_PRIMITIVES = {
    "boolean": (Words.BOOLEAN, pa.bool_()),
    "int": (Words.INTEGER, pa.int32()),
    "long": (Words.INTEGER, pa.int64()),
    "float": (Words.FLOAT_BITS, pa.float32()),
    "double": (Words.DOUBLE_BITS, pa.float64()),
    "bytes": (Words.BYTES, pa.binary()),
    "string": (Words.TEXT, pa.string()),
}
_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}


def column_of(kind: AvroType, nodes: Numbering) -> Column:
    """Return the column of a type, with numbered nodes; a type inside its own definition stays bytes."""
    match kind:
        case Primitive() | Fixed():
            return _leaf(kind, nodes)
        case Enum():
            return nodes.leaf(Words.SYMBOL, pa.string(), kind.symbols)
        case Record():
            return Struct(tuple((one.name, column_of(one.type, nodes)) for one in kind.fields))
        case Union():
            return _union(kind, nodes)
        case Array() | Map():
            return _list(kind, nodes)
        case Recursive():
            return nodes.leaf(Words.BYTES, pa.binary())


def _leaf(kind: Primitive | Fixed, nodes: Numbering) -> Column:
    if is_null(kind):
        return Nothing()
    if kind.logical is not None and kind.logical.name == "decimal":
        return nodes.leaf(Words.DECIMAL, _decimal(kind.logical))
    if isinstance(kind, Fixed):
        is_uuid = kind.logical is not None and kind.logical.name == "uuid"
        if is_uuid:
            return nodes.leaf(Words.UUID, pa.string())
        is_fixed = 0 < kind.size <= WIDEST_FIXED
        return nodes.leaf(Words.FIXED, pa.binary(kind.size)) if is_fixed else nodes.leaf(Words.BYTES, pa.binary())
    words, arrow = _PRIMITIVES[kind.name]
    return nodes.leaf(words, arrow if kind.logical is None else _LOGICAL.get(kind.logical.name, arrow))


def _list(kind: Array | Map, nodes: Numbering) -> Column:
    node = nodes.node()
    outer = nodes.enter(node)
    column: Column
    if isinstance(kind, Array):
        column = Items(node, column_of(kind.items, nodes))
    else:
        column = Pairs(node, nodes.leaf(Words.TEXT, pa.string()), column_of(kind.values, nodes), last_wins=True)
    nodes.leave(outer)
    return column


def _union(kind: Union, nodes: Numbering) -> Column:
    values = [one for one in kind.branches if not is_null(one)]
    if not values:
        return Nothing()
    if len(kind.branches) == 1:
        return column_of(values[0], nodes)
    node = nodes.node()
    if len(values) == 1:
        return Nullable(node, column_of(values[0], nodes))
    names = names_of_branches(kind)
    branches = (
        None if is_null(one) else (name, column_of(one, nodes)) for name, one in zip(names, kind.branches, strict=True)
    )
    return Choice(node, tuple(branches))


def names_of_branches(kind: Union) -> list[str]:
    """Return the field names for the branches of a union: short names, or full ones where two would be equal."""
    full = [branch_name(one) for one in kind.branches]
    short = [short_name(one) for one in full]
    counts = Counter(short)
    return [one if counts[one] == 1 else whole for one, whole in zip(short, full, strict=True)]


def is_null(kind: AvroType) -> bool:
    """Whether a type is Avro's null."""
    return isinstance(kind, Primitive) and kind.name == "null"


def _decimal(logical: Logical) -> pa.DataType:
    make = pa.decimal128 if logical.precision <= _DIGITS_OF_16_BYTES else pa.decimal256
    return make(logical.precision, logical.scale)
