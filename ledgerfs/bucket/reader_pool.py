"""Readers of recently used ledgers, kept with their indexes and learned offsets from call to call."""

from collections.abc import Callable

from cachetools import LRUCache

from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.cache.offset_file import OffsetFile
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.storage.fork_lock import ForkLock

_READERS = 1024

OpenWithOffsets = Callable[[LedgerRef, LearnedOffsets | None], LedgerReader]


class ReaderPool:
    """The readers of one bucket; the least recently used are dropped. A replaced object gets a new reader.

    Parameters
    ----------
    open_ledger
        Returns a new reader with the known offsets; costs no request.
    offset_file
        Keeps the offsets that readers learn for other processes; None to keep them in memory only.

    """

    __slots__ = ("_lock", "_offset_file", "_open_ledger", "_readers")

    def __init__(self, open_ledger: OpenWithOffsets, offset_file: OffsetFile | None = None) -> None:
        self._open_ledger = open_ledger
        self._offset_file = offset_file
        self._readers: LRUCache[LedgerRef, LedgerReader] = LRUCache(_READERS)
        self._lock = ForkLock()

    def reader(self, ref: LedgerRef) -> LedgerReader:
        """Return the reader of ``ref``; costs no request."""
        with self._lock:
            reader = self._readers.get(ref)
            if reader is None:
                reader = self._readers[ref] = self._open_ledger(ref, self._offsets_of(ref))
        if self._offset_file is not None:
            self._offset_file.save_if_due()
        return reader

    def _offsets_of(self, ref: LedgerRef) -> LearnedOffsets | None:
        """Return the known offsets of a ledger; None if the store has no versions, so that a replaced object would not be noticed."""
        if self._offset_file is None or not ref.objects:
            return None
        stat = ref.objects[0][1]
        if not stat.version:
            return None
        # Folders may have names that are no UTF-8.
        return self._offset_file.offsets_of(stat.key.encode(errors="surrogateescape"), stat.version.encode())
