"""The interface between the tree and the contents of its files."""

from typing import Protocol

from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader


class View(Protocol):
    """A file format of ledgers, one first component of the tree."""

    @property
    def suffix(self) -> str:
        """Suffix of its files' names, with the dot."""
        ...

    @property
    def lists_copies(self) -> bool:
        """Whether further copies of a ledger are listed; in a folder of tables this would duplicate their messages."""
        ...

    def size(self, ref: LedgerRef) -> int | None:
        """Return the exact size of the ledger's file; None for a file that must be materialized first. Reads no ledger."""
        ...

    def estimate(self, ref: LedgerRef) -> int:
        """Estimate the bytes of a file of unknown size, without a request."""
        ...

    def open(self, ledger: LedgerReader) -> FileReader:
        """Open the ledger's file; materialize it if needed."""
        ...
