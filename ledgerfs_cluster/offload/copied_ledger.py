"""Copying one ledger from its bookies into a bucket, and reading the copy back before it counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerfs.errors import CorruptLedgerError
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger, completed_user_metadata
from ledgerfs.writing.write import ref_of, write_ledger
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers, StoredLedger
from ledgerfs_cluster.offload.journal import JournalRecord
from ledgerfs_cluster.offload.record_digest import RecordDigest, digest_of, digested

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger
    from ledgerfs_cluster.offload.offload_bucket import OpenBucket

Pace = Callable[[int], None]
"""Is told of bytes before they are sent."""


@dataclass(frozen=True, slots=True)
class CopiedLedger:
    """A ledger that is whole in a bucket, and that no list names yet; ``stored`` is as BookKeeper had it when it was copied."""

    attempt: JournalRecord
    stored: StoredLedger


class _Source:
    """`EntrySource` of a closed ledger of bookies, which notes a digest of all that is written."""

    __slots__ = ("_ledgers", "_pace", "_stored", "digest")

    def __init__(self, ledgers: ClosedLedgers, stored: StoredLedger, pace: "Pace | None") -> None:
        self._pace = pace
        self._ledgers = ledgers
        self._stored = stored
        self.digest = RecordDigest()

    @property
    def size(self) -> int:
        """Bytes of the records."""
        return self._stored.records_size

    def check(self, ledger: NewLedger) -> None:
        """Do nothing: nothing is known of the entries before they are read, and the writer looks at each."""

    def batches(self, ledger: NewLedger) -> "Iterator[EntryBatch]":  # noqa: ARG002  (as `EntrySource` has it)
        """Yield what is to be written."""
        yield from digested(_paced(self._ledgers.batches(self._stored), self._pace), self.digest)


def copy_ledger(
    ledgers: ClosedLedgers,
    stored: StoredLedger,
    attempt: JournalRecord,
    tier: "OpenBucket",
    pace: "Pace | None" = None,
) -> CopiedLedger:
    """Write a closed ledger under the names of an attempt, as Pulsar's offloader writes it, and read all of it back.

    ``pace`` is called with the bytes of each batch before it is sent, and when it was read back; it may wait, and end the copy by what it
    raises.

    Raises as `ClosedLedgers.batches`, `RefusedLedgerError` for an entry that no block holds,
    `CorruptLedgerError` if what is read back is not what was sent, and the errors of the store. What is in the bucket then is for the
    attempt's cleaning.
    """
    node = stored.node
    user_metadata = completed_user_metadata(tier.user_metadata, attempt.managed_ledger or "")
    ledger = NewLedger(attempt.key, node.closed_at(node.last_entry, node.length), user_metadata, tier.place.block_size)
    source = _Source(ledgers, stored, pace)
    written = write_ledger(tier.bucket, ledger, source)
    _require_same(tier, written, source.digest, pace)
    return CopiedLedger(attempt, stored)


def _require_same(tier: "OpenBucket", written: "WrittenLedger", sent: RecordDigest, pace: "Pace | None") -> None:
    ref = ref_of(written)
    reader = tier.bucket.uncached_reader(ref)
    found = digest_of(lambda: _paced(reader.batches(0, ref.last_entry), pace))
    if found != sent.value():
        reason = (
            f"what was read back is not what was written: {found[0]:,} entries of {found[1]:,} bytes, where {sent.entries:,} "
            f"of {sent.length:,} were sent"
        )
        raise CorruptLedgerError(reason, key=written.data.key)


def _paced(batches: "Iterator[EntryBatch]", pace: "Pace | None") -> "Iterator[EntryBatch]":
    """Yield batches, each when it may pass: what is read of a store counts as what is sent to it."""
    for batch in batches:
        if pace is not None:
            pace(int(batch.lengths.sum()))
        yield batch
