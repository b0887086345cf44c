"""Locations of the entries of one entry log, or journal: a table sorted by ledger and entry, which is cached and mapped into memory.

16 bytes an entry (its id, its position, its size) and 16 a ledger (its id, its first row).
"""

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.formats.bookkeeper.log_records import LogRecords

UInt32 = npt.NDArray[np.uint32]

MOST_FILE_BYTES = 2**32 - 1
"""Positions have 32 bits: bookies end logs and journals at 2 GiB."""

_HEADER = struct.Struct("<8sQQQQ")
_MAGIC = b"LFSLOC\x00\x02"


@dataclass(frozen=True, slots=True)
class LocationTable:
    """The entries of one file.

    Attributes
    ----------
    ledger_ids
        Ascending; shape (ledgers,).
    first_rows
        First row of each ledger, and the end of the last one's rows; shape (ledgers + 1,).
    entry_ids, places, sizes
        The id of each entry, its position after its size field, and its bytes; within a ledger ascending by id, and by position
        for several copies of an entry; shape (entries,).
    gaps
        Bytes that are neither a record nor padding, as (start, end); shape (gaps, 2).
    end
        End of the last entry or gap, bytes.

    """

    ledger_ids: Int64
    first_rows: Int64
    entry_ids: Int64
    places: UInt32
    sizes: UInt32
    gaps: Int64
    end: int

    @property
    def entries(self) -> int:
        """Number of entries; each copy counts."""
        return int(self.entry_ids.size)

    @property
    def last_entries(self) -> Int64:
        """The greatest id of each ledger's entries; shape (ledgers,)."""
        return self.entry_ids[self.first_rows[1:] - 1]

    @property
    def counts(self) -> Int64:
        """Number of entries of each ledger; shape (ledgers,)."""
        return np.diff(self.first_rows)

    @property
    def stored(self) -> Int64:
        """Bytes of each ledger's entries with the 4 bytes of their sizes, as in a ledgers map; shape (ledgers,)."""
        if not self.entries:
            return np.zeros(0, np.int64)
        sums: Int64 = np.add.reduceat(self.sizes.astype(np.int64), self.first_rows[:-1])
        return sums + 4 * self.counts

    def rows_of(self, row: int, first: int, last: int) -> slice:
        """Return the rows of the entries ``first`` to ``last``, both included, of the ledger in one row of ``ledger_ids``."""
        low, high = int(self.first_rows[row]), int(self.first_rows[row + 1])
        ids = self.entry_ids[low:high]
        return slice(low + int(np.searchsorted(ids, first, "left")), low + int(np.searchsorted(ids, last, "right")))

    def next_entry(self, row: int, entry: int) -> int | None:
        """Return the least id of a ledger's entries from ``entry`` on; None without one."""
        low, high = int(self.first_rows[row]), int(self.first_rows[row + 1])
        at = low + int(np.searchsorted(self.entry_ids[low:high], entry, "left"))
        return int(self.entry_ids[at]) if at < high else None


def location_table(records: LogRecords) -> LocationTable:
    """Sort the records of a scan; the file is at most `MOST_FILE_BYTES` long."""
    ledgers, entries, starts = records.ledger_ids, records.entry_ids, records.starts
    order = np.lexsort((starts, entries, ledgers))
    ledger_ids, begins = np.unique(ledgers[order], return_index=True)
    return LocationTable(
        ledger_ids=ledger_ids,
        first_rows=np.append(begins, ledgers.size).astype(np.int64),
        entry_ids=entries[order],
        places=starts[order].astype(np.uint32),
        sizes=records.sizes[order].astype(np.uint32),
        gaps=records.gaps,
        end=records.filled_to,
    )


def build_location_table(table: LocationTable) -> bytes:
    """Return the bytes of a cached table; little-endian, arrays of 8 bytes before those of 4."""
    header = _HEADER.pack(_MAGIC, table.ledger_ids.size, table.entries, len(table.gaps), table.end)
    wide = (table.ledger_ids, table.first_rows, table.entry_ids, table.gaps)
    narrow = (table.places, table.sizes)
    arrays = (*(one.astype("<i8").tobytes() for one in wide), *(one.astype("<u4").tobytes() for one in narrow))
    return b"".join((header, *arrays))


def parse_location_table(data: memoryview, *, key: str) -> LocationTable:
    """Return the table in ``data``, as views of it; raises `CorruptObjectError` for other bytes, or another version."""
    if len(data) < _HEADER.size:
        raise CorruptObjectError("the location table is too short", key=key, offset=0)
    magic, ledgers, entries, gaps, end = _HEADER.unpack_from(data)
    if magic != _MAGIC or len(data) != _HEADER.size + 8 * (2 * ledgers + 1 + entries + 2 * gaps) + 8 * entries:
        raise CorruptObjectError("not a location table, or an incomplete one", key=key, offset=0)
    wide = np.frombuffer(data, "<i8", 2 * ledgers + 1 + entries + 2 * gaps, _HEADER.size)
    narrow = np.frombuffer(data, "<u4", 2 * entries, _HEADER.size + wide.nbytes)
    ledger_ids, first_rows, entry_ids, gap_ends = np.split(wide, np.cumsum([ledgers, ledgers + 1, entries]))
    is_whole = first_rows[0] == 0 and first_rows[-1] == entries and bool((np.diff(first_rows) > 0).all())
    if not (is_whole and bool((np.diff(ledger_ids) > 0).all())):
        raise CorruptObjectError("the ledgers of the location table are not in order", key=key, offset=_HEADER.size)
    return LocationTable(
        ledger_ids, first_rows, entry_ids, narrow[:entries], narrow[entries:], gap_ends.reshape(-1, 2), end
    )
