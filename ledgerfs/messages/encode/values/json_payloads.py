"""Values of an Avro schema as JSON documents, as Pulsar's clients write them: times are numbers, bytes base64, nulls left out."""

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.schemas.avro_schema import AvroSchema, Union, parts_of
from ledgerfs.messages.encode.values.avro_payloads import ticks
from ledgerfs.messages.kernels.arrays import valid_of
from ledgerfs.messages.kernels.gather import bitmap
from ledgerfs.messages.text.json_typed import items_of, typed_values
from ledgerfs.messages.values.avro_columns import is_null

_MOST_BRANCHES = 2


def require_json(schema: AvroSchema) -> None:
    """Raise `InvalidSchemaError` for a union of several types: a JSON document does not name the type of a value."""
    left, seen = [schema.root], set()
    while left:
        kind = left.pop()
        if isinstance(kind, Union) and sum(not is_null(one) for one in kind.branches) >= _MOST_BRANCHES:
            raise InvalidSchemaError(
                "a union of several types cannot be written as JSON, which does not distinguish them"
            )
        if id(kind) not in seen:
            seen.add(id(kind))
            left += parts_of(kind)


def json_payloads(array: pa.Array) -> pa.Array:
    """Return the documents of values from `avro_array` (``large_binary``), null where these are null."""
    return typed_values(_with_numbers(array)).view(pa.large_binary())


def _with_numbers(array: pa.Array) -> pa.Array:
    """Return the same values with integers for times, nested ones included."""
    kind, valid = array.type, valid_of(array)
    if pt.is_temporal(kind):
        return pa.array(ticks(array), mask=~valid)
    if pt.is_struct(kind):
        parts = [_with_numbers(one) for one in array.flatten()]
        names = pa.struct([pa.field(one.name, part.type) for one, part in zip(kind, parts, strict=True)])
        return pa.Array.from_buffers(names, len(array), [bitmap(valid)], children=parts)
    if pt.is_list(kind) or pt.is_map(kind):
        offsets, found = items_of(array)
        inner = _with_numbers(found)
        made = pa.map_(inner.type[0].type, inner.type[1].type) if pt.is_map(kind) else pa.list_(inner.type)
        if pt.is_map(kind):
            inner = pa.StructArray.from_arrays(inner.flatten(), fields=[made.key_field, made.item_field])
        buffers = [bitmap(valid), pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(made, len(array), buffers, children=[inner])
    return array
