"""What a ledger can be written from: anything with entries in order, which can be looked through before the first byte is sent."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from ledgerfs.dialects.pulsar_blob.new_ledger import NewLedger
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.writing.record_stream import RecordStream, check_records

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch

_PIECE = 8 << 20


class EntrySource(Protocol):
    """Entries in order, from id 0 on."""

    @property
    def size(self) -> int | None:
        """Bytes of all records, where that is known."""
        ...

    def check(self, ledger: NewLedger) -> None:
        """Raise `RefusedLedgerError` for what cannot become this ledger, as far as that can be told without sending anything."""
        ...

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":
        """Yield the entries; each batch is used up before the next one is asked for. Raises as `check`, for what that could not tell."""
        ...


@dataclass(frozen=True, slots=True)
class RecordBytes:
    """The bytes of a file of records, in memory."""

    name: str
    data: Buffer

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.data)

    def check(self, ledger: NewLedger) -> None:
        """Look through all records."""
        check_records(self.name, [self.data], ledger.largest_taken)

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":
        """Yield the entries where they are."""
        stream = RecordStream(self.name, ledger.largest_taken)
        yield from stream.feed(self.data)
        stream.finish()


@dataclass(frozen=True, slots=True)
class RecordFile:
    """A file of records that is read twice: to look through it, and to copy it."""

    name: str
    open: Callable[[], BinaryIO]
    size: int

    @classmethod
    def at(cls, path: Path | str) -> "RecordFile":
        """Return a local file; raises `OSError` as it is when there is none."""
        path = Path(path)
        return cls(str(path), lambda: path.open("rb", buffering=0), path.stat().st_size)

    def check(self, ledger: NewLedger) -> None:
        """Look through all records."""
        with self._pieces() as pieces:
            check_records(self.name, pieces, ledger.largest_taken)

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":
        """Yield the entries, from memory that the next ones use again."""
        stream = RecordStream(self.name, ledger.largest_taken)
        with self._pieces() as pieces:
            for piece in pieces:
                yield from stream.feed(piece)
        stream.finish()

    @contextmanager
    def _pieces(self) -> Iterator[Iterator[memoryview]]:
        with self.open() as file:
            yield _pieces_of(file)


@dataclass(frozen=True, slots=True)
class OffloadedLedger:
    """A ledger of a bucket. Every entry's checksum is checked, so that damage is not copied on as if it were whole."""

    reader: LedgerReader

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return self.reader.records_size

    def check(self, ledger: NewLedger) -> None:
        """Look at all entries, if blocks are smaller than where the entries come from: else they are known to fit."""
        largest = self.reader.origin().largest_block
        if ledger.transform is None and (largest is None or ledger.block_size < largest):
            for batch in self.reader.batches(self.reader.first_entry, self.reader.last_entry):
                ledger.require_fitting(batch)

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":  # noqa: ARG002  (as `EntrySource` has it)
        """Yield the entries; raises `CorruptLedgerError` for one whose checksum is wrong."""
        for batch in self.reader.batches(self.reader.first_entry, self.reader.last_entry):
            self._check_sums(batch)
            yield batch

    def _check_sums(self, batch: "EntryBatch") -> None:
        result = check_entries(batch)
        wrong = result.states >= EntryState.MISMATCH
        if wrong.any():
            entry = batch.id_of(int(wrong.argmax()))
            raise CorruptLedgerError(
                f"entry {entry} has a wrong checksum or frame; `ledgerfs verify` tells where; the ledger is not copied",
                key=self.reader.ref.key,
            )


@dataclass(frozen=True, slots=True)
class EntryBatches:
    """Entries that somebody makes, once: nothing can be told of them before they come."""

    made: "Iterable[EntryBatch]"
    size: int | None = None

    def check(self, ledger: NewLedger) -> None:
        """Do nothing."""

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":  # noqa: ARG002  (as `EntrySource` has it)
        """Yield the entries."""
        return iter(self.made)


def _pieces_of(file: BinaryIO) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(_PIECE))
    readinto = getattr(file, "readinto", None)
    while readinto is not None and (count := readinto(buffer)):
        yield buffer[:count]
    while readinto is None and (data := file.read(_PIECE)):
        yield memoryview(data)
