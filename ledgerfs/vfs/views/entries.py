"""The view ``entries``: the raw records, ``int32 length | int64 entry id | entry`` …, which need no rendering."""

from ledgerfs.ledgers.catalog import LedgerRef
from ledgerfs.ledgers.dialect import LedgerReader
from ledgerfs.ledgers.file_contents import Contents


class EntriesView:
    """Each ledger as its records."""

    suffix = ".entries"
    lists_copies = True

    def size(self, ref: LedgerRef) -> int:
        """Return the size, which is always known."""
        return ref.records_size

    def open(self, ledger: LedgerReader) -> Contents:
        """Return the records; costs no request."""
        return ledger.open_records()
