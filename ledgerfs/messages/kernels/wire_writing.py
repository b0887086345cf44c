"""Protobuf's wire format written by kernels: the inverse of `ledgerfs.messages.kernels.wire`.

The caller has checked that there is room. Each function returns the index after the bytes that it wrote.
"""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel
from ledgerfs.messages.kernels.arrays import copy_bytes

_SEVEN = np.uint64(7)
_LOW_BITS = np.uint64(0x7F)
_MORE = np.uint64(0x80)


@inlined_kernel
def varint_size(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many bytes a varint has."""
    rest = np.uint64(value)
    size = 1
    while rest >= _MORE:
        rest >>= _SEVEN
        size += 1
    return size


@inlined_kernel
def write_varint(out, at, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write an integer of 64 bits."""
    rest = np.uint64(value)
    while rest >= _MORE:
        out[at] = np.uint8((rest & _LOW_BITS) | _MORE)
        rest >>= _SEVEN
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@inlined_kernel
def write_number_field(out, at, field, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write a field that is a varint."""
    return write_varint(out, write_varint(out, at, field << 3), value)


@inlined_kernel
def write_bytes(out, at, field, data, start, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Write ``data[start : start + size]`` as a field."""
    at = write_varint(out, write_varint(out, at, field << 3 | 2), size)
    copy_bytes(out, at, data, start, size)  # type: ignore[call-arg]
    return at + size


@inlined_kernel
def write_int32_be(out, at, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write the lowest four bytes of an integer, the highest first."""
    for k in range(4):
        out[at + k] = np.uint8((value >> (24 - 8 * k)) & 0xFF)
    return at + 4
