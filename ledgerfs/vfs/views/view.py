"""The seam between the tree and the contents of its files."""

from typing import Protocol

from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader


class View(Protocol):
    """One first component of the tree: a way to see ledgers as files."""

    @property
    def suffix(self) -> str:
        """Ending of its files' names, with the dot."""
        ...

    @property
    def lists_copies(self) -> bool:
        """Whether further copies of a ledger are listed: in a folder of tables, each of their messages would be there twice."""
        ...

    def size(self, ref: LedgerRef) -> int | None:
        """Return the exact size of the ledger's file; None for a file that has to be rendered first. Reads no ledger."""
        ...

    def estimate(self, ref: LedgerRef) -> int:
        """Return about how many bytes a file has whose size is not known, without a request."""
        ...

    def open(self, ledger: LedgerReader) -> FileReader:
        """Return the ledger's file, rendered if it has to be."""
        ...
