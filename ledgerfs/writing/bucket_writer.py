"""Write one ledger of a bucket from any entries, and add it to the bucket's known ledgers."""

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.layout import Progress
from ledgerfs.formats.buffers import Buffer
from ledgerfs.formats.record_header import RECORD_HEADER_BYTES
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger
from ledgerfs.layouts.pulsar_blob.writer import LedgerWriter, WrittenLedger
from ledgerfs.writing.admission import together
from ledgerfs.writing.claims import Claim
from ledgerfs.writing.record_stream import RecordStream
from ledgerfs.writing.sources import EntrySource


class BucketWriter(LedgerWriter):
    """A `LedgerWriter` that also accepts the bytes of a file of records, and adds its ledger to the bucket and its admission.

    Raises as `LedgerWriter`; also `UnsupportedWriteError`.

    Parameters
    ----------
    claim
        Confirms the ledger after it was written (`together`); None if the caller does that, or no conflict is possible.
    name
        Name of the file of records in errors.

    """

    __slots__ = ("_bucket", "_claim", "_stream")

    def __init__(self, bucket: Bucket, ledger: NewLedger, claim: Claim | None = None, name: str = "records") -> None:
        bucket.source.require_writable()
        super().__init__(bucket.raw_store, ledger)
        self._bucket = bucket
        self._claim = claim
        self._stream = RecordStream(name, ledger.largest_taken)

    def feed(self, data: Buffer) -> None:
        """Add the next bytes of a file of records; raises `RefusedLedgerError` as soon as they are not those of a ledger."""
        for batch in self._stream.feed(data):
            self.add(batch)

    def add_all(self, source: EntrySource, progress: Progress | None = None) -> None:
        """Add all entries of a source, after checking it as far as possible."""
        source.check(self.ledger)
        done = 0
        for batch in source.batches(self.ledger):
            self.add(batch)
            done += int(batch.lengths.sum()) + RECORD_HEADER_BYTES * len(batch)
            if progress is not None:
                progress(f"ledger {self.ledger.key.ledger_id}", done, source.size)

    def end_file(self) -> None:
        """Raise `RefusedLedgerError` if the bytes end within a record, or there are none."""
        self._stream.finish()

    def commit(self, *, created_ms: int | None = None) -> WrittenLedger:
        """Make the ledger appear, and confirm it by a new listing, or leave that to the enclosing ``with together``.

        Raises as `LedgerWriter.commit`, and as `Admission.confirm`, which has then removed the ledger again.
        """
        written = super().commit(created_ms=created_ms)
        if self._claim is None:
            self._bucket.expire()
        else:
            with together(self._bucket) as admission:
                admission.wrote(self._claim, written)
        return written
