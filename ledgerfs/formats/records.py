"""Entry records of a data object, ``int32 length | int64 entry id | entry``, found in whole buffers by a numba kernel.

Entry ids are consecutive, so a scan knows the id of each record before it reads it, and stops at the first that is not so. Importing this
module imports numba (half a second); the paths that need no records, such as listing a bucket or copying a ledger's file, do without it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.kernel import kernel
from ledgerfs.formats.memory_loads import load_int32, load_int64, prefetch
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES

Int64Array = npt.NDArray[np.int64]


class ScanStop(IntEnum):
    """Why a scan ended."""

    COMPLETE = 0
    """As many records as were asked for."""
    MORE_BYTES = 1
    """The next record, or its header, ends behind the buffer."""
    NEGATIVE_LENGTH = 2
    """The next record claims a negative length: padding, a block header, or damage."""
    WRONG_ID = 3
    """The next record has another entry id than expected."""


@dataclass(frozen=True, slots=True)
class EntryBatch:
    """Consecutive entries in one buffer.

    Attributes
    ----------
    first_entry
        Id of the first entry; the others follow by one.
    buffer
        The bytes that hold the records.
    offsets, lengths
        Start in ``buffer`` and bytes of each entry (without its 12-byte record header), shape (entries,).

    """

    first_entry: int
    buffer: memoryview
    offsets: Int64Array
    lengths: Int64Array

    def __len__(self) -> int:
        return int(self.offsets.size)

    def __iter__(self) -> Iterator[tuple[int, memoryview]]:
        """Yield each entry as (id, bytes): for few entries, a Python object each."""
        for i, (start, length) in enumerate(zip(self.offsets.tolist(), self.lengths.tolist(), strict=True)):
            yield self.first_entry + i, self.buffer[start : start + length]

    def slice(self, first: int, last: int) -> "EntryBatch":
        """Return the entries from id ``first`` to id ``last``, both included, of the same buffer."""
        low, high = first - self.first_entry, last - self.first_entry + 1
        return EntryBatch(first, self.buffer, self.offsets[low:high], self.lengths[low:high])


@dataclass(frozen=True, slots=True)
class Scan:
    """The result of `scan_records`.

    Attributes
    ----------
    batch
        The complete records found.
    position
        Index in the buffer behind the last of them, where the next record starts.
    stop
        Why there are not more.
    found
        The length that the next record claims (`ScanStop.MORE_BYTES`, `NEGATIVE_LENGTH`) or its id (`WRONG_ID`); None where the buffer
        ends before it.

    """

    batch: EntryBatch
    position: int
    stop: ScanStop
    found: int | None


def scan_records(buffer: memoryview, start: int, first_entry: int, count: int) -> Scan:
    """Find up to ``count`` records in ``buffer`` from index ``start`` on, the first of which should have id ``first_entry``.

    Looks at no byte outside the buffer and allocates 16 bytes for each record that it could hold.
    """
    data = np.frombuffer(buffer, np.uint8)
    capacity = max(0, min(count, (data.size - start) // RECORD_HEADER_BYTES))
    offsets, lengths = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    found, position, stop, value = _scan(data, start, first_entry, offsets, lengths)
    if stop == ScanStop.COMPLETE and found < count:
        stop = ScanStop.MORE_BYTES
    batch = EntryBatch(first_entry, buffer, offsets[:found], lengths[:found])
    is_known = stop in {ScanStop.NEGATIVE_LENGTH, ScanStop.WRONG_ID} or value != _UNKNOWN_LENGTH
    return Scan(batch, position, ScanStop(stop), value if is_known else None)


_UNKNOWN_LENGTH = -1
_FETCHED_AHEAD = 4096


@kernel
def _scan(data, start, first_entry, offsets, lengths):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    at = ahead = start
    for i in range(offsets.size):
        # Records are all read again by who decodes them, so their bytes may come now, and in long strides.
        while ahead < min(at + _FETCHED_AHEAD, data.size):
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
