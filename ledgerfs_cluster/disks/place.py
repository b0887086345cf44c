"""State that all readers of some disks share: the index of their logs, open files, and the metadata of ledgers."""

import time

from ledgerfs.catalog.layout import Progress
from ledgerfs.forked import ForkLock
from ledgerfs_cluster.disks.filesystem import BookieDisks
from ledgerfs_cluster.disks.index import DiskIndex, KeptTables, index_disks
from ledgerfs_cluster.disks.known_ledgers import KnownLedgers, known_ledgers

_YOUNG_S = 10.0


class DiskPlace:
    """Some disks as their readers use them. Thread-safe, also after a fork; a pickle has only the paths.

    Parameters
    ----------
    cache_dir
        Folder of cached location tables; None for the usual one.

    """

    __slots__ = ("_cache_dir", "_index", "_known", "_listed_s", "_lock", "_tables", "disks")

    def __init__(self, disks: BookieDisks, cache_dir: str | None = None) -> None:
        self.disks = disks
        self._cache_dir = cache_dir
        self._tables = KeptTables(cache_dir, disks.max_entry)
        self._lock = ForkLock()
        self._index: DiskIndex | None = None
        self._known: KnownLedgers | None = None
        self._listed_s = -_YOUNG_S

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.disks, self._cache_dir))

    def read(self, progress: Progress | None = None) -> tuple[DiskIndex, KnownLedgers | None]:
        """Read the metadata, if there is any, then new files on the disks; later calls use both.

        Raises as `index_disks` and `known_ledgers`, and `InvalidOptionError` for the metadata of another cluster.
        """
        known = known_ledgers(self.disks, progress)
        index = self.index_now(progress)
        if known is not None:
            known.require_same_cluster(index.listing)
        with self._lock:
            self._known = known
        return index, known

    def index(self) -> DiskIndex:
        """Return the last index, or create it. Raises as `index_disks`."""
        with self._lock:
            found = self._index
        return found if found is not None else self.index_now()

    def index_now(self, progress: Progress | None = None) -> DiskIndex:
        """List the disks, read new files, and return the index; raises as `index_disks`."""
        index = index_disks(self.disks.paths, self._tables, progress)
        with self._lock:
            self._index, self._listed_s = index, time.monotonic()
        return index

    @property
    def is_young(self) -> bool:
        """Whether the disks were listed so recently that an entry missing in the index is lost.

        A bookie needs longer than that to move it to a log that the index lacks and to delete the old one.
        """
        with self._lock:
            return time.monotonic() - self._listed_s < _YOUNG_S

    def known(self) -> KnownLedgers | None:
        """Return the metadata as last read, or read it. None without any. Raises as `known_ledgers`."""
        with self._lock:
            found = self._known
        if found is None:
            found = known_ledgers(self.disks)
            with self._lock:
                self._known = found
        return found
