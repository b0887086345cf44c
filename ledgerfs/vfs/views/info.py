"""The format ``info``: index, ledger metadata, blocks and object metadata as one JSON document; created on open, and cached."""

import json
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from cachetools import LRUCache

from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.forked import ForkLock
from ledgerfs.storage.descriptors import write_all

_KEPT_BYTES = 16 << 20
"""Maximum bytes of all cached documents; a ledger with thousands of blocks has some hundred KiB."""

_OVERHEAD = 1024
"""Approximate overhead of a document in memory, and its size without blocks, bytes."""

_BLOCK_BYTES = 80
"""Approximate bytes of a document for each block."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file's bytes in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """Length, bytes."""
        return len(self.data)

    @property
    def identity(self) -> Hashable:
        """A digest of the bytes."""
        return sha256(self.data).digest()

    def read(self, start: int, end: int) -> bytes:
        """Return a part."""
        return self.data[start:end]

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill ``buffer`` from ``start`` on."""
        buffer[:] = self.data[start : start + len(buffer)]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each range."""
        return [self.read(start, end) for start, end in ranges]

    def send(self, start: int, end: int, descriptor: int) -> None:
        """Write a part."""
        write_all(descriptor, self.data[start:end])


class InfoView:
    """Each ledger as a JSON description."""

    suffix = ".json"
    lists_copies = True

    def __init__(self) -> None:
        self._documents: LRUCache[LedgerRef, Document] = LRUCache(
            _KEPT_BYTES, getsizeof=lambda document: document.size + _OVERHEAD
        )
        self._lock = ForkLock()

    def size(self, ref: LedgerRef) -> int | None:
        """Return the size of a cached document; None for others."""
        document = self._kept(ref)
        return None if document is None else document.size

    def estimate(self, ref: LedgerRef) -> int:
        """Return a typical size, which grows with the ledger's blocks."""
        return _OVERHEAD + _BLOCK_BYTES * ref.cuts

    def open(self, ledger: LedgerReader) -> Document:
        """Return the document; the first call requests the metadata of the ledger's objects."""
        document = self._kept(ledger.ref)
        if document is None:
            document = Document(json.dumps(ledger.describe(), indent=2, ensure_ascii=False).encode() + b"\n")
            # A larger document is created at each open.
            if document.size + _OVERHEAD <= _KEPT_BYTES:
                with self._lock:
                    self._documents[ledger.ref] = document
        return document

    def _kept(self, ref: LedgerRef) -> Document | None:
        with self._lock:
            return self._documents.get(ref)
