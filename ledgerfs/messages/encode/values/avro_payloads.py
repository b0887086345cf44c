"""Arrow arrays of an Avro schema's type as Avro data.

Each column measures its values and can write them (`Values`), and those of a nested type combine those of its parts. A record is its
fields one after the other. So is a union: the number of the branch, and the value of one branch; values of the other branches are
missing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from ledgerfs.errors import InvalidSchemaError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.schemas.avro_schema import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Recursive, Union
from ledgerfs.messages.encode.values.avro_kernels import (
    decimal_sizes,
    list_sizes,
    number_sizes,
    span_sizes,
    write_decimals,
    write_fixed,
    write_lists,
    write_numbers,
    write_slices,
    write_spans,
)
from ledgerfs.messages.kernels.arrays import read_only, valid_of, variable_width
from ledgerfs.messages.text.json_typed import items_of
from ledgerfs.messages.values.avro_columns import is_null

ABSENT = -1
"""Size of a missing value."""
_STRING = Primitive("string")
_REALS = {"float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class Values:
    """The payloads of a column's values.

    Attributes
    ----------
    sizes
        Bytes of each, or `ABSENT`.
    write
        Called with an array of bytes and the index in it of each value; writes those that are not absent.

    """

    sizes: Int64
    write: Callable[[Bytes, Int64], None]

    def to_array(self) -> pa.Array:
        """Return them as a column (``large_binary``), null where absent."""
        ends = np.cumsum(np.maximum(self.sizes, 0))
        offsets = np.zeros(ends.size + 1, np.int64)
        offsets[1:] = ends
        out = np.empty(offsets[-1], np.uint8)
        self.write(out, offsets[:-1])
        bitmap = np.packbits(self.sizes != ABSENT, bitorder="little")
        buffers = [pa.py_buffer(bitmap), pa.py_buffer(offsets), pa.py_buffer(out)]
        return pa.Array.from_buffers(pa.large_binary(), ends.size, buffers)


def avro_payloads(kind: AvroType, array: pa.Array, present: Mask) -> Values:
    """Return the data of values from `avro_array`, absent where they are not ``present``."""
    match kind:
        case Primitive() | Fixed() | Enum():
            return _leaf(kind, array, present)
        case Record():
            parts = zip(kind.fields, array.flatten(), strict=True)
            return _in_turn([avro_payloads(one.type, part, present) for one, part in parts], present)
        case Union():
            return _union(kind, array, present)
        case Array() | Map():
            return _list(kind, array, present)
        case Recursive():
            raise InvalidSchemaError(
                f"the type {kind.name!r} is recursive; values of recursive types cannot be written"
            )


def _in_turn(parts: Sequence[Values], present: Mask) -> Values:
    """Return values one after the other; some may be absent."""
    own = [np.maximum(one.sizes, 0) for one in parts]
    sizes = np.where(present, sum(own, np.zeros(present.size, np.int64)), ABSENT)

    def write(out: Bytes, at: Int64) -> None:
        places = at.copy()
        for one, size in zip(parts, own, strict=True):
            one.write(out, places)
            places += size

    return Values(sizes, write)


def _union(union: Union, array: pa.Array, present: Mask) -> Values:
    null = next((number for number, one in enumerate(union.branches) if is_null(one)), -1)
    values = [(number, one) for number, one in enumerate(union.branches) if number != null]
    branches = np.full(present.size, null, np.int64)
    parts = []
    columns = array.flatten() if len(values) > 1 else [array]
    for (number, one), column in zip(values, columns, strict=bool(values)):
        is_this = present & (valid_of(column) if null >= 0 or len(values) > 1 else True)
        branches[is_this] = number
        parts.append(avro_payloads(one, column, is_this))
    return _in_turn([_numbers(branches, present), *parts], present)


def _list(kind: Array | Map, array: pa.Array, present: Mask) -> Values:
    offsets, found = items_of(array)
    every = np.ones(len(found), bool)
    if isinstance(kind, Array):
        items = avro_payloads(kind.items, found, every)
    else:
        keys, values = found.flatten()
        items = _in_turn([avro_payloads(_STRING, keys, every), avro_payloads(kind.values, values, every)], every)
    sizes = list_sizes(present, offsets, items.sizes)

    def write(out: Bytes, at: Int64) -> None:
        items.write(out, write_lists(sizes, offsets, items.sizes, out, at))

    return Values(sizes, write)


def _leaf(kind: Primitive | Fixed | Enum, array: pa.Array, present: Mask) -> Values:
    if is_null(kind):
        return Values(np.where(present, 0, ABSENT), lambda *_: None)
    if isinstance(kind, Fixed) and not pt.is_decimal(array.type):
        return _fixed_bytes(kind, array, present)
    if isinstance(kind, Enum):
        numbers = pc.index_in(array, pa.array(kind.symbols, pa.string())).fill_null(0)
        return _numbers(numbers.to_numpy().astype(np.int64), present)
    if pt.is_decimal(array.type):
        return _decimals(array, present, kind.size if isinstance(kind, Fixed) else -1)
    return _plain(kind.name, array, present)


def _plain(name: str, array: pa.Array, present: Mask) -> Values:
    if name in _REALS:
        return fixed_width(_own_bytes(array, _REALS[name]), _REALS[name], present)
    if name == "boolean":
        flags = np.asarray(array.fill_null(False)).astype(np.uint8)
        return fixed_width(flags, 1, present)
    if pt.is_string(array.type) or pt.is_binary(array.type):
        data, offsets = variable_width(array)
        return _measured(span_sizes(present, offsets), write_spans, data, offsets)
    return _numbers(ticks(array), present)


def ticks(array: pa.Array) -> Int64:
    """Return integers and times as numbers, 0 where null."""
    narrow = pt.is_int32(array.type) or pt.is_date32(array.type) or pt.is_time32(array.type)
    numbers: Int64 = array.cast(pa.int32() if narrow else pa.int64()).fill_null(0).to_numpy().astype(np.int64)
    return numbers


def fixed_width(data: Bytes, width: int, present: Mask) -> Values:
    """Return values of ``width`` bytes each, which are contiguous, unchanged."""
    return _measured(np.where(present, width, ABSENT), write_fixed, read_only(np.ascontiguousarray(data)), width)


def _numbers(numbers: Int64, present: Mask) -> Values:
    return _measured(number_sizes(present, numbers), write_numbers, numbers)


def _decimals(array: pa.Array, present: Mask, size: int) -> Values:
    """Return decimals with as many bytes as each needs and their count before, or with ``size`` bytes."""
    width = array.type.bit_width // 8
    data = _own_bytes(array, width)
    if size >= 0:
        return _measured(np.where(present, size, ABSENT), write_decimals, data, width, 0)
    inner = decimal_sizes(present, data, width)
    # Fewer than 64, so the count takes one byte.
    sizes = np.where(present, inner + 1, ABSENT)
    return Values(sizes, lambda out, at: write_decimals(inner, data, width, 1, out, at))


def _fixed_bytes(kind: Fixed, array: pa.Array, present: Mask) -> Values:
    if pt.is_string(array.type):
        data, offsets = variable_width(pc.replace_substring(array.fill_null("0" * 32), "-", ""))
        digits = data[offsets[0] : offsets[-1]].tobytes().decode()
        return fixed_width(np.frombuffer(bytes.fromhex(digits) + b"\0", np.uint8), 16, present)
    if pt.is_binary(array.type):
        data, offsets = variable_width(array)
        return _measured(np.where(present, kind.size, ABSENT), write_slices, data, offsets)
    return fixed_width(_own_bytes(array, kind.size), kind.size, present)


def _own_bytes(array: pa.Array, width: int) -> Bytes:
    """Return the bytes of an array of values with a fixed width."""
    found = array.buffers()[1]
    if found is None or not len(array):
        return read_only(np.zeros(len(array) * width + 1, np.uint8))
    return read_only(np.frombuffer(found, np.uint8, len(array) * width, array.offset * width))


def _measured(sizes: Int64, write: Callable[..., None], *given: object) -> Values:
    return Values(sizes, partial(write, sizes, *given))
