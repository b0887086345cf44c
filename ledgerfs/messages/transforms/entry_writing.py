"""Kernels that write parts of entries: fields, the kept fields of a message, frame and record header around it.

The caller has checked that the output has room. The input was walked before, so its fields fit; no byte outside ``at … end`` is read.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.crc import crc32c_after
from ledgerfs.formats.kernel import inlined_kernel, inner_kernel
from ledgerfs.formats.memory_loads import load_uint32
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.messages.kernels.arrays import copy_bytes
from ledgerfs.messages.kernels.wire import read_varint, skip_fixed

_HIGHEST_FIELD = 40


def dropped_fields(numbers: Iterable[int], texts: Iterable[int] = ()) -> npt.NDArray[np.bool_]:
    """Return the fields that `put_kept_fields` drops, as an array by tag: ``numbers`` hold a varint, ``texts`` hold bytes."""
    drops = np.zeros(8 * _HIGHEST_FIELD, np.bool_)
    drops[[8 * field for field in numbers]] = True
    drops[[8 * field + 2 for field in texts]] = True
    return drops


@inlined_kernel
def next_field(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the tag of the field at ``at``, where its value begins (after the size, if it has one), and where it ends, or -1."""
    tag, at = read_varint(data, at, end)
    if at < 0 or tag < 8:
        return tag, at, -1
    wire_type = tag & 7
    if wire_type == 0:
        _, after = read_varint(data, at, end)
        return tag, at, after
    if wire_type == 2:
        size, at = read_varint(data, at, end)
        fits = at >= 0 and 0 <= size <= end - at
        return tag, at, at + size if fits else -1
    return tag, at, skip_fixed(at, end, wire_type)


@inner_kernel
def put_kept_fields(out, to, data, at, end, drops):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Copy the fields of the message in ``data[at:end]`` except those in ``drops``, byte for byte; return the index after them."""
    kept_from = at
    while at < end:
        tag, _, after = next_field(data, at, end)
        if after < 0:
            break
        if tag < drops.size and drops[tag]:
            to = put_stretch(out, to, data, kept_from, at)
            kept_from = after
        at = after
    return put_stretch(out, to, data, kept_from, at)


@inlined_kernel
def put_stretch(out, to, data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Copy bytes unchanged."""
    copy_bytes(out, to, data, at, end - at)  # type: ignore[call-arg]
    return to + end - at


@inlined_kernel
def put_varint(out, to, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write an int64 as protobuf does, in up to ten bytes; return the index after it."""
    rest = np.uint64(value)
    while rest >= np.uint64(0x80):
        out[to] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        to += 1
    out[to] = np.uint8(rest)
    return to + 1


@inlined_kernel
def put_number(out, to, field, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write a field that holds a varint; return the index after it."""
    return put_varint(out, put_varint(out, to, 8 * field), value)


@inlined_kernel
def put_text(out, to, field, data, at, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Write a field that holds bytes; return the index after it."""
    to = put_varint(out, put_varint(out, to, 8 * field + 2), size)
    return put_stretch(out, to, data, at, at + size)


@inlined_kernel
def put_integer(out, to, value, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write an integer of ``size`` bytes, big-endian; return the index after it."""
    for k in range(size):
        out[to + k] = np.uint8((value >> (8 * (size - 1 - k))) & 0xFF)
    return to + size


@inlined_kernel
def after_broker_metadata(data, at):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the index after the broker's metadata of a walked entry: that of its checksum, if it has one."""
    if data[at] == 0x0E and data[at + 1] == 0x02:
        return at + 6 + load_uint32(data, at + 2)  # type: ignore[call-arg]
    return at


@inlined_kernel
def put_checksum_frame(out, to, has_checksum):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Begin a message: leave room for its checksum, if it has one, and for its metadata's size; return the index after them."""
    if has_checksum:
        to = put_integer(out, to, 0x0E01, 2) + 4
    return to + 4


@inlined_kernel
def finish_record(out, start, metadata_at, metadata_end, end, has_checksum, entry_id):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Fill in the sizes and the checksum of the record in ``out[start:end]``."""
    put_integer(out, metadata_at - 4, metadata_end - metadata_at, 4)
    if has_checksum:
        put_integer(out, metadata_at - 8, np.int64(crc32c_after(np.uint32(0), out, metadata_at - 4, end)), 4)
    put_record_header(out, start, end - start - RECORD_HEADER_BYTES, entry_id)


@inlined_kernel
def put_record_header(out, to, length, entry_id):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write the record header of an entry; return the index after it."""
    return put_integer(out, put_integer(out, to, length, 4), entry_id, 8)


@inlined_kernel
def put_as_it_is(out, to, data, at, length, entry_id):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Write an entry unchanged, with its record header; return the index after it."""
    return put_stretch(out, put_record_header(out, to, length, entry_id), data, at, at + length)
