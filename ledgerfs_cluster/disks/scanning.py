"""Find the entries of one log or journal: read all of it once, in windows."""

import os
from dataclasses import dataclass, replace

import numpy as np

from ledgerfs.errors import LedgerfsError, StoreError
from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.disks.disk_files import DiskFile, FileKind
from ledgerfs_cluster.disks.reading import OnError, empty_bytes, open_to_read, read_into
from ledgerfs_cluster.errors import CorruptLogError
from ledgerfs_cluster.formats.bookkeeper.entry_log_header import (
    LOG_HEADER_BYTES,
    EntryLogHeader,
    parse_journal_header,
    parse_ledgers_map,
    parse_log_header,
)
from ledgerfs_cluster.formats.bookkeeper.location_table import MOST_FILE_BYTES, LocationTable, location_table
from ledgerfs_cluster.formats.bookkeeper.log_records import (
    MOST_ENTRY_BYTES,
    LogRecords,
    least_window_bytes,
    scan_records,
)

WINDOW_BYTES = 64 << 20
"""Bytes of a window; a multiple of the blocks that padding fills."""

_BLOCK = 4096
_MOST_MAP_BYTES = 256 << 20
_LEAST_ENTRY_BYTES = 32
"""The header of an entry, bytes: anything shorter, such as a damaged size, was not an entry."""


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """The entries of a file.

    Attributes
    ----------
    file
        As of its listing; the table may also contain entries that were written since.
    trouble
        Error of a file that is damaged, or only read in part; None if it is sound.

    """

    file: DiskFile
    table: LocationTable
    trouble: LedgerfsError | None = None

    @property
    def may_hide_entries(self) -> bool:
        """Whether more entries may have been acknowledged than are in the table.

        A gap at the end of a file may be a record that was being written, which is not acknowledged yet.
        """
        gaps = self.table.gaps
        inside = gaps[gaps[:, 1] < self.table.end]
        return self.trouble is not None or bool((inside[:, 1] - inside[:, 0] >= _LEAST_ENTRY_BYTES).any())


def scan_file(file: DiskFile, most_bytes: int = MOST_ENTRY_BYTES) -> ScannedFile:
    """Read a file; no entry is larger than ``most_bytes``.

    Raises `ObjectNotFoundError` if it is gone; `ScannedFile.trouble` has any other error.
    """
    with open_to_read(file.path) as opened:
        descriptor = opened.fileno()
        size = os.fstat(descriptor).st_size
        start, header, trouble = _begin(file, descriptor, size)
        if size > MOST_FILE_BYTES:
            reason = f"the file has {size:,} bytes, but a log or journal has at most {MOST_FILE_BYTES:,}: the rest is not read"
            trouble, size = CorruptLogError(reason, key=file.path, offset=MOST_FILE_BYTES), MOST_FILE_BYTES
        errors: list[StoreError] = []

        def note(offset: int, error: OSError) -> None:
            errors.append(
                StoreError(f"the disk cannot read these bytes: {error.strerror}", key=file.path, offset=offset)
            )

        table = location_table(_scanned(file.kind, descriptor, (start, size), note, most_bytes))
        lacking = None if header is None or trouble is not None else _lost(file, descriptor, table, header)
        return ScannedFile(file, table, errors[0] if errors else trouble or lacking)


def _begin(file: DiskFile, descriptor: int, size: int) -> tuple[int, EntryLogHeader | None, LedgerfsError | None]:
    """Return the position of the first record, the header of a log, and the error; a file with a wrong header is scanned as well."""
    if size == 0:
        return 0, None, None
    room = empty_bytes(LOG_HEADER_BYTES)
    front = room[: read_into(descriptor, room, 0)].data
    try:
        if file.kind is FileKind.JOURNAL:
            return parse_journal_header(front, key=file.path), None, None
        return LOG_HEADER_BYTES, parse_log_header(front, key=file.path), None
    except LedgerfsError as error:
        return min(size, LOG_HEADER_BYTES if file.kind is FileKind.LOG else 0), None, error


def _has_nothing_between(table: LocationTable, end: int) -> bool:
    """Return whether a log's entries follow each other from its header to ``end``, or to a gap just before it."""
    if table.gaps.size and table.gaps[-1, 1] == end:
        end = int(table.gaps[-1, 0])
    return LOG_HEADER_BYTES + 4 * table.sizes.size + int(table.sizes.sum(dtype=np.int64)) == end


def _lost(file: DiskFile, descriptor: int, table: LocationTable, header: EntryLogHeader) -> CorruptLogError | None:
    """Return the error for entries that a log has lost; None if no loss is visible."""
    lacking = _lacking(file, descriptor, table, header) if header.has_map else None
    return lacking or _emptied(file, descriptor, table, header)


def _lacking(file: DiskFile, descriptor: int, table: LocationTable, header: EntryLogHeader) -> CorruptLogError | None:
    """Return the error for entries of a finished log's ledgers map that are missing; None if all are found."""
    try:
        room = empty_bytes(min(_MOST_MAP_BYTES, max(0, os.fstat(descriptor).st_size - header.map_at)))
        reported = parse_ledgers_map(room[: read_into(descriptor, room, header.map_at)].data, header, key=file.path)
    except CorruptLogError as error:
        return error
    found = dict(zip(table.ledger_ids.tolist(), table.stored.tolist(), strict=True))
    for ledger_id, size in zip(reported.ledger_ids.tolist(), reported.sizes.tolist(), strict=True):
        if found.get(ledger_id, 0) < size:
            reason = (
                f"entries are lost: by its ledgers map, the log has {size:,} bytes of ledger {ledger_id}, but only "
                f"{found.get(ledger_id, 0):,} were found"
            )
            return CorruptLogError(reason, key=file.path, offset=header.map_at)
    return None


def _emptied(file: DiskFile, descriptor: int, table: LocationTable, header: EntryLogHeader) -> CorruptLogError | None:
    """Return the error for zeros in place of entries, as in a copy from a failing disk; None if there are none.

    Entries follow each other, and a scan skips zeros. A writer with direct I/O pads to a multiple of a block.
    """
    if _has_nothing_between(table, header.map_at if header.has_map else table.end):
        return None
    order = np.argsort(table.places)
    starts, sizes = table.places[order].astype(np.int64) - 4, table.sizes[order].astype(np.int64)
    begins = np.append(LOG_HEADER_BYTES, starts + 4 + sizes)[:-1]
    is_filling = (starts % _BLOCK == 0) & (starts - begins < _BLOCK)
    for row in np.flatnonzero((starts - begins >= _LEAST_ENTRY_BYTES) & ~is_filling).tolist():
        begin, end = int(begins[row]), int(starts[row])
        if _is_zero(descriptor, begin, end):
            reason = f"{end - begin:,} bytes before the next entry are zero: the data there is lost"
            return CorruptLogError(reason, key=file.path, offset=begin)
    return None


def _is_zero(descriptor: int, begin: int, end: int) -> bool:
    """Return whether all bytes of a range are zero."""
    room = empty_bytes(min(end - begin, 1 << 20))
    while begin < end:
        count = read_into(descriptor, room[: min(room.size, end - begin)], begin)
        if not count or room[:count].any():
            return False
        begin += count
    return True


def _scanned(
    kind: FileKind, descriptor: int, places: tuple[int, int], on_error: OnError, most_bytes: int
) -> LogRecords:
    """Scan a file between two positions."""
    start, size = places
    found: list[LogRecords] = []
    window = max(WINDOW_BYTES, -(-least_window_bytes(most_bytes) // _BLOCK) * _BLOCK)
    buffer = empty_bytes(min(window + _BLOCK, max(0, size - start) + _BLOCK))
    at, is_end, in_gap, asked = start, False, False, 0
    while not is_end:
        offset = at - at % _BLOCK
        count = read_into(descriptor, buffer[: max(0, min(buffer.size, size - offset))], offset, on_error)
        is_end = offset + count >= size or count < buffer.size
        is_journal = kind is FileKind.JOURNAL
        records = scan_records(
            buffer[:count], at - offset, most_bytes, is_journal=is_journal, is_end=is_end, in_gap=in_gap, asked=asked
        )
        # A window of only padding counts as filled up to its start: keep the earlier value, since bookies overwrite zeros before it, too.
        is_filled = not found or records.filled_to > at - offset
        moved = _moved(records, offset)
        found.append(moved if is_filled else replace(moved, filled_to=found[-1].filled_to))
        in_gap, asked = records.ends_in_gap, records.asked
        if not is_end and offset + records.end <= at:
            raise AssertionError(f"the scan made no progress in a window of {count} bytes at {offset}")
        at = offset + records.end
    return _all_of(found)


def _moved(records: LogRecords, by: int) -> LogRecords:
    return replace(
        records,
        starts=records.starts + by,
        gaps=records.gaps + by,
        end=records.end + by,
        filled_to=records.filled_to + by,
    )


def _all_of(parts: list[LogRecords]) -> LogRecords:
    starts, sizes, ledger_ids, entry_ids = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("starts", "sizes", "ledger_ids", "entry_ids")
    )
    gaps = _joined_gaps(np.concatenate([part.gaps for part in parts]))
    last = parts[-1]
    return LogRecords(starts, sizes, ledger_ids, entry_ids, gaps, last.end, last.filled_to, last.ends_in_gap)


def _joined_gaps(gaps: Int64) -> Int64:
    """Join gaps that touch: windows split them."""
    if len(gaps) < 2:
        return gaps
    begins = np.append(True, gaps[1:, 0] != gaps[:-1, 1])
    ends = np.append(begins[1:], True)
    return np.stack([gaps[begins, 0], gaps[ends, 1]], axis=1)
