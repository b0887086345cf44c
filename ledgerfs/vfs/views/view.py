"""The seam between the tree and what its files hold."""

from typing import Protocol

from ledgerfs.vfs.catalog import LedgerRef
from ledgerfs.vfs.layout import LedgerReader


class Contents(Protocol):
    """The content of one open file: its size is known, and any number of threads may read it."""

    @property
    def size(self) -> int:
        """Bytes, exactly."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end``, which are inside the content."""
        ...

    def send(self, start: int, end: int, descriptor: int) -> None:
        """Write the same bytes to a file descriptor, in the kernel where it can do that."""
        ...


class View(Protocol):
    """One first component of the tree: what a ledger can be seen as."""

    @property
    def suffix(self) -> str:
        """Ending of its files' names, with the dot."""
        ...

    def size(self, ref: LedgerRef) -> int | None:
        """Return the exact size of the ledger's file, or None while only rendering it would tell. Costs no request."""
        ...

    def open(self, ledger: LedgerReader) -> Contents:
        """Return the ledger's file, rendered first if need be."""
        ...
