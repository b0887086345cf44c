"""The format ``entries``: raw records (``int32 length | int64 entry id | entry`` …), read directly or materialized, by layout."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.vfs.views.rendered import Rendered

if TYPE_CHECKING:
    from ledgerfs.cache.rendered_files import RenderedFiles
    from ledgerfs.vfs.views.ledger_tables import LedgerTables


@dataclass(frozen=True, slots=True)
class EntriesView:
    """Each ledger as its records."""

    tables: "LedgerTables"
    files: "RenderedFiles"

    suffix = ".entries"
    lists_copies = True

    def size(self, ref: LedgerRef) -> int | None:
        """Return the size; None if the length of the ledger is unknown."""
        return ref.records_size if ref.length >= 0 else None

    def estimate(self, ref: LedgerRef) -> int:
        """Return the size of the ledger in the store, bytes."""
        return ref.stored

    def open(self, ledger: LedgerReader) -> FileReader:
        """Return the records; sends no request if the layout stores them in this form."""
        records = ledger.records()
        if records is not None:
            return records
        return Rendered(
            self.files.open(self.tables.key(ledger.ref, "entries"), lambda sink: _render(ledger, sink), b"")
        )


def _render(ledger: LedgerReader, sink: BinaryIO) -> bool:
    """Write all records; raises `CorruptLedgerError` if their size differs from the size that `size` has returned."""
    size = 0
    for batch in ledger.batches(ledger.first_entry, ledger.last_entry):
        size += sink.write(batch.records())
    if ledger.length >= 0 and size != ledger.records_size:
        reason = f"its entries need {size} bytes of records, but its metadata has {ledger.records_size}"
        raise CorruptLedgerError(reason, key=ledger.ref.key)
    return True
