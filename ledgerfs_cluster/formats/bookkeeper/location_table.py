"""Where the entries of one entry log, or journal, are: a table sorted by ledger and entry, as it is kept and mapped into memory.

12 bytes an entry (the low half of its id, its place, its size) and 16 a ledger (its id, the high half of its entries' ids, where its rows
begin). A ledger whose ids differ in the high half has a group for each.
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
"""Places have 32 bits: bookies' logs end at 2 GiB, and so do their journals."""

_HEADER = struct.Struct("<8sQQQQ")
_MAGIC = b"LFSLOC\x00\x01"
_LOW_BITS = 32
_LOW = np.int64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class LocationTable:
    """The entries of one file.

    Attributes
    ----------
    ledger_ids
        Of each group of entries, ascending; shape (groups,).
    highs
        The high 32 bits of the ids of a group's entries; ascending within a ledger; shape (groups,).
    first_rows
        Where each group's rows begin, and behind the last one's; shape (groups + 1,).
    lows, places, sizes
        Of each entry the low 32 bits of its id, where it begins in the file (behind its size), and its bytes; within a group ascending by
        id, and by place for an entry that is there more than once; shape (entries,).
    gaps
        What is neither a record nor padding, as (start, end); shape (gaps, 2).
    end
        Behind the last entry or gap, bytes.

    """

    ledger_ids: Int64
    highs: UInt32
    first_rows: UInt32
    lows: UInt32
    places: UInt32
    sizes: UInt32
    gaps: Int64
    end: int

    @property
    def entries(self) -> int:
        """How many entries there are, each copy counted."""
        return int(self.lows.size)

    @property
    def last_entries(self) -> Int64:
        """The greatest id of each group; shape (groups,)."""
        return self.highs.astype(np.int64) << _LOW_BITS | self.lows[self.first_rows[1:].astype(np.int64) - 1]

    @property
    def counts(self) -> Int64:
        """How many entries each group has; shape (groups,)."""
        rows = self.first_rows.astype(np.int64)
        return rows[1:] - rows[:-1]

    @property
    def stored(self) -> Int64:
        """Bytes of each group's entries with the 4 bytes of their sizes, as a ledgers map counts them; shape (groups,)."""
        if not self.entries:
            return np.zeros(0, np.int64)
        starts = self.first_rows[:-1].astype(np.int64)
        sums: Int64 = np.add.reduceat(self.sizes.astype(np.int64), starts)
        return sums + 4 * self.counts

    def rows_of(self, group: int, first: int, last: int) -> range:
        """Return the rows of the entries ``first`` to ``last``, both included, in one group."""
        low, high = int(self.first_rows[group]), int(self.first_rows[group + 1])
        base = int(self.highs[group]) << _LOW_BITS
        begin, end = first - base, last - base
        if end < 0 or begin > int(_LOW):
            return range(0)
        lows = self.lows[low:high]
        start = low + int(np.searchsorted(lows, np.uint32(max(0, begin)), "left"))
        stop = low + int(np.searchsorted(lows, np.uint32(min(end, int(_LOW))), "right"))
        return range(start, stop)

    def next_entry(self, group: int, entry: int) -> int | None:
        """Return the least id of a group's entries from one on; None without one."""
        rows = self.rows_of(group, entry, (int(self.highs[group]) << _LOW_BITS) + int(_LOW))
        return int(self.entry_ids(group, rows[:1])[0]) if rows else None

    def entry_ids(self, group: int, rows: range) -> Int64:
        """Return the ids of a group's rows."""
        base = np.int64(int(self.highs[group]) << _LOW_BITS)
        return base + self.lows[rows.start : rows.stop].astype(np.int64)


def location_table(records: LogRecords) -> LocationTable:
    """Sort what a scan found; the file is at most `MOST_FILE_BYTES` long."""
    ledgers, entries, starts = records.ledger_ids, records.entry_ids, records.starts
    order = np.lexsort((starts, entries, ledgers))
    ledgers, entries = ledgers[order], entries[order]
    highs = (entries >> _LOW_BITS).astype(np.uint32)
    begins = np.flatnonzero(np.append(True, (np.diff(ledgers) != 0) | (np.diff(highs) != 0))[: ledgers.size])
    return LocationTable(
        ledger_ids=ledgers[begins],
        highs=highs[begins],
        first_rows=np.append(begins, ledgers.size).astype(np.uint32),
        lows=(entries & _LOW).astype(np.uint32),
        places=starts[order].astype(np.uint32),
        sizes=records.sizes[order].astype(np.uint32),
        gaps=records.gaps,
        end=records.filled_to,
    )


def build_location_table(table: LocationTable) -> bytes:
    """Return the bytes in which a table is kept; little-endian, arrays of 8 bytes before those of 4."""
    header = _HEADER.pack(_MAGIC, table.ledger_ids.size, table.entries, len(table.gaps), table.end)
    wide = (table.ledger_ids.astype("<i8").tobytes(), table.gaps.astype("<i8").tobytes())
    narrow = (table.highs, table.first_rows, table.lows, table.places, table.sizes)
    return b"".join((header, *wide, *(one.astype("<u4").tobytes() for one in narrow)))


def parse_location_table(data: memoryview, *, key: str) -> LocationTable:
    """Return the table that ``data`` has, as views of it; raises `CorruptObjectError` for what is none, or none of this version."""
    if len(data) < _HEADER.size:
        raise CorruptObjectError("it is too short for a table of locations", key=key, offset=0)
    magic, groups, entries, gaps, end = _HEADER.unpack_from(data)
    if magic != _MAGIC or len(data) != _HEADER.size + 8 * groups + 16 * gaps + 4 * (2 * groups + 1 + 3 * entries):
        raise CorruptObjectError("it is no table of locations, or not a whole one", key=key, offset=0)
    at = _HEADER.size

    def take(dtype: str, count: int) -> npt.NDArray[np.generic]:
        nonlocal at
        found = np.frombuffer(data, dtype, count, at)
        at += found.nbytes
        return found

    ledger_ids, gap_ends = take("<i8", groups), take("<i8", 2 * gaps)
    highs, first_rows = take("<u4", groups), take("<u4", groups + 1)
    lows, places, sizes = take("<u4", entries), take("<u4", entries), take("<u4", entries)
    table = LocationTable(ledger_ids, highs, first_rows, lows, places, sizes, gap_ends.reshape(-1, 2), end)  # type: ignore[arg-type]
    _require_order(table, key)
    return table


def _require_order(table: LocationTable, key: str) -> None:
    rows = table.first_rows.astype(np.int64)
    is_whole = rows[0] == 0 and rows[-1] == table.entries and bool((np.diff(rows) > 0).all())
    same = np.diff(table.ledger_ids) == 0
    is_sorted = bool((np.diff(table.ledger_ids) >= 0).all()) and bool(
        (np.diff(table.highs.astype(np.int64))[same] > 0).all()
    )
    if not (is_whole and is_sorted):
        raise CorruptObjectError("the groups of a table of locations are not in order", key=key, offset=_HEADER.size)
