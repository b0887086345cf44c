"""Sources of entries for a new ledger, which can be checked before the first byte is sent."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import BufferedIOBase, BytesIO, RawIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.writing.record_stream import RecordStream

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch

_PIECE = 8 << 20


class EntrySource(Protocol):
    """Entries in order, from id 0 on."""

    @property
    def size(self) -> int | None:
        """Bytes of all records; None if not known."""
        ...

    def check(self, ledger: NewLedger) -> None:
        """Raise `RefusedLedgerError` if the entries cannot become this ledger, as far as that is known before they are sent."""
        ...

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":
        """Yield the entries; each batch is consumed before the next one. Raises as `check`, for errors that it could not find."""
        ...


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records that is read twice: to check it, and to copy it."""

    name: str
    open: Callable[[], RawIOBase | BufferedIOBase]
    size: int

    @classmethod
    def at(cls, path: Path | str) -> "RecordFile":
        """Return a local file; raises `OSError` if it cannot be read."""
        path = Path(path)
        return cls(str(path), lambda: path.open("rb", buffering=0), path.stat().st_size)

    @classmethod
    def of(cls, name: str, data: Buffer) -> "RecordFile":
        """Return a file in memory."""
        return cls(name, lambda: BytesIO(data), len(data))

    def check(self, ledger: NewLedger) -> None:
        """Read all records."""
        for _ in self.batches(ledger):
            pass

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":
        """Yield the entries, in memory that the next batch reuses."""
        stream, buffer = RecordStream(self.name, ledger.largest_taken), memoryview(bytearray(_PIECE))
        with self.open() as file:
            for count in iter(lambda: file.readinto(buffer), 0):
                yield from stream.feed(buffer[:count])
        stream.finish()


@dataclass(frozen=True, slots=True)
class OffloadedLedger:
    """A ledger of a bucket. Checks every entry's checksum, and all entries against the metadata, so that damage is not copied."""

    reader: LedgerReader

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return self.reader.records_size

    def check(self, ledger: NewLedger) -> None:
        """Check all entries if blocks are smaller than the source's; otherwise they fit."""
        largest = self.reader.origin().largest_block
        if ledger.transform is None and (largest is None or ledger.block_size < largest):
            for batch in self.reader.batches(self.reader.first_entry, self.reader.last_entry):
                ledger.require_fitting(batch)

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":  # noqa: ARG002  (as `EntrySource` has it)
        """Yield the entries; raises as `checked`."""
        return self.checked()

    def checked(self) -> "Iterator[EntryBatch]":
        """Yield the entries; raises `CorruptLedgerError` for a wrong checksum and, at the end, for other totals than the metadata's."""
        entries = length = 0
        for batch in self.reader.batches(self.reader.first_entry, self.reader.last_entry):
            self._check_sums(batch)
            entries += len(batch)
            length += int(batch.lengths.sum())
            yield batch
        self._check_totals(entries, length)

    def _check_totals(self, entries: int, length: int) -> None:
        """Compare the totals with the metadata: the copy gets its own metadata, which would hide a difference."""
        reader = self.reader
        expected = reader.last_entry - reader.first_entry + 1, reader.length
        if (entries, length) != expected:
            reason = (
                f"the ledger has {entries} entries of {length} bytes, but its metadata has {expected[0]} entries of {expected[1]} bytes "
                "(see `ledgerfs verify`); the ledger is not copied"
            )
            raise CorruptLedgerError(reason, key=reader.ref.key)

    def _check_sums(self, batch: "EntryBatch") -> None:
        result = check_entries(batch)
        wrong = result.states >= EntryState.MISMATCH
        if wrong.any():
            entry = batch.id_of(int(wrong.argmax()))
            raise CorruptLedgerError(
                f"entry {entry} has a wrong checksum or frame (see `ledgerfs verify`); the ledger is not copied",
                key=self.reader.ref.key,
            )


@dataclass(frozen=True, slots=True)
class EntryBatches:
    """Entries from any iterable, which is read once and cannot be checked before."""

    made: "Iterable[EntryBatch]"
    size: int | None = None

    def check(self, ledger: NewLedger) -> None:
        """Do nothing."""

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":  # noqa: ARG002  (as `EntrySource` has it)
        """Yield the entries."""
        return iter(self.made)
