"""Protobuf's wire format for kernels: one walk over the fields of a message, which a small map of columns steers.

Nothing is read outside ``at … end``, whatever the bytes claim; a position of -1 stands for "does not fit".
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

ABSENT = -(2**63)
"""Value of a column whose field is not in the message, where 0 could be."""

_NO_COLUMN = -1
_HIGHEST_FIELD = 40

Columns = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FieldMap:
    """Which column of a table a field goes to, by field number; -1 for none. Fields in no map are skipped.

    Attributes
    ----------
    numbers
        Column of a varint.
    places
        Column of where the bytes of a field begin; the next column gets their size.
    counts
        Column that counts how often a field of bytes occurs.

    """

    numbers: Columns
    places: Columns
    counts: Columns

    @classmethod
    def of(
        cls,
        numbers: Mapping[int, int] | None = None,
        places: Mapping[int, int] | None = None,
        counts: Mapping[int, int] | None = None,
    ) -> "FieldMap":
        """Make a map from {field number: column}."""
        return cls(*(_by_field(columns or {}) for columns in (numbers, places, counts)))


def _by_field(columns: Mapping[int, int]) -> Columns:
    table = np.full(_HIGHEST_FIELD, _NO_COLUMN, np.int64)
    for field, column in columns.items():
        table[field] = column
    return table


@njit(nogil=True, cache=True)
def read_varint(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the varint at ``at`` as a wrapped int64, and the position behind it or -1."""
    value = np.int64(0)
    shift = 0
    while at < end and shift < 70:
        byte = np.int64(data[at])
        at += 1
        if shift < 64:
            value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return value, -1


@njit(nogil=True, cache=True)
def uint32_be(data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return four bytes, big-endian, as int64; the caller has checked the bounds."""
    high = (np.int64(data[at]) << 24) | (np.int64(data[at + 1]) << 16)
    return high | (np.int64(data[at + 2]) << 8) | np.int64(data[at + 3])


@njit(nogil=True, cache=True)
def walk_fields(data, at, end, table, row, numbers, places, counts):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, C901, PLR0917
    """Store the fields of the message in ``data[at:end]`` in a row of ``table``; return whether it is well formed."""
    while at < end:
        tag, at = read_varint(data, at, end)
        if at < 0 or tag < 8:
            return False
        field = tag >> 3
        wire_type = tag & 7
        is_known = field < numbers.size
        if wire_type == 0:
            value, at = read_varint(data, at, end)
            if at < 0:
                return False
            if is_known and numbers[field] >= 0:
                table[row, numbers[field]] = value
        elif wire_type == 2:
            size, at = read_varint(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return False
            if is_known and places[field] >= 0:
                table[row, places[field]] = at
                table[row, places[field] + 1] = size
            if is_known and counts[field] >= 0:
                table[row, counts[field]] += 1
            at += size
        else:
            at = skip_fixed(at, end, wire_type)
            if at < 0:
                return False
    return True


@njit(nogil=True, cache=True)
def skip_fixed(at, end, wire_type):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the position behind a field of fixed size, or -1 (groups are not used by anybody)."""
    if wire_type == 1 and at + 8 <= end:
        return at + 8
    if wire_type == 5 and at + 4 <= end:
        return at + 4
    return -1


@intrinsic
def copy_bytes(typingctx, target, target_at, source, source_at, length):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, ARG001, PLR0917
    """Copy bytes between uint8 arrays with the C library's memcpy; the caller has checked the bounds."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        to, source_data = (context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 2))
        byte = ir.IntType(8).as_pointer()
        to_place = builder.gep(builder.bitcast(to, byte), [arguments[1]])
        source_place = builder.gep(builder.bitcast(source_data, byte), [arguments[3]])
        cgutils.raw_memcpy(builder, to_place, source_place, arguments[4], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.intp), codegen
