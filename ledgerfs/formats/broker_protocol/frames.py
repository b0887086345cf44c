"""Frames of a broker, found in whole buffers by a kernel: entries at once, and any other command by its place.

The frame of an entry is ``uint32 size | uint32 size of the command | command | entry``, the entry as it is stored.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ledgerfs.errors import CorruptReplyError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_uint32

LARGEST_MESSAGE = 5 << 20
"""Bytes of a message that brokers take unless they are told otherwise (``maxMessageSize``); they say it at the beginning."""

FRAME_SLACK = 16 << 20
"""By how many bytes a frame may be larger than the largest message: command and metadata, and messages of before that was lowered."""

_LEAST_FRAME = 16
_MOST_ROWS = 1 << 16


class FrameStop(IntEnum):
    """Why a scan ended."""

    MORE_BYTES = 0
    """The next frame is not all there."""
    OTHER_COMMAND = 1
    """The next frame is whole, and is not one of an entry."""
    MORE_ROWS = 2
    """There are more frames of entries than one scan returns."""


@dataclass(frozen=True, slots=True)
class SentEntries:
    """Entries as a broker sent them, one row each, in the order in which they came; arrays have shape (entries,).

    Attributes
    ----------
    buffer
        The bytes that hold them.
    consumers
        For which consumer of the connection.
    ledgers, entries
        Their ids.
    offsets, lengths
        Start in ``buffer`` and bytes of each.
    messages
        How many messages each has, by which brokers count permits.

    """

    buffer: memoryview
    consumers: Int64
    ledgers: Int64
    entries: Int64
    offsets: Int64
    lengths: Int64
    messages: Int64

    def __len__(self) -> int:
        return int(self.entries.size)

    def rows(self, which: "slice | Int64 | Mask") -> "SentEntries":
        """Return some of them, in the same buffer."""
        columns = (self.consumers, self.ledgers, self.entries, self.offsets, self.lengths, self.messages)
        return SentEntries(self.buffer, *(column[which] for column in columns))

    def bytes_of(self, row: int) -> bytes:
        """Return the bytes of one entry."""
        start = int(self.offsets[row])
        return self.buffer[start : start + int(self.lengths[row])].tobytes()


@dataclass(frozen=True, slots=True)
class FrameScan:
    """The result of `scan_frames`.

    Attributes
    ----------
    found
        The entries of whole frames, up to the first other command.
    position
        Index in the buffer after them.
    stop
        Why there are no more.
    size
        For `FrameStop.MORE_BYTES`, how many bytes the next frame needs beyond those in the buffer, at least 1, as far as is known; for
        `FrameStop.OTHER_COMMAND`, the size of that frame with its length, in bytes.

    """

    found: SentEntries
    position: int
    stop: FrameStop
    size: int


def scan_frames(buffer: memoryview, start: int, end: int, *, largest: int, key: str) -> FrameScan:
    """Find the whole frames in ``buffer[start:end]``; ``key`` names the broker, ``largest`` is the size of the largest frame in bytes.

    Raises `CorruptReplyError` for sizes that contradict each other, or a frame that claims more. Reads no byte after ``end``, and allocates
    48 bytes for each frame that could be there, at most 3 MiB.
    """
    data = np.frombuffer(buffer.toreadonly(), np.uint8)
    if not 0 <= start <= end <= data.size:
        raise IndexError(f"bytes {start} to {end} of {data.size}")
    rows = np.empty((6, min(_MOST_ROWS, (end - start) // _LEAST_FRAME + 1)), np.int64)
    count, position, stop, size = _scan(data, start, end, largest, rows)
    if stop < 0:
        raise CorruptReplyError(_FAULTS[stop].format(value=size, largest=largest), key=key, offset=position)
    return FrameScan(SentEntries(buffer, *rows[:, :count]), position, FrameStop(stop), size)


def command_at(buffer: memoryview, position: int) -> bytes:
    """Return the command of the whole frame at ``position`` that a scan has found sound."""
    size = int.from_bytes(buffer[position + 4 : position + 8], "big")
    return buffer[position + 8 : position + 8 + size].tobytes()


_FAULTS = {
    -1: "a frame of {value} bytes, where one has from 4 to {largest}: this is no broker, or its messages are larger than it says",
    -2: "a command of {value} bytes reaches out of its frame",
}


@kernel
def _scan(data, start, end, largest, rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0911
    """Fill the rows; return (frames of entries, index after them, why it ends, the size that goes with that)."""
    at = start
    for row in range(rows.shape[1]):
        if end - at < 4:
            return row, at, 0, np.int64(4 - (end - at))
        size = np.int64(load_uint32(data, at))  # type: ignore[call-arg]
        if size < 4 or size > largest:
            return row, at, -1, size
        if end - at < 8:
            return row, at, 0, size + 4 - (end - at)
        command = np.int64(load_uint32(data, at + 4))
        # Told as soon as it is here: the rest of what claims to be a large frame would be waited for.
        if command > size - 4:
            return row, at, -2, command
        if size > end - at - 4:
            return row, at, 0, size + 4 - (end - at)
        if not _take_message(data, at + 8, at + 8 + command, rows, row):
            return row, at, 1, size + 4
        entry, at = at + 8 + command, at + 4 + size
        rows[3, row] = entry
        rows[4, row] = at - entry
        rows[5, row] = _messages_in(data, entry, at)
    return rows.shape[1], at, 2, np.int64(0)


@inlined_kernel
def _take_message(data, at, end, rows, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901
    """Fill in whose entry it is and where; return whether the command is one of an entry, with all that such a one has."""
    kind, inner, inner_end = 0, -1, -1
    while at < end:
        tag, value, size, at = _field(data, at, end)
        if at < 0:
            return False
        if tag == 0x08:
            kind = value
        elif tag == 0x4A:
            inner, inner_end = value, value + size
    if kind != 9 or inner < 0:
        return False
    place, place_end, has_consumer = -1, -1, False
    while inner < inner_end:
        tag, value, size, inner = _field(data, inner, inner_end)
        if inner < 0:
            return False
        if tag == 0x08:
            rows[0, row] = value
            has_consumer = True
        elif tag == 0x12:
            place, place_end = value, value + size
    has_ledger, has_entry = False, False
    while 0 <= place < place_end:
        tag, value, size, place = _field(data, place, place_end)
        if tag == 0x08 and place >= 0:
            rows[1, row] = value
            has_ledger = True
        elif tag == 0x10 and place >= 0:
            rows[2, row] = value
            has_entry = True
    return place >= 0 and has_consumer and has_ledger and has_entry


@inlined_kernel
def _messages_in(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many messages the metadata of an entry says that it has; 1 where it says nothing, or is none."""
    if at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x02:
        at += 6 + np.int64(load_uint32(data, at + 2))  # type: ignore[call-arg]
    if at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x01:
        at += 6
    if at + 4 > end:
        return 1
    stop = at + 4 + np.int64(load_uint32(data, at))  # type: ignore[call-arg]
    at += 4
    if stop > end:
        return 1
    count = 1
    while 0 <= at < stop:
        tag, value, _, at = _field(data, at, stop)
        if tag == 0x58 and at >= 0:
            count = value
    return min(max(count, 1), 2**31 - 1)


@inlined_kernel
def _field(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return (tag, value or where the bytes begin, size of the bytes, index after the field or -1 if it does not fit)."""
    tag, at = _varint(data, at, end)
    if at < 0 or tag < 8:
        return tag, 0, 0, -1
    kind = tag & 7
    if kind == 0:
        value, at = _varint(data, at, end)
        return tag, value, 0, at
    if kind == 2:
        size, at = _varint(data, at, end)
        if at < 0 or size < 0 or size > end - at:
            return tag, 0, 0, -1
        return tag, at, size, at + size
    size = 8 if kind == 1 else 4
    if (kind != 1 and kind != 5) or size > end - at:  # noqa: PLR1714  (numba compiles this)
        return tag, 0, 0, -1
    return tag, 0, 0, at + size


@inlined_kernel
def _varint(data, at, end):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the varint at ``at`` as a wrapped int64, and the index after it or -1."""
    value = np.int64(0)
    for i in range(min(10, end - at)):
        byte = np.int64(data[at + i])
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    return value, -1
