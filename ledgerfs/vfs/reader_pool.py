"""Readers of recently used ledgers, so that their indexes and learned offsets outlive one call."""

from cachetools import LRUCache

from ledgerfs.cache.fork_lock import ForkLock
from ledgerfs.vfs.catalog import LedgerRef
from ledgerfs.vfs.layout import BucketLayout, LedgerReader

_READERS = 1024


class ReaderPool:
    """The readers of one bucket, the least recently used dropped. A replaced object gets a reader of its own."""

    __slots__ = ("_layout", "_lock", "_readers")

    def __init__(self, layout: BucketLayout) -> None:
        self._layout = layout
        self._readers: LRUCache[LedgerRef, LedgerReader] = LRUCache(_READERS)
        self._lock = ForkLock()

    def reader(self, ref: LedgerRef) -> LedgerReader:
        """Return the reader of ``ref``; costs no request."""
        with self._lock:
            reader = self._readers.get(ref)
            if reader is None:
                reader = self._readers[ref] = self._layout.open_ledger(ref)
            return reader
