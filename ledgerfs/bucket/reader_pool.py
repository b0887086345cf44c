"""Readers of recently used ledgers, so that their indexes and learned offsets outlive one call."""

from cachetools import LRUCache

from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.cache.offset_file import OffsetFile
from ledgerfs.ledgers.catalog import LedgerRef
from ledgerfs.ledgers.dialect import BucketLayout, LedgerReader
from ledgerfs.storage.fork_lock import ForkLock

_READERS = 1024


class ReaderPool:
    """The readers of one bucket, the least recently used dropped. A replaced object gets a reader of its own.

    Parameters
    ----------
    layout
        The dialect of the bucket.
    offset_file
        Where what readers learn is kept for other processes; None where it is not.

    """

    __slots__ = ("_layout", "_lock", "_offset_file", "_readers")

    def __init__(self, layout: BucketLayout, offset_file: OffsetFile | None = None) -> None:
        self._layout = layout
        self._offset_file = offset_file
        self._readers: LRUCache[LedgerRef, LedgerReader] = LRUCache(_READERS)
        self._lock = ForkLock()

    def reader(self, ref: LedgerRef) -> LedgerReader:
        """Return the reader of ``ref``; costs no request."""
        with self._lock:
            reader = self._readers.get(ref)
            if reader is None:
                reader = self._readers[ref] = self._layout.open_ledger(ref, self._offsets_of(ref))
        if self._offset_file is not None:
            self._offset_file.save_if_due()
        return reader

    def _offsets_of(self, ref: LedgerRef) -> LearnedOffsets | None:
        """Return what is known of a ledger; nothing where the store has no versions, by which it would be known again."""
        if self._offset_file is None or not ref.data.version:
            return None
        return self._offset_file.offsets_of(ref.data.key.encode(), ref.data.version.encode())
