"""Entry records of a data object, ``int32 length | int64 entry id | entry``, found in whole buffers by a numba kernel.

Entry ids are consecutive, so a scan predicts the id of each record, and stops at the first that differs. Importing this module imports
numba (half a second); paths that need no records, such as listing a bucket or copying a ledger's file, do not import it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.kernel import kernel
from ledgerfs.formats.memory_loads import load_int32, load_int64, prefetch
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES


class ScanStop(IntEnum):
    """Reason why a scan stopped."""

    COMPLETE = 0
    """All requested records were found."""
    MORE_BYTES = 1
    """The next record, or its header, ends after the buffer."""
    NEGATIVE_LENGTH = 2
    """The next record claims a negative length: padding, a block header, or damage."""
    WRONG_ID = 3
    """The next record has another entry id than expected."""


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Entries in one buffer, ascending by id.

    Attributes
    ----------
    first_entry
        Id of the first entry.
    buffer
        The bytes that hold the entries.
    offsets, lengths
        Start in ``buffer`` and bytes of each entry (without any header), shape (entries,).
    ids
        Ids of the entries, shape (entries,), if there are gaps between them; None if they are consecutive.
    is_framed
        Whether each entry has its 12-byte record header before it, and the records are contiguous.

    """

    first_entry: int
    buffer: memoryview
    offsets: Int64
    lengths: Int64
    ids: Int64 | None = None
    is_framed: bool = False

    def __len__(self) -> int:
        return int(self.offsets.size)

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        """Yield each entry as (id, bytes). Only for few entries: each is a Python object."""
        for i, (start, length) in enumerate(zip(self.offsets.tolist(), self.lengths.tolist(), strict=True)):
            yield self.id_of(i), self.buffer[start : start + length]

    @property
    def last_entry(self) -> int:
        """Id of the last entry; the batch must not be empty."""
        return self.id_of(len(self) - 1)

    def id_of(self, row: int) -> int:
        """Return the id of one entry."""
        return self.first_entry + row if self.ids is None else int(self.ids[row])

    def ids_of(self, rows: Int64) -> Int64:
        """Return the ids of some entries."""
        return rows + self.first_entry if self.ids is None else self.ids[rows]

    def slice(self, first: int, last: int) -> "EntryBatch":
        """Return the entries from id ``first`` to id ``last``, both included, in the same buffer; there must be at least one."""
        if self.ids is None:
            low, high = first - self.first_entry, last - self.first_entry + 1
            return replace(self, first_entry=first, offsets=self.offsets[low:high], lengths=self.lengths[low:high])
        low, high = np.searchsorted(self.ids, [first, last + 1]).tolist()
        part = slice(low, high)
        return replace(
            self,
            first_entry=int(self.ids[low]),
            offsets=self.offsets[part],
            lengths=self.lengths[part],
            ids=self.ids[part],
        )

    def framed(self) -> "EntryBatch":
        """Return the same entries as contiguous records, copied unless they already are."""
        if self.is_framed or not len(self):
            return self
        ids = np.arange(self.first_entry, self.first_entry + len(self)) if self.ids is None else self.ids
        out = np.empty(int(self.lengths.sum()) + RECORD_HEADER_BYTES * len(self), np.uint8)
        offsets = np.empty_like(self.offsets)
        _frame(np.frombuffer(self.buffer, np.uint8), ids, self.offsets, self.lengths, out, offsets)
        return EntryBatch(self.first_entry, out.data.toreadonly(), offsets, self.lengths, self.ids, is_framed=True)

    def records(self) -> memoryview:
        """Return the bytes of all entries as contiguous records, headers included; copied unless they already are contiguous."""
        framed = self.framed()
        if not len(framed):
            return framed.buffer[:0]
        return framed.buffer[
            int(framed.offsets[0]) - RECORD_HEADER_BYTES : int(framed.offsets[-1] + framed.lengths[-1])
        ]


@dataclass(frozen=True, slots=True)
class EntryScan:
    """The result of `scan_records`.

    Attributes
    ----------
    batch
        The complete records found.
    position
        Index in the buffer after the last of them, where the next record starts.
    stop
        Reason why there are no more.
    found
        The length that the next record claims (`ScanStop.MORE_BYTES`, `NEGATIVE_LENGTH`) or its id (`WRONG_ID`); None if the buffer
        ends before it.

    """

    batch: EntryBatch
    position: int
    stop: ScanStop
    found: int | None


def scan_records(buffer: memoryview, start: int, first_entry: int, count: int) -> EntryScan:
    """Find up to ``count`` records in ``buffer`` from index ``start`` on, the first of which should have id ``first_entry``.

    Reads no byte outside the buffer, and allocates 16 bytes for each record that could be in it.
    """
    data = np.frombuffer(buffer, np.uint8)
    capacity = max(0, min(count, (data.size - start) // RECORD_HEADER_BYTES))
    offsets, lengths = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    found, position, stop, value = _scan(data, start, first_entry, offsets, lengths)
    if stop == ScanStop.COMPLETE and found < count:
        stop = ScanStop.MORE_BYTES
    batch = EntryBatch(first_entry, buffer, offsets[:found], lengths[:found], is_framed=True)
    is_known = stop in {ScanStop.NEGATIVE_LENGTH, ScanStop.WRONG_ID} or value != _UNKNOWN_LENGTH
    return EntryScan(batch, position, ScanStop(stop), value if is_known else None)


_UNKNOWN_LENGTH = -1
_FETCHED_AHEAD = 4096


@kernel
def _scan(data, start, first_entry, offsets, lengths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = ahead = start
    for i in range(offsets.size):
        # All records are read again when they are decoded, so their bytes may be fetched now, in long strides.
        while ahead < at + _FETCHED_AHEAD and ahead < data.size:
            prefetch(data, ahead)  # type: ignore[call-arg]
            ahead += 64
        if at + 12 > data.size:
            return i, at, 1, _UNKNOWN_LENGTH
        length = np.int64(load_int32(data, at))  # type: ignore[call-arg]
        if length < 0:
            return i, at, 2, length
        entry = load_int64(data, at + 4)
        if entry != first_entry + i:
            return i, at, 3, entry
        if length > data.size - at - 12:
            return i, at, 1, length
        offsets[i] = at + 12
        lengths[i] = length
        at += 12 + length
    return offsets.size, at, 0, _UNKNOWN_LENGTH


@kernel
def _frame(data, ids, starts, lengths, out, offsets):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    at = 0
    for i in range(starts.size):
        size = lengths[i]
        for shift in range(4):
            out[at + shift] = (size >> (24 - 8 * shift)) & 0xFF
        for shift in range(8):
            out[at + 4 + shift] = (ids[i] >> (56 - 8 * shift)) & 0xFF
        at += 12
        offsets[i] = at
        out[at : at + size] = data[starts[i] : starts[i] + size]
        at += size
