"""The parts of Avro's encoding, each for a whole column: measure the values, and write them to given positions.

A missing value has size -1.
"""

import numpy as np

from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.messages.kernels.arrays import copy_bytes
from ledgerfs.messages.kernels.wire_writing import varint_size, write_varint


@inlined_kernel
def _zigzag(number):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return (number << 1) ^ (number >> 63)


@kernel
def number_sizes(present, numbers):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the sizes of zigzag numbers."""
    sizes = np.full(present.size, -1, np.int64)
    for i in range(present.size):
        if present[i]:
            sizes[i] = varint_size(_zigzag(numbers[i]))
    return sizes


@kernel
def write_numbers(sizes, numbers, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write zigzag numbers."""
    for i in range(sizes.size):
        if sizes[i] >= 0:
            write_varint(out, at[i], _zigzag(numbers[i]))


@kernel
def span_sizes(present, offsets):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the sizes of bytes with their count before them."""
    sizes = np.full(present.size, -1, np.int64)
    for i in range(present.size):
        if present[i]:
            size = np.int64(offsets[i + 1]) - np.int64(offsets[i])
            sizes[i] = varint_size(_zigzag(size)) + size
    return sizes


@kernel
def write_spans(sizes, data, offsets, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write bytes with their count before them."""
    for i in range(sizes.size):
        if sizes[i] >= 0:
            size = np.int64(offsets[i + 1]) - np.int64(offsets[i])
            copy_bytes(out, write_varint(out, at[i], _zigzag(size)), data, offsets[i], size)  # type: ignore[call-arg]


@kernel
def write_fixed(sizes, data, width, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write values of equally many bytes, which are contiguous."""
    for i in range(sizes.size):
        if sizes[i] >= 0:
            copy_bytes(out, at[i], data, i * width, width)  # type: ignore[call-arg]


@kernel
def write_slices(sizes, data, offsets, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write bytes as they are."""
    for i in range(sizes.size):
        if sizes[i] >= 0:
            copy_bytes(out, at[i], data, offsets[i], sizes[i])  # type: ignore[call-arg]


@kernel
def decimal_sizes(present, data, width):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return how many bytes in two's complement each number needs; they have ``width`` bytes each, the lowest first."""
    sizes = np.full(present.size, -1, np.int64)
    for i in range(present.size):
        if present[i]:
            first = i * width
            sign = np.uint8(0xFF) if data[first + width - 1] >= 0x80 else np.uint8(0)
            size = width
            while size > 1 and data[first + size - 1] == sign and (data[first + size - 2] >= 0x80) == (sign != 0):
                size -= 1
            sizes[i] = size
    return sizes


@kernel
def write_decimals(sizes, data, width, prefixed, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Write numbers in two's complement, the highest byte first, with as many bytes as ``sizes``; ``prefixed``: with that count before."""
    for i in range(sizes.size):
        if sizes[i] >= 0:
            first = i * width
            sign = np.uint8(0xFF) if data[first + width - 1] >= 0x80 else np.uint8(0)
            to = write_varint(out, at[i], _zigzag(sizes[i])) if prefixed else at[i]
            for k in range(sizes[i]):
                place = sizes[i] - 1 - k
                out[to + k] = data[first + place] if place < width else sign


@kernel
def list_sizes(present, offsets, items):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the sizes of lists, one block each and the empty one that ends them; items are ``offsets[i]`` to ``offsets[i + 1]``."""
    sizes = np.full(present.size, -1, np.int64)
    for i in range(present.size):
        if present[i]:
            count = offsets[i + 1] - offsets[i]
            size = np.int64(1)
            if count > 0:
                size += varint_size(_zigzag(count))
            for item in range(offsets[i], offsets[i + 1]):
                size += items[item]
            sizes[i] = size
    return sizes


@kernel
def write_lists(sizes, offsets, items, out, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write the frames of lists, and return the positions of the items."""
    places = np.zeros(items.size, np.int64)
    for i in range(sizes.size):
        if sizes[i] < 0:
            continue
        to = at[i]
        count = offsets[i + 1] - offsets[i]
        if count > 0:
            to = write_varint(out, to, _zigzag(count))
        for item in range(offsets[i], offsets[i + 1]):
            places[item] = to
            to += items[item]
        out[to] = 0
    return places
