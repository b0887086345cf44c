"""What a ledger can be seen as: each view is one suffix, one size, one way to its bytes."""

import json
from collections.abc import Mapping
from typing import Protocol

from cachetools import LRUCache

from ledgerfs.cache.fork_lock import ForkLock
from ledgerfs.vfs.catalog import LedgerRef
from ledgerfs.vfs.descriptors import write_all
from ledgerfs.vfs.layout import LedgerReader

_DOCUMENTS = 4096


class View(Protocol):
    """One first component of the tree."""

    suffix: str
    """Ending of its files' names, with the dot."""

    def size(self, ref: LedgerRef) -> int | None:
        """Return the exact size of the ledger's file, or None while only rendering it would tell. Costs no request."""
        ...

    def open_size(self, ledger: LedgerReader) -> int:
        """Return the exact size, rendering the file if need be."""
        ...

    def read(self, ledger: LedgerReader, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end`` of the ledger's file."""
        ...

    def send(self, ledger: LedgerReader, start: int, end: int, descriptor: int) -> None:
        """Write the same bytes to a file descriptor."""
        ...


class EntriesView:
    """The raw records, ``int32 length | int64 entry id | entry`` …: the data object without block headers and padding."""

    suffix = ".entries"

    def size(self, ref: LedgerRef) -> int:
        """Return the size, which the index alone tells."""
        return ref.records_size

    def open_size(self, ledger: LedgerReader) -> int:
        """Return the size."""
        return ledger.records_size

    def read(self, ledger: LedgerReader, start: int, end: int) -> bytes:
        """Read from the data object."""
        return ledger.read_records(start, end)

    def send(self, ledger: LedgerReader, start: int, end: int, descriptor: int) -> None:
        """Copy from the data object."""
        ledger.send_records(start, end, descriptor)


class InfoView:
    """Index, ledger metadata, blocks and object metadata as one JSON document; rendered on open, and kept for a while."""

    suffix = ".json"

    def __init__(self) -> None:
        self._documents: LRUCache[LedgerRef, bytes] = LRUCache(_DOCUMENTS)
        self._lock = ForkLock()

    def size(self, ref: LedgerRef) -> int | None:
        """Return the size of a document that was rendered before."""
        with self._lock:
            document = self._documents.get(ref)
        return None if document is None else len(document)

    def open_size(self, ledger: LedgerReader) -> int:
        """Render and return the size."""
        return len(self._document(ledger))

    def read(self, ledger: LedgerReader, start: int, end: int) -> bytes:
        """Return a part of the document."""
        return self._document(ledger)[start:end]

    def send(self, ledger: LedgerReader, start: int, end: int, descriptor: int) -> None:
        """Write a part of the document."""
        write_all(descriptor, self.read(ledger, start, end))

    def _document(self, ledger: LedgerReader) -> bytes:
        with self._lock:
            document = self._documents.get(ledger.ref)
        if document is None:
            document = json.dumps(ledger.describe(), indent=2, ensure_ascii=False).encode() + b"\n"
            with self._lock:
                self._documents[ledger.ref] = document
        return document


def make_views() -> Mapping[str, View]:
    """Return the views of one bucket by their names in the tree."""
    return {"entries": EntriesView(), "info": InfoView()}
