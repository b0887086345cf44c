"""Convert columns to Parquet: the stored type of each Arrow type, and the leaves to encode.

Parquet does not support structs without fields, which become boolean (``true`` for a value), and bytes of width 0, which become
variable-width bytes. All other types are unchanged.
"""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

_TRUE = pa.scalar(True, pa.bool_())


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the types that Parquet stores; the same schema if it stores them all."""
    return pa.schema([_stored_field(one) for one in schema], schema.metadata)


def stored_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to its `stored_schema`."""
    return pa.RecordBatch.from_arrays([_stored(one) for one in batch.columns], schema=schema)


class Leaf(NamedTuple):
    """A leaf of a column: its path in Parquet, and its type."""

    path: str
    type: pa.DataType

    @property
    def is_ordered(self) -> bool:
        """Whether minimum and maximum cover all values, which is false for floats: they may contain NaN.

        Readers that prune by such statistics would skip rows with NaN.
        """
        return not pa.types.is_floating(self.type)


def leaves_of(field: pa.Field, path: str = "") -> Iterator[Leaf]:
    """Yield the leaves of a column."""
    name, kind = path or field.name, field.type
    if pa.types.is_struct(kind):
        for one in kind:
            yield from leaves_of(one, f"{name}.{one.name}")
    elif pa.types.is_map(kind):
        yield from leaves_of(kind.key_field, f"{name}.key_value.key")
        yield from leaves_of(kind.item_field, f"{name}.key_value.value")
    elif pa.types.is_list(kind):
        yield from leaves_of(kind.value_field, f"{name}.list.element")
    else:
        yield Leaf(name, kind)


def _stored_field(field: pa.Field) -> pa.Field:
    return field.with_type(_stored_type(field.type))


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_stored_field(one) for one in kind]) if kind.num_fields else pa.bool_()
    if pa.types.is_map(kind):
        return pa.map_(_stored_field(kind.key_field), _stored_field(kind.item_field))
    if pa.types.is_list(kind):
        return pa.list_(_stored_field(kind.value_field))
    return pa.binary() if pa.types.is_fixed_size_binary(kind) and not kind.byte_width else kind


def _stored(array: pa.Array) -> pa.Array:
    kind = _stored_type(array.type)
    if kind == array.type:
        return array
    if pa.types.is_boolean(kind):
        return pa.compute.if_else(array.is_valid(), _TRUE, None)
    if pa.types.is_binary(kind):
        return array.cast(kind)
    if pa.types.is_struct(kind):
        parts = [_stored(array.field(place)) for place in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if pa.types.is_map(kind):
        entries = [_stored(array.keys), _stored(array.items)]
        inner = pa.StructArray.from_arrays(entries, fields=[kind.key_field, kind.item_field])
    else:
        inner = _stored(array.values)
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], offset=array.offset, children=[inner])
