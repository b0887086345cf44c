"""Walking the records of one block: the one place that decides whether bytes are the entries that the index promises."""

from collections.abc import Iterator
from dataclasses import dataclass

from ledgerfs.cache.object_window import ObjectWindow
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch, ScanStop, scan_records
from ledgerfs.ledgers.reader import Glance

STRETCH = 8 << 20
"""Bytes of a stretch, more only for a larger entry: some hundred Python calls each, and small enough for the CPU's outer cache."""


@dataclass(frozen=True, slots=True)
class RecordStretch:
    """Entries that stand one behind the other in a data object.

    Attributes
    ----------
    batch
        The entries; never none.
    position
        Offset in the object of the first byte of the batch's buffer.
    behind
        Offset in the object behind the last entry.

    """

    batch: EntryBatch
    position: int
    behind: int

    def place_of(self, entry: int) -> int | None:
        """Return the offset in the object of an entry's record; None for an entry that is not among these."""
        row = entry - self.batch.first_entry
        return (
            self.position + int(self.batch.offsets[row]) - RECORD_HEADER_BYTES if 0 <= row < len(self.batch) else None
        )


def front_of(data: bytes, entry: int, key: str, offset: int) -> Glance:
    """Return what bytes from the start of an entry's record show of it; raises `CorruptLedgerError` where they are not that record's."""
    scan = scan_records(memoryview(data), 0, entry, 1)
    if scan.stop == ScanStop.COMPLETE:
        size = int(scan.batch.lengths[0])
    elif scan.stop == ScanStop.MORE_BYTES and scan.found is not None:
        size = scan.found
    else:
        raise CorruptLedgerError(f"entry {entry} does not begin where its block does", key=key, offset=offset)
    return Glance(memoryview(data)[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + size], size)


def walk_records(window: ObjectWindow, entry: int, last: int, end: int, key: str) -> Iterator[RecordStretch]:
    """Yield the entries ``entry`` to ``last``, of which the first stands at the window's position, and use up the window as far.

    The block ends at offset ``end``. Raises `CorruptLedgerError`, after all entries before it were yielded, for an entry with another id,
    an impossible length, or more bytes than the block has left.
    """
    needed = RECORD_HEADER_BYTES
    while entry <= last:
        if window.position + needed > end or not window.fill(needed):
            raise CorruptLedgerError(
                f"entry {entry} does not fit its block, which ends at byte {end}", key=key, offset=window.position
            )
        scan = scan_records(window.buffer[: max(needed, STRETCH)], 0, entry, last - entry + 1)
        entry += len(scan.batch)
        position, behind = window.position, window.position + scan.position
        if behind > end:
            raise CorruptLedgerError(
                f"entries up to {entry - 1} leave their block, which ends at byte {end}", key=key, offset=behind
            )
        if len(scan.batch):
            yield RecordStretch(scan.batch, position, behind)
        window.consume(scan.position)
        if scan.stop == ScanStop.NEGATIVE_LENGTH:
            raise CorruptLedgerError(f"entry {entry} has the impossible length {scan.found}", key=key, offset=behind)
        if scan.stop == ScanStop.WRONG_ID:
            raise CorruptLedgerError(f"entry {scan.found} stands where entry {entry} should", key=key, offset=behind)
        needed = RECORD_HEADER_BYTES + (scan.found or 0)
