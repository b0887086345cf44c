"""The formats ``jsonl``, ``arrow``, ``parquet``: the message table of each ledger as a file, materialized at its first open."""

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from ledgerfs.storage.descriptors import copy_range
from ledgerfs.vfs.views.ledger_tables import LedgerTable, LedgerTables

if TYPE_CHECKING:
    from ledgerfs.cache.disk_files import SealedFile
    from ledgerfs.cache.rendered_files import RenderedFiles
    from ledgerfs.catalog.ledger_ref import LedgerRef
    from ledgerfs.catalog.reader import LedgerReader

_LOG = logging.getLogger("ledgerfs.vfs")


@dataclass(frozen=True, slots=True)
class Rendered:
    """An opened materialized file: it stays readable, even if the cache drops it."""

    file: "SealedFile"

    @property
    def size(self) -> int:
        """Bytes."""
        return self.file.size

    @property
    def identity(self) -> Hashable:
        """The file in the cache, which is written once; a file that is materialized again has another identity."""
        return self.file.identity

    def read(self, start: int, end: int) -> bytes:
        """Read from the cached file."""
        return self.file.read(start, end)

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill ``buffer`` from ``start`` on."""
        buffer[:] = self.read(start, start + len(buffer))

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each range."""
        return [self.read(start, end) for start, end in ranges]

    def send(self, start: int, end: int, descriptor: int) -> None:
        """Let the kernel copy from the cached file."""
        if copy_range(self.file.descriptor, start, end, descriptor) < end - start:
            raise self.file.was_cut()


@dataclass(frozen=True, slots=True)
class RenderedView:
    """Each ledger as a table in a file of one kind (`ledgerfs.tables.table_files.TABLE_KINDS`)."""

    kind: str
    tables: LedgerTables
    files: "RenderedFiles"

    @property
    def suffix(self) -> str:
        """Suffix of the files, which is their kind."""
        return f".{self.kind}"

    @property
    def lists_copies(self) -> bool:
        """False: a folder of tables is a dataset, which must contain each message once."""
        return False

    def size(self, ref: "LedgerRef") -> int | None:
        """Return the size of a cached file; None for others, and if the topic's schemas cannot be read."""
        table = self.tables.table_if_known(ref, self.kind)
        return None if table is None else self.files.size(table.key, table.state)

    def estimate(self, ref: "LedgerRef") -> int:
        """Return the size of the ledger in the store, bytes."""
        return ref.stored

    def open(self, ledger: "LedgerReader") -> Rendered:
        """Return the file from the cache; materialize it first if needed.

        Raises `CacheWriteError` if the disk is full, and the errors of reading messages: `EncryptedMessageError`, `CorruptMessageError`,
        `CorruptLedgerError`, `StoreError`, …; for typed values `UnknownSchemaError`, `UndecodableValueError`, and as `Bucket.schemas_of`.
        """
        table = self.tables.table(ledger.ref, self.kind)
        return Rendered(self.files.open(table.key, lambda sink: self._render(table, sink), table.state))

    def _render(self, table: LedgerTable, sink: BinaryIO) -> bool:
        # This imports pyarrow, which listing and copying do not need.
        from ledgerfs.scan.report import ScanReport
        from ledgerfs.tables.table_files import write_table

        scan, report = table.scan(), ScanReport()
        write_table(scan.batches(report), scan.schema, sink, self.kind)
        for one in report.undecodable:
            if one.raw is not None:
                _LOG.warning(
                    "%s: %d times are null, the first is of message %s (%d): %s",
                    scan.topic, one.count, one.first, one.raw, one.reason,
                )  # fmt: skip
        return report.is_final
