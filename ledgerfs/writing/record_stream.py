"""Split the bytes of a file of records (``int32 length | int64 entry id | entry`` …) into batches of whole entries, as they arrive."""

from collections.abc import Iterator

from ledgerfs.errors import RefusedLedgerError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch, EntryScan, ScanStop, scan_records

_PIECE = 8 << 20
_ANY_NUMBER = 2**62


class RecordStream:
    """Accepts bytes of a file in order, and returns entries, whose ids have to be consecutive from 0.

    Joins a record whose bytes arrive in several writes, and copies no others. Holds at most one record.

    Parameters
    ----------
    name
        The file's name in errors.
    largest_entry
        Bytes of the largest entry that is accepted.

    """

    __slots__ = ("_begun", "_largest_entry", "_name", "_next_entry", "_position")

    def __init__(self, name: str, largest_entry: int) -> None:
        self._name = name
        self._largest_entry = largest_entry
        self._begun = bytearray()
        self._next_entry = 0
        self._position = 0

    def feed(self, data: Buffer) -> Iterator[EntryBatch]:
        """Yield the entries that ``data`` completes; each batch has to be consumed before the next one.

        Raises `RefusedLedgerError` with the offset for ids that are not consecutive, negative lengths, and too large entries.
        """
        rest = memoryview(data).cast("B")
        while rest:
            if not self._begun:
                scan = scan_records(rest[:_PIECE], 0, self._next_entry, _ANY_NUMBER)
                self._check(scan)
                if len(scan.batch):
                    self._count(scan)
                    yield scan.batch
                    rest = rest[scan.position :]
                    continue
            # A record is larger than a piece, or only some of its bytes have arrived.
            rest = self._complete(rest)
            if len(self._begun) >= RECORD_HEADER_BYTES and not self._missing():
                record, self._begun = self._begun, bytearray()
                scan = scan_records(memoryview(record), 0, self._next_entry, 1)
                self._count(scan)
                yield scan.batch

    def finish(self) -> None:
        """Raise `RefusedLedgerError` if the file ends within a record, or has no records."""
        if self._begun:
            raise self._refusal(
                f"the file ends within entry {self._next_entry}: only {len(self._begun)} bytes of its record exist"
            )
        if self._next_entry == 0:
            raise self._refusal("the ledger has no entries, and Pulsar does not offload empty ledgers")

    def _complete(self, data: memoryview) -> memoryview:
        """Add the missing bytes to the record that was begun; return the rest of the data."""
        if len(self._begun) < RECORD_HEADER_BYTES:
            missing = RECORD_HEADER_BYTES - len(self._begun)
            self._begun += data[:missing]
            data = data[missing:]
            if len(self._begun) < RECORD_HEADER_BYTES:
                return data
            self._check(scan_records(memoryview(self._begun), 0, self._next_entry, 1))
        missing = self._missing()
        self._begun += data[:missing]
        return data[missing:]

    def _missing(self) -> int:
        """Return how many bytes the record that was begun still needs."""
        length = int.from_bytes(self._begun[:4], "big", signed=True)
        return RECORD_HEADER_BYTES + length - len(self._begun)

    def _count(self, scan: EntryScan) -> None:
        self._next_entry += len(scan.batch)
        self._position += scan.position

    def _check(self, scan: EntryScan) -> None:
        """Raise `RefusedLedgerError` for the records that a scan found, or for the one after them."""
        self._require_size(scan)
        entry = self._next_entry + len(scan.batch)
        offset = self._position + scan.position
        if scan.stop == ScanStop.NEGATIVE_LENGTH:
            raise self._refusal(f"entry {entry} has the impossible length {scan.found}", offset)
        if scan.stop == ScanStop.WRONG_ID:
            reason = f"found entry {scan.found}, expected entry {entry}; a ledger has all entries in order, from 0 on"
            raise self._refusal(reason, offset)
        if scan.stop == ScanStop.MORE_BYTES and scan.found is not None and scan.found > self._largest_entry:
            raise self._too_large(entry, scan.found, offset)

    def _require_size(self, scan: EntryScan) -> None:
        lengths = scan.batch.lengths
        if lengths.size and int(lengths.max()) > self._largest_entry:
            i = int((lengths > self._largest_entry).argmax())
            offset = self._position + int(scan.batch.offsets[i]) - RECORD_HEADER_BYTES
            raise self._too_large(scan.batch.first_entry + i, int(lengths[i]), offset)

    def _too_large(self, entry: int, size: int, offset: int) -> RefusedLedgerError:
        return self._refusal(
            f"entry {entry} has {size} bytes, but an entry in a block has at most {self._largest_entry}. Pulsar itself would lose this "
            "entry and all later ones, and report success (docs/formats/pulsar-blob.md); use larger blocks",
            offset,
        )

    def _refusal(self, reason: str, offset: int | None = None) -> RefusedLedgerError:
        return RefusedLedgerError(reason, key=self._name, offset=self._position if offset is None else offset)
