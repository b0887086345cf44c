"""The view ``entries``: the raw records, ``int32 length | int64 entry id | entry`` …, which need no rendering."""

from dataclasses import dataclass

from ledgerfs.vfs.catalog import LedgerRef
from ledgerfs.vfs.layout import LedgerReader


@dataclass(frozen=True, slots=True)
class Records:
    """The data object without block headers and padding."""

    ledger: LedgerReader

    @property
    def size(self) -> int:
        """Bytes of all records, which the index alone tells."""
        return self.ledger.records_size

    def read(self, start: int, end: int) -> bytes:
        """Read from the data object."""
        return self.ledger.read_records(start, end)

    def send(self, start: int, end: int, descriptor: int) -> None:
        """Copy from the data object."""
        self.ledger.send_records(start, end, descriptor)


class EntriesView:
    """Each ledger as its records."""

    suffix = ".entries"

    def size(self, ref: LedgerRef) -> int:
        """Return the size, which is always known."""
        return ref.records_size

    def open(self, ledger: LedgerReader) -> Records:
        """Return the records; costs no request."""
        return Records(ledger)
