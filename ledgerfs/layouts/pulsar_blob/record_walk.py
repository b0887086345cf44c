"""Walk the records of one block: only this module decides whether bytes are the entries of the index."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledgerfs.cache.object_window import ObjectWindow
from ledgerfs.catalog.reader import Glance
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch, ScanStop, scan_records

STRETCH = 8 << 20
"""Bytes of a window, more only for a larger entry: each costs some hundred Python calls, and fits the CPU's outer cache."""


@dataclass(frozen=True, slots=True)
class RecordStretch:
    """Consecutive entries of a data object.

    Attributes
    ----------
    batch
        The entries; at least one.
    position
        Offset in the object of the first byte of the batch's buffer.
    end
        Offset in the object at which the last entry ends.

    """

    batch: EntryBatch
    position: int
    end: int

    def place_of(self, entry: int) -> int | None:
        """Return the offset in the object of an entry's record; None for an entry that is not in the batch."""
        row = entry - self.batch.first_entry
        return (
            self.position + int(self.batch.offsets[row]) - RECORD_HEADER_BYTES if 0 <= row < len(self.batch) else None
        )


def front_of(data: bytes, entry: int, key: str, offset: int) -> Glance:
    """Return the peek at an entry from its record's first bytes; raises `CorruptLedgerError` if they are not that record's."""
    scan = scan_records(memoryview(data), 0, entry, 1)
    if scan.stop == ScanStop.COMPLETE:
        size = int(scan.batch.lengths[0])
    elif scan.stop == ScanStop.MORE_BYTES and scan.found is not None:
        size = scan.found
    else:
        raise CorruptLedgerError(f"entry {entry} is not at the start of its block", key=key, offset=offset)
    return Glance(memoryview(data)[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + size], size)


def walk_records(window: ObjectWindow, entry: int, last: int, end: int, key: str) -> Iterator[RecordStretch]:
    """Yield the entries ``entry`` to ``last``, from the window's position on; moves the window behind them.

    The block ends at offset ``end``. Raises `CorruptLedgerError` for an entry with another id, an impossible length, or more bytes than
    the block has left, after all entries before it were yielded.
    """
    needed = RECORD_HEADER_BYTES
    while entry <= last:
        if window.position + needed > end or not window.fill(needed):
            raise CorruptLedgerError(
                f"entry {entry} does not fit its block, which ends at byte {end}", key=key, offset=window.position
            )
        scan = scan_records(window.buffer[: max(needed, STRETCH)], 0, entry, last - entry + 1)
        entry += len(scan.batch)
        position, stop = window.position, window.position + scan.position
        if stop > end:
            raise CorruptLedgerError(
                f"the entries up to {entry - 1} do not fit their block, which ends at byte {end}", key=key, offset=stop
            )
        if len(scan.batch):
            yield RecordStretch(scan.batch, position, stop)
        window.consume(scan.position)
        if scan.stop == ScanStop.NEGATIVE_LENGTH:
            raise CorruptLedgerError(f"entry {entry} has the impossible length {scan.found}", key=key, offset=stop)
        if scan.stop == ScanStop.WRONG_ID:
            raise CorruptLedgerError(f"found entry {scan.found}, expected entry {entry}", key=key, offset=stop)
        needed = RECORD_HEADER_BYTES + (scan.found or 0)
