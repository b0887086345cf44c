"""Rows to entries (``docs/formats/entries.md``), a kernel over whole columns: choose split points, and write.

Kernels accept the rows as one tuple, which `ledgerfs.messages.encode.kernel_rows` describes: six columns of bytes, each as (data,
offsets, valid), then numbers, properties, and whether keys are base64. The fields, and their order, are those of Java's client.
"""

import numpy as np

from ledgerfs.formats.crc import crc32c_after
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_int64
from ledgerfs.messages.kernels.arrays import borrowed, copy_bytes
from ledgerfs.messages.kernels.wire_writing import (
    varint_size,
    write_bytes,
    write_int32_be,
    write_number_field,
    write_varint,
)

ROOM_OF_MESSAGE = 56
"""Most bytes of a message besides its texts: frame, tags and sizes, and numbers of up to ten bytes."""
ROOM_OF_PROPERTY = 18
ROOM_OF_ENTRY = 160
"""Most bytes of an entry besides its messages and texts: record header, checksum, and its own fields."""


@inlined_kernel
def _lent(rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the rows without the reference counts of their arrays."""
    return (
        _lent_text(rows[0]),
        _lent_text(rows[1]),
        _lent_text(rows[2]),
        _lent_text(rows[3]),
        _lent_text(rows[4]),
        _lent_text(rows[5]),
        (borrowed(rows[6][0]), borrowed(rows[6][1]), borrowed(rows[6][2]), borrowed(rows[6][3])),  # type: ignore[call-arg]
        (borrowed(rows[7][0]), borrowed(rows[7][1]), _lent_text(rows[7][2]), _lent_text(rows[7][3])),  # type: ignore[call-arg]
        borrowed(rows[8]),  # type: ignore[call-arg]
        borrowed(rows[9]),  # type: ignore[call-arg]
    )


@inlined_kernel
def _lent_text(text):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return borrowed(text[0]), borrowed(text[1]), borrowed(text[2])  # type: ignore[call-arg]


@inlined_kernel
def _size(text, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    return text[1][i + 1] - text[1][i] if text[2][i] else 0


# Splitting.


@kernel
def cut_entries(rows, batch, limit, starts, is_end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Fill ``starts`` with the first row of each entry and the row after the last one; return how many entries, and the room they need.

    Messages of one entry agree in the fields that an entry has only once, are at most ``batch``, and need at most ``limit`` bytes of
    room unless there is only one. The last entry is left out if more rows could belong to it: unless it is full or ``is_end``.
    """
    rows = _lent(rows)
    count = entries = first = size = room = 0
    starts[0] = 0
    for i in range(rows[8].size):
        needed = _room_of_message(rows, i)
        if count and (count == batch or size + needed > limit or not _shares_entry(rows, i)):
            entries += 1
            starts[entries] = first = i
            room += size
            count = 0
        if count == 0:
            size = _room_of_entry(rows, i)
        size += needed
        count += 1
    if count and (is_end or count == batch):
        entries += 1
        starts[entries] = first + count
        room += size
    return entries, room


@inlined_kernel
def _room_of_message(rows, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    room = ROOM_OF_MESSAGE + _size(rows[0], i) + _size(rows[1], i) + _size(rows[2], i)
    pairs, has_pairs, keys, items = rows[7]
    if has_pairs[i]:
        for pair in range(pairs[i], pairs[i + 1]):
            room += ROOM_OF_PROPERTY + _size(keys, pair) + _size(items, pair)
    return room


@inlined_kernel
def _room_of_entry(rows, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    room = ROOM_OF_ENTRY + rows[9].size + _size(rows[1], i) + _size(rows[2], i)
    return room + _size(rows[3], i) + _size(rows[4], i) + _size(rows[5], i)


@inlined_kernel
def _shares_entry(rows, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Whether a row has the same publish time, delivery time, producer, schema version and origin as the previous one."""
    published, _, _, delivered = rows[6]
    if published[i] != published[i - 1] or delivered[i] != delivered[i - 1]:
        return False
    return _is_as_before(rows[3], i) and _is_as_before(rows[4], i) and _is_as_before(rows[5], i)


@inlined_kernel
def _is_as_before(text, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    data, offsets, valid = text
    if not valid[i]:
        return not valid[i - 1]
    before, at, end = offsets[i - 1], offsets[i], offsets[i + 1]
    if not valid[i - 1] or at - before != end - at:
        return False
    while at + 8 <= end:
        if load_int64(data, before) != load_int64(data, at):  # type: ignore[call-arg]
            return False
        before += 8
        at += 8
    while at < end:
        if data[before] != data[at]:
            return False
        before += 1
        at += 1
    return True


# Payloads.


@kernel
def write_payloads(rows, starts, out, offsets):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Write the payloads of entries one after the other, and fill in the start of each and the end of the last one."""
    rows, out = _lent(rows), borrowed(out)  # type: ignore[call-arg]
    at = 0
    offsets[0] = 0
    for entry in range(starts.size - 1):
        at = _write_payload(out, at, rows, starts[entry], starts[entry + 1])
        offsets[entry + 1] = at


@inlined_kernel
def _write_payload(out, at, rows, first, stop):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write messages as a batch; a single one without its frame."""
    data, offsets, valid = rows[0]
    is_batch = stop - first > 1
    for i in range(first, stop):
        if is_batch:
            frame = at
            at = _write_batched_metadata(out, at + 4, rows, i)
            write_int32_be(out, frame, at - frame - 4)
        if valid[i]:
            size = offsets[i + 1] - offsets[i]
            copy_bytes(out, at, data, offsets[i], size)  # type: ignore[call-arg]
            at += size
    return at


@inlined_kernel
def _write_batched_metadata(out, at, rows, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    _, sequence, event, _ = rows[6]
    at = _write_properties(out, at, 1, rows[7], i)
    at = _write_text(out, at, 2, rows[1], i)
    at = write_number_field(out, at, 3, _size(rows[0], i))
    if event[i] != 0:
        at = write_number_field(out, at, 5, event[i])
    if rows[1][2][i]:
        at = write_number_field(out, at, 6, rows[8][i])
    at = _write_text(out, at, 7, rows[2], i)
    at = write_number_field(out, at, 8, sequence[i])
    if not rows[0][2][i]:
        at = write_number_field(out, at, 9, 1)
    return at


@inlined_kernel
def _write_text(out, at, field, text, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    data, offsets, valid = text
    if not valid[i]:
        return at
    return write_bytes(out, at, field, data, offsets[i], offsets[i + 1] - offsets[i])


@inlined_kernel
def _write_properties(out, at, field, properties, i):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    pairs, has_pairs, keys, items = properties
    if has_pairs[i]:
        for pair in range(pairs[i], pairs[i + 1]):
            key, item = _size(keys, pair), _size(items, pair)
            at = write_varint(out, at, field << 3 | 2)
            at = write_varint(out, at, 2 + varint_size(key) + key + varint_size(item) + item)
            at = _write_text(out, at, 1, keys, pair)
            at = _write_text(out, at, 2, items, pair)
    return at


# Entries.


@kernel
def write_entries(rows, starts, first_entry, codecs, plain, stored, out, offsets, lengths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0917
    """Write the records of entries, and fill in offset and length of each; return the index after the last one.

    ``codecs`` has the compression of each. If it is not 0, the payload is in ``stored``, which is (data, offsets), and the offsets in
    ``plain`` give its uncompressed size.
    """
    rows, out = _lent(rows), borrowed(out)  # type: ignore[call-arg]
    data = borrowed(stored[0])
    at = 0
    for entry in range(starts.size - 1):
        first, stop = starts[entry], starts[entry + 1]
        head = at + 12 + 10
        if codecs[entry] != 0:
            plain_size = plain[entry + 1] - plain[entry]
            body = _write_metadata(out, head, rows, first, stop, codecs[entry], plain_size)
            begin, size = stored[1][entry], stored[1][entry + 1] - stored[1][entry]
            copy_bytes(out, body, data, begin, size)
            end = body + size
        else:
            body = _write_metadata(out, head, rows, first, stop, 0, _size(rows[0], first))
            end = _write_payload(out, body, rows, first, stop)
        _write_frame(out, at, first_entry + entry, head, body, end)
        offsets[entry] = at + 12
        lengths[entry] = end - at - 12
        at = end
    return at


@inlined_kernel
def _write_frame(out, at, entry_id, head, body, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Write the bytes before the metadata in ``out[head:body]`` of the record that ends at ``end``."""
    write_int32_be(out, at, end - at - 12)
    write_int32_be(out, at + 4, entry_id >> 32)
    write_int32_be(out, at + 8, entry_id)
    out[at + 12] = 0x0E
    out[at + 13] = 0x01
    write_int32_be(out, head - 4, body - head)
    write_int32_be(out, at + 14, np.int64(crc32c_after(np.uint32(0), out, head - 4, end)))


@inlined_kernel
def _write_metadata(out, at, rows, first, stop, codec, plain_size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0917
    """Write the metadata of an entry; for a batch with key and ordering key of its first message, as Java's client writes it."""
    published, sequence, event, delivered = rows[6]
    is_batch = stop - first > 1
    at = _write_text(out, at, 1, rows[3], first)
    if not rows[3][2][first]:
        at = write_bytes(out, at, 1, rows[9], 0, rows[9].size)
    at = write_number_field(out, at, 2, sequence[first])
    at = write_number_field(out, at, 3, published[first])
    if not is_batch:
        at = _write_properties(out, at, 4, rows[7], first)
    at = _write_text(out, at, 5, rows[5], first)
    at = _write_text(out, at, 6, rows[1], first)
    if codec != 0:
        at = write_number_field(out, at, 8, codec)
    if codec != 0 or not is_batch:
        at = write_number_field(out, at, 9, plain_size)
    if is_batch:
        at = write_number_field(out, at, 11, stop - first)
    elif event[first] != 0:
        at = write_number_field(out, at, 12, event[first])
    at = _write_text(out, at, 16, rows[4], first)
    if rows[1][2][first]:
        at = write_number_field(out, at, 17, rows[8][first])
    at = _write_text(out, at, 18, rows[2], first)
    if delivered[first] != 0:
        at = write_number_field(out, at, 19, delivered[first])
    if is_batch:
        at = write_number_field(out, at, 24, sequence[stop - 1])
    elif not rows[0][2][first]:
        at = write_number_field(out, at, 25, 1)
    return at
