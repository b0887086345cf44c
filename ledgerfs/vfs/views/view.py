"""The seam between the tree and what its files show."""

from typing import Protocol

from ledgerfs.ledgers.file_reader import FileReader
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.reader import LedgerReader


class View(Protocol):
    """One first component of the tree: what a ledger can be seen as."""

    @property
    def suffix(self) -> str:
        """Ending of its files' names, with the dot."""
        ...

    @property
    def lists_copies(self) -> bool:
        """Whether further copies of a ledger are listed: in a folder of tables, each of their messages would be there twice."""
        ...

    def size(self, ref: LedgerRef) -> int | None:
        """Return the exact size of the ledger's file, or None while only rendering it would tell. Costs no request."""
        ...

    def open(self, ledger: LedgerReader) -> FileReader:
        """Return the ledger's file, rendered first if need be."""
        ...
