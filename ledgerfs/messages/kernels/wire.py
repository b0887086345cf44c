"""Protobuf's wire format for kernels: one walk over the fields of a message, by a small map of columns.

Nothing is read outside ``at … end``, whatever the bytes claim; a position of -1 means that a field does not fit.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.kernel import inlined_kernel, inner_kernel
from ledgerfs.formats.memory_loads import load_little_int64
from ledgerfs.messages.kernels.arrays import trailing_zeros

ABSENT = -(2**63)
"""Value of a column whose field is missing, if 0 is a possible value."""

_SEVEN_BITS = 0x7F7F7F7F7F7F7F7F
"""The value bits of each byte of a varint."""
_SKIPPED = -1
_COUNTED = 64
ACTIONS = 8 * 40
"""Size of a `field_map`, by the highest number of a field."""

Columns = npt.NDArray[np.int64]


def field_map(
    numbers: Mapping[int, int] | None = None,
    places: Mapping[int, int] | None = None,
    counts: Mapping[int, int] | None = None,
) -> Columns:
    """Return the actions of `walk_fields` for each field, as an array by tag; all other fields are skipped.

    Parameters
    ----------
    numbers
        {field number: column of its varint}.
    places
        {field number: column of the position of its bytes}; the next column gets their size.
    counts
        {field number: column that counts how often its bytes occur}.

    """
    actions = np.full(ACTIONS, _SKIPPED, np.int64)
    for columns, wire_type, kind in ((numbers, 0, 0), (places, 2, 0), (counts, 2, _COUNTED)):
        for field, column in (columns or {}).items():
            actions[8 * field + wire_type] = column + kind
    return actions


@inlined_kernel
def read_varint(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the varint at ``at`` as a wrapped int64, and the index after it or -1."""
    if at < end and data[at] < 0x80:
        return np.int64(data[at]), at + 1
    return _read_long_varint(data, at, end)


@inner_kernel
def _read_long_varint(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if end - at >= 8:
        word = load_little_int64(data, at)  # type: ignore[call-arg, var-annotated]
        ends = ~(word | _SEVEN_BITS)
        if ends != 0:
            # Bytes after the one without the highest bit do not belong to it; the bits of the others move together, by 7, 14 and 28 bits.
            word &= (ends ^ (ends - 1)) & _SEVEN_BITS
            word = (word & 0x007F007F007F007F) | ((word & 0x7F007F007F007F00) >> 1)
            word = (word & 0x00003FFF00003FFF) | ((word & 0x3FFF00003FFF0000) >> 2)
            word = (word & 0x0FFFFFFF) | ((word & 0x0FFFFFFF00000000) >> 4)
            return word, at + (trailing_zeros(ends) >> 3) + 1
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


@inlined_kernel
def walk_fields(data, at, end, table, row, actions, first):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, C901, PLR0917
    """Store the fields of the message in ``data[at:end]`` in a row of ``table[column, row]``; return whether it is well formed.

    ``actions[first:]`` begins with a `field_map`.
    """
    while at < end:
        tag, at = read_varint(data, at, end)
        if at < 0 or tag < 8:
            return False
        action = actions[first + tag] if tag < ACTIONS else -1
        wire_type = tag & 7
        if wire_type == 0:
            value, at = read_varint(data, at, end)
            if at < 0:
                return False
            if action >= 0:
                table[action, row] = value
        elif wire_type == 2:
            size, at = read_varint(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return False
            if action >= 64:
                table[action - 64, row] += 1
            elif action >= 0:
                table[action, row] = at
                table[action + 1, row] = size
            at += size
        else:
            at = skip_fixed(at, end, wire_type)
            if at < 0:
                return False
    return True


@inlined_kernel
def skip_fixed(at, end, wire_type):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the index after a field of fixed size, or -1 (groups are not used in Pulsar)."""
    if wire_type == 1 and at + 8 <= end:
        return at + 8
    if wire_type == 5 and at + 4 <= end:
        return at + 4
    return -1
