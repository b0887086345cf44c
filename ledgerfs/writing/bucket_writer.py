"""The writer of one ledger of a bucket, for entries from anywhere; it notes in the bucket that the ledger is there."""

from types import TracebackType
from typing import Self

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.layout import Progress
from ledgerfs.formats.buffers import Buffer
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger
from ledgerfs.layouts.pulsar_blob.writer import LedgerWriter, WrittenLedger
from ledgerfs.writing.admission import together
from ledgerfs.writing.claims import Claim
from ledgerfs.writing.record_stream import RecordStream
from ledgerfs.writing.sources import EntrySource


class BucketWriter:
    """Takes the entries of one ledger, in order; `commit` makes them a ledger, and notes it in the bucket and its admission.

    For ``with``, as `LedgerWriter`, whose errors it raises; also `UnsupportedWriteError`. For one thread.

    Parameters
    ----------
    claim
        With which the ledger is confirmed after it was written (`together`); None if the caller does that, or nothing can be in its way.
    name
        Name in errors of the file of records.

    """

    __slots__ = ("_bucket", "_claim", "_stream", "_writer", "ledger")

    def __init__(self, bucket: Bucket, ledger: NewLedger, claim: Claim | None = None, name: str = "records") -> None:
        bucket.source.require_writable()
        self.ledger = ledger
        self._bucket = bucket
        self._claim = claim
        self._stream = RecordStream(name, ledger.largest_taken)
        self._writer = LedgerWriter(bucket.raw_store, ledger)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)

    def add(self, batch: EntryBatch) -> None:
        """Add the next entries. When this returns they are copied or sent, so the caller may reuse their buffer."""
        self._writer.add(batch)

    def feed(self, data: Buffer) -> None:
        """Add the next bytes of a file of records; raises `RefusedLedgerError` as soon as they are not a ledger's."""
        for batch in self._stream.feed(data):
            self._writer.add(batch)

    def add_all(self, source: EntrySource, progress: Progress | None = None) -> None:
        """Add all entries of a source, which is checked before anything is sent, as far as it can be."""
        source.check(self.ledger)
        done = 0
        for batch in source.batches(self.ledger):
            self._writer.add(batch)
            done += int(batch.lengths.sum()) + RECORD_HEADER_BYTES * len(batch)
            if progress is not None:
                progress(f"ledger {self.ledger.key.ledger_id}", done, source.size)

    def end_file(self) -> None:
        """Raise `RefusedLedgerError` if the bytes end within a record, or there are none."""
        self._stream.finish()

    def seal(self) -> None:
        """Send the last entries; nothing can be added after that."""
        self._writer.seal()

    def commit(self, *, created_ms: int | None = None) -> WrittenLedger:
        """Make the ledger appear, and confirm it by a new listing, or leave that to the ``with together`` around this.

        Raises as `LedgerWriter.commit`, and as `Admission.confirm`, after which the ledger is removed again.
        """
        written = self._writer.commit(created_ms=created_ms)
        if self._claim is None:
            self._bucket.expire()
        else:
            with together(self._bucket) as admission:
                admission.wrote(self._claim, written)
        return written

    def abort(self) -> None:
        """Leave nothing in the bucket."""
        self._writer.abort()
