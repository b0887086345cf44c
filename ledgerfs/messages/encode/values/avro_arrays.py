"""Columns of rows as values of an Avro schema: exactly the Arrow type of decoded values, with defaults for missing fields.

Rows may have other widths, another order of fields, or lists with larger offsets. A field that the schema lacks, and a null that it
forbids, is an error that names column and row.
"""

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.schemas.avro_schema import (
    NO_DEFAULT,
    Array,
    AvroSchema,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Primitive,
    Record,
    Recursive,
    Union,
    parts_of,
)
from ledgerfs.messages.encode.values.leaf_casts import cast_leaf
from ledgerfs.messages.encode.values.places import Place
from ledgerfs.messages.kernels.arrays import valid_of
from ledgerfs.messages.kernels.gather import bitmap
from ledgerfs.messages.text.json_typed import items_of
from ledgerfs.messages.values.avro_columns import column_of, is_null, names_of_branches
from ledgerfs.messages.values.avro_values import AvroDecoder
from ledgerfs.messages.values.value_columns import Numbering, type_of

_UUID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
_NOTHING = np.zeros(0, np.uint8), np.zeros(1, np.int64), np.zeros(1, np.int64)
"""A payload of no bytes, as decoders accept it."""


def require_writable(schema: AvroSchema) -> None:
    """Raise `InvalidSchemaError` for a schema that has a type inside its own definition: decoding leaves that as bytes."""
    left, seen = [schema.root], set()
    while left:
        kind = left.pop()
        if isinstance(kind, Recursive):
            raise InvalidSchemaError(
                f"the type {kind.name!r} is recursive; values of recursive types cannot be written"
            )
        if id(kind) not in seen:
            seen.add(id(kind))
            left += parts_of(kind)


def arrow_type(kind: AvroType) -> pa.DataType:
    """Return the Arrow type of an Avro type."""
    return type_of(column_of(kind, Numbering()))


def avro_array(kind: AvroType, array: pa.Array, present: Mask, place: Place) -> pa.Array:
    """Return values in the Arrow type of an Avro type, with any content where they are not ``present``.

    Raises `InvalidRowsError` for a column, or a value, that the type does not accept.
    """
    if is_null(kind):
        place.refuse(present & valid_of(array), "is not null, but the schema allows only null")
        return pa.nulls(len(array))
    if isinstance(kind, Union):
        return _of_union(kind, array, present, place)
    place.refuse(present & ~valid_of(array), "is null, which the schema does not allow")
    match kind:
        case Record():
            return _of_record(kind, array, place)
        case Array() | Map():
            return _of_list(kind, array, place)
        case _:
            return _of_leaf(kind, array, place)


def record_array(record: Record, columns: Mapping[str, tuple[str, pa.Array]], present: Mask, place: Place) -> pa.Array:
    """Return the values of a record from the columns of its fields, each with the name that users see.

    Fields without a column have their defaults, or are null. Raises as `avro_array`.
    """
    arrays = []
    for one in record.fields:
        if one.name in columns:
            name, array = columns[one.name]
            arrays.append(avro_array(one.type, array, present, place.field(name)))
        else:
            arrays.append(_missing(one, present.size, place))
    kind = arrow_type(record)
    return pa.Array.from_buffers(kind, present.size, [bitmap(present)], children=arrays)


def _of_record(record: Record, array: pa.Array, place: Place) -> pa.Array:
    if pt.is_null(array.type):
        # No value is present, so the fields do not matter.
        return pa.nulls(len(array), arrow_type(record))
    if not record.fields and pt.is_boolean(array.type):
        # Files of Parquet and Spark have booleans for such records.
        place.refuse(
            ~np.asarray(array.fill_null(True)),
            f"is false; expected true for the record {record.name!r}, which has no fields",
        )
        return record_array(record, {}, valid_of(array), place)
    if not pt.is_struct(array.type):
        place.refuse_column(f"has the type {array.type}, but the schema has the record {record.name!r}")
    columns = _parts(array, [one.name for one in record.fields], f"the record {record.name!r} has no such field", place)
    named = {name: (name, column) for name, column in columns.items()}
    return record_array(record, named, valid_of(array), place)


def _parts(array: pa.Array, known: list[str], reason: str, place: Place) -> dict[str, pa.Array]:
    """Return the fields of a struct by name, null where it is; raises for an unknown field, and for one that occurs twice."""
    names = [one.name for one in array.type]
    for name in names:
        if name not in known:
            place.field(name).refuse_column(reason)
        if names.count(name) > 1:
            place.field(name).refuse_column("occurs twice")
    return dict(zip(names, array.flatten(), strict=True))


def _missing(one: Field, length: int, place: Place) -> pa.Array:
    if one.default is not NO_DEFAULT:
        return _default(one).take(pa.array(np.zeros(length, np.int64)))
    may_be_null = is_null(one.type) or (
        isinstance(one.type, Union) and any(is_null(branch) for branch in one.type.branches)
    )
    if not may_be_null:
        place.field(one.name).refuse_column("is missing, and the schema has no default for it")
    return pa.nulls(length, arrow_type(one.type))


def _default(one: Field) -> pa.Array:
    """Return the default of a field as readers of a record without it use it."""
    wanted = Record("wanted", (one,))
    decoder = AvroDecoder.of(AvroSchema(Record("wanted", ())), AvroSchema(wanted))
    found, reasons = decoder.decode(*_NOTHING)
    if reasons[0] > 0:
        raise InvalidSchemaError(f"the default of the field {one.name!r} does not match its type")
    return found.field(0)


def _of_union(union: Union, array: pa.Array, present: Mask, place: Place) -> pa.Array:
    values = [one for one in union.branches if not is_null(one)]
    if not values:
        return avro_array(union.branches[0], array, present, place)
    if len(values) == 1:
        is_there = present & valid_of(array) if len(union.branches) > 1 else present
        return avro_array(values[0], array, is_there, place)
    return _of_branches(union, array, present, place)


def _of_branches(union: Union, array: pa.Array, present: Mask, place: Place) -> pa.Array:
    """Return a struct with a field for each branch; one of them is not null."""
    kind = arrow_type(union)
    if pt.is_null(array.type):
        array = pa.nulls(len(array), kind)
    if not pt.is_struct(array.type):
        place.refuse_column(
            f"has the type {array.type}, but the schema has a union: expected a struct with a field for each of its types"
        )
    names = [name for name, one in zip(names_of_branches(union), union.branches, strict=True) if not is_null(one)]
    given = _parts(array, names, f"the union has no such type; it has {', '.join(names)}", place)
    values = [one for one in union.branches if not is_null(one)]
    arrays, count = [], np.zeros(len(array), np.int64)
    for name, branch in zip(names, values, strict=True):
        column = given.get(name, pa.nulls(len(array)))
        is_this = present & valid_of(column)
        count += is_this
        arrays.append(avro_array(branch, column, is_this, place.field(name)))
    place.refuse(present & (count > 1), "has values for several types of a union, expected one")
    if len(values) == len(union.branches):
        place.refuse(present & (count == 0), "is null, which the schema does not allow")
    return pa.Array.from_buffers(kind, len(array), [bitmap(present & (count == 1))], children=arrays)


def _of_list(kind: Array | Map, array: pa.Array, place: Place) -> pa.Array:
    if pt.is_null(array.type):
        return pa.nulls(len(array), arrow_type(kind))
    if isinstance(kind, Array):
        if not (pt.is_list(array.type) or pt.is_large_list(array.type) or pt.is_fixed_size_list(array.type)):
            place.refuse_column(f"has the type {array.type}, but the schema has a list")
        array = array if pt.is_list(array.type) else array.cast(pa.list_(array.type.value_type))
    elif not pt.is_map(array.type):
        place.refuse_column(f"has the type {array.type}, but the schema has a map")
    offsets, found = items_of(array)
    counts = np.diff(offsets)
    wanted = arrow_type(kind)
    inner = _items(kind, wanted, found, counts, place)
    buffers = [bitmap(valid_of(array)), pa.py_buffer(offsets.astype(np.int32))]
    return pa.Array.from_buffers(wanted, len(array), buffers, children=[inner])


def _items(kind: Array | Map, wanted: pa.DataType, found: pa.Array, counts: Int64, place: Place) -> pa.Array:
    every = np.ones(len(found), bool)
    if isinstance(kind, Array):
        return avro_array(kind.items, found, every, place.items("an item", counts))
    keys, values = found.flatten()
    keys = avro_array(Primitive("string"), keys, every, place.items("a key", counts))
    values = avro_array(kind.values, values, every, place.items("a value", counts))
    return pa.StructArray.from_arrays([keys, values], fields=[wanted.key_field, wanted.item_field])


def _of_leaf(kind: Primitive | Fixed | Enum | Recursive, array: pa.Array, place: Place) -> pa.Array:
    wanted = arrow_type(kind)
    made = cast_leaf(array, wanted, place)
    if isinstance(kind, Enum):
        known = np.asarray(pc.is_in(made, pa.array(kind.symbols, pa.string())))
        bad = valid_of(made) & ~known
        if bad.any():
            index = int(np.flatnonzero(bad)[0])
            place.fail(index, f"is {made[index].as_py()!r}, which is not a symbol of the enum {kind.name!r}")
    elif isinstance(kind, Fixed):
        _check_fixed(kind, made, place)
    return made


def _check_fixed(kind: Fixed, made: pa.Array, place: Place) -> None:
    if pt.is_binary(made.type):
        sizes = pc.binary_length(made).fill_null(kind.size).to_numpy()
        place.refuse(sizes != kind.size, f"does not have {kind.size} bytes, the size of {kind.name!r}")
    elif pt.is_string(made.type):
        is_uuid = np.asarray(pc.match_substring_regex(made, _UUID).fill_null(True))
        place.refuse(~is_uuid, "is not a UUID")
    elif pt.is_decimal(made.type) and 8 * kind.size <= made.type.bit_width:
        _check_size(kind, made, place)


def _check_size(kind: Fixed, made: pa.Array, place: Place) -> None:
    """Refuse decimals that are too large for the bytes of a fixed type."""
    least = -(1 << (8 * kind.size - 1)) if kind.size else 0
    if made.type.precision < len(str(least)) - 1:
        return
    low, high = (pa.scalar(_decimal(one, made.type.scale), made.type) for one in (least, -1 - least))
    bad = pc.or_(pc.less(made, low), pc.greater(made, high)).fill_null(False)
    place.refuse(
        np.asarray(bad) | (valid_of(made) & (kind.size == 0)), f"needs more than the {kind.size} bytes of {kind.name!r}"
    )


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
