"""Index of the entries of all ledgers on some disks: the tables of all logs and journals as one.

Tables are cached and mapped into memory: unchanged files are not read again.
"""

import io
import mmap
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache

from ledgerfs.cache.cache_folder import cache_folder
from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.kept_file import KeptFile
from ledgerfs.cache.sealed_file import SealedWriter
from ledgerfs.errors import CorruptObjectError, ObjectNotFoundError, StoreError
from ledgerfs.forked import ForkLock
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs_cluster.disks.disk_files import DiskFile, DiskListing, list_disks
from ledgerfs_cluster.disks.reading import open_to_read
from ledgerfs_cluster.disks.scanning import ScannedFile, scan_file
from ledgerfs_cluster.formats.bookkeeper.location_table import LocationTable, build_location_table, parse_location_table
from ledgerfs_cluster.formats.bookkeeper.log_records import MOST_ENTRY_BYTES
from ledgerfs_cluster.snapshot.surveying import Progress

_MOST_THREADS = 4
_MOST_OPEN = 128
_TRIES = 5
_LAYOUT = 6
"""Version of the tables, and of the rules that find entries; files are scanned again after a change."""
_MORE_BYTES = 1024
"""Bytes of an entry besides those that bookies count."""

MOST_ENTRY = 2**63 - 1
"""Greater than the id of any entry: to select all of a ledger."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Copies of entries of one ledger, ascending by entry; copies of one entry in the order of use.

    Attributes
    ----------
    entries
        The id of the entry; shape (copies,), as all others.
    files
        Row of `DiskIndex.files`.
    places, sizes
        Offset of the stored entry in the file, and its size, bytes.

    """

    entries: Int64
    files: Int64
    places: Int64
    sizes: Int64

    @property
    def is_first(self) -> Mask:
        """Whether each is the first copy of its entry."""
        return np.append(True, np.diff(self.entries) != 0)[: self.entries.size]

    def __len__(self) -> int:
        return int(self.entries.size)

    def at(self, rows: npt.NDArray[np.intp]) -> "Copies":
        """Return the copies of some rows."""
        return Copies(self.entries[rows], self.files[rows], self.places[rows], self.sizes[rows])


class DiskIndex:
    """The entries on some disks, as of their listing. Thread-safe, also after a fork.

    Attributes
    ----------
    files
        The scanned files, by bookie; logs before journals.
    bookies
        The row of the bookie of each file, in `DiskListing.bookies`; shape (files,).
    doubtful
        Rows of bookies that may have more entries than are found: a file cannot be fully read, or has a gap before its end that may have
        been an entry.

    """

    __slots__ = (
        "_files",
        "_last",
        "_ledgers",
        "_lock",
        "_open",
        "_rows",
        "_table_rows",
        "bookies",
        "doubtful",
        "files",
        "listing",
    )

    def __init__(self, listing: DiskListing, files: Sequence[ScannedFile]) -> None:
        self.listing = listing
        self.files = tuple(files)
        self._rows = {name: row for row, name in enumerate(listing.bookies[: listing.named])}
        self.bookies: Int64 = np.array([one.file.bookie for one in self.files], np.int64)
        self.doubtful = listing.doubtful | {one.file.bookie for one in self.files if one.may_hide_entries}
        # A row for each ledger of each file, by ledger.
        nothing = np.zeros(0, np.int64)
        parts: list[tuple[Int64, ...]] = [(nothing, nothing, nothing, nothing)]
        for file, one in enumerate(self.files):
            count = one.table.ledger_ids.size
            rows = np.full(count, file, np.int64), np.arange(count, dtype=np.int64)
            parts.append((one.table.ledger_ids, *rows, one.table.last_entries))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        self._ledgers, self._files, self._table_rows, self._last = (column[order] for column in columns)
        self._open: LRUCache[int, io.FileIO] = LRUCache(_MOST_OPEN)
        self._lock = ForkLock()

    def opened(self, row: int) -> io.FileIO:
        """Return the file of a row, which stays open for other readers; raises as `open_to_read`."""
        with self._lock:
            found = self._open.get(row)
            if found is None:
                found = self._open[row] = open_to_read(self.files[row].file.path)
            return found

    def ledger_ids(self) -> Int64:
        """Return the ids of all ledgers that have entries here, ascending."""
        return np.unique(self._ledgers)

    def last_entries(self) -> Int64:
        """Return the greatest entry id of each of `ledger_ids`."""
        if not self._ledgers.size:
            return np.zeros(0, np.int64)
        starts = np.flatnonzero(np.append(True, np.diff(self._ledgers) != 0))
        return np.maximum.reduceat(self._last, starts)

    def copies(self, ledger_id: int, first: int, last: int) -> Copies:
        """Return all copies of the entries ``first`` to ``last``, both included, of a ledger."""
        parts: list[tuple[Int64, Int64, Int64, Int64]] = []
        for file, row in self._tables_of(ledger_id):
            table = self.files[file].table
            rows = table.rows_of(row, first, last)
            found = table.entry_ids[rows]
            if found.size:
                files = np.full(found.size, file, np.int64)
                parts.append((found, files, table.places[rows].astype(np.int64), table.sizes[rows].astype(np.int64)))
        if not parts:
            nothing = np.zeros(0, np.int64)
            return Copies(nothing, nothing, nothing, nothing)
        entries, files, places, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
        # Parts ascend by file: a stable sort keeps logs before journals, and entries of a file together.
        order = np.argsort(entries, kind="stable") if len(parts) > 1 else slice(None)
        return Copies(entries[order], files[order], places[order], sizes[order])

    def entry_ids(self, ledger_id: int, last: int) -> Int64:
        """Return the ids of the entries 0 to ``last`` of a ledger, ascending, once for each copy."""
        parts = [np.zeros(0, np.int64)]
        for file, row in self._tables_of(ledger_id):
            table = self.files[file].table
            parts.append(table.entry_ids[table.rows_of(row, 0, last)])
        return np.sort(np.concatenate(parts))

    def newest_of_bookies(self, ledger_id: int) -> dict[int, int]:
        """Return {row of a bookie: greatest id of an entry of a ledger that it has}."""
        found: dict[int, int] = {}
        low, high = self._range(ledger_id)
        for row in range(low, high):
            bookie = int(self.bookies[self._files[row]])
            found[bookie] = max(found.get(bookie, -1), int(self._last[row]))
        return found

    def rows_of(self, bookies: Sequence[str]) -> list[int | None]:
        """Return the row of each bookie, None for those without a disk here."""
        return [self._rows.get(name) for name in bookies]

    def next_entry(self, ledger_id: int, entry: int) -> int | None:
        """Return the least id from ``entry`` on that any file has for a ledger; None without one."""
        found = (self.files[file].table.next_entry(row, entry) for file, row in self._tables_of(ledger_id))
        return min((one for one in found if one is not None), default=None)

    def missing(self, ledger_id: int, last: int) -> list[tuple[int, int]]:
        """Return the ranges (first, last) of entries 0 to ``last`` of a ledger that are in no file."""
        there = np.append(-1, np.unique(self.entry_ids(ledger_id, last)))
        rows = np.flatnonzero(np.diff(there) != 1)
        found = list(zip((there[rows] + 1).tolist(), (there[rows + 1] - 1).tolist(), strict=True))
        return [*found, (int(there[-1]) + 1, last)] if there[-1] < last else found

    def _tables_of(self, ledger_id: int) -> Iterator[tuple[int, int]]:
        """Yield each file that has entries of a ledger, and the ledger's row in its table."""
        low, high = self._range(ledger_id)
        yield from zip(self._files[low:high].tolist(), self._table_rows[low:high].tolist(), strict=True)

    def _range(self, ledger_id: int) -> tuple[int, int]:
        low, high = np.searchsorted(self._ledgers, [ledger_id, ledger_id + 1])
        return int(low), int(high)


class KeptTables:
    """Cached tables of files on disks.

    Parameters
    ----------
    cache_dir
        As in `ledgerfs.cache.cache_folder.cache_folder`.
    max_entry
        As `BookieDisks.max_entry`: a larger limit finds other entries.

    """

    __slots__ = ("_files", "_most_bytes")

    def __init__(self, cache_dir: str | None, max_entry: int | None = None) -> None:
        self._most_bytes = max(MOST_ENTRY_BYTES, (max_entry or 0) + _MORE_BYTES)
        self._files = DiskFiles(cache_folder("files", cache_dir))

    def scanned(self, file: DiskFile) -> ScannedFile:
        """Return the table of a file; scan the file if it changed since its table was cached; raises as `scan_file`."""
        identity = (_LAYOUT, self._most_bytes, file.size, file.changed_ns, file.inode)
        kept = KeptFile(self._files, "locations", file.path, identity)
        table = kept.load(_mapped)
        if table is not None:
            return ScannedFile(file, table)
        found = scan_file(file, self._most_bytes)
        # Do not cache tables of damaged files: the next scan has to report the damage again.
        if found.trouble is None:

            def write(sink: SealedWriter) -> None:
                sink.write(build_location_table(found.table))

            kept.save(write)
        return found


def _mapped(descriptor: int, size: int) -> LocationTable:
    """Return a cached table, mapped from its file; raises `ValueError` for anything else."""
    try:
        return parse_location_table(memoryview(mmap.mmap(descriptor, size, prot=mmap.PROT_READ)), key="cached table")
    except CorruptObjectError as error:
        raise ValueError(error.reason) from error


def index_disks(paths: Sequence[str], tables: KeptTables, progress: Progress | None = None) -> DiskIndex:
    """List some disks and return their index; read new files, some at a time.

    A file that is deleted meanwhile had entries that compaction moved to another one, which the listing may lack: then list all again.
    Raises as `list_disks`, and `StoreError` if files are deleted each time.
    """
    for _ in range(_TRIES):
        with suppress(ObjectNotFoundError):
            listing = list_disks(paths)
            return DiskIndex(listing, list(_scan_all(listing, tables, progress)))
    raise StoreError("the bookie deleted entry logs during each of several tries to read them; try again", key=paths[0])


def _scan_all(listing: DiskListing, tables: KeptTables, progress: Progress | None) -> Iterator[ScannedFile]:
    """Yield the table of each file; raises `ObjectNotFoundError` for one that is gone."""
    total, done = sum(file.size for file in listing.files), 0
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, "ledgerfs-disks") as pool:
        for file, one in zip(listing.files, pool.map(tables.scanned, listing.files), strict=True):
            done += file.size
            if progress is not None:
                progress("reading entry logs", done, total)
            yield one
