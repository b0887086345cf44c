"""What all acts on a cluster work with."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ledgerfs.lifecycle.acting.away_buckets import AwayBuckets
from ledgerfs.lifecycle.acting.turn import Turn
from ledgerfs.storage.zookeeper.changes import ClusterLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.dialects.closed_ledgers import ClosedLedgers
    from ledgerfs.dialects.offloaded_copies import OffloadedCopies
    from ledgerfs.formats.managed_ledgers.managed_ledger_info import OffloadContext
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.offload.owners import TopicOwners


@dataclass(frozen=True, slots=True)
class Means:
    """What acts work with.

    Attributes
    ----------
    lock
        Under which all is changed, and in whose session all is read that decides what is changed: it goes behind no commit, of whichever
        server.
    ledgers, copies
        Ledgers in BookKeeper, and in whichever buckets they were offloaded to.
    owners
        Who has a topic.
    bucket_at
        Returns the bucket of a URL, with what it takes to write there.
    away
        Buckets that did not answer in this pass.
    url_of
        Returns the URL of the bucket that has the objects of an offload; None if no bucket is known that they are in.
    turn
        How long an act may go on.
    pace_back
        Waits until the store may have given so many bytes back; raises `StoppedError` once nothing more is to be read.

    """

    lock: ClusterLock
    ledgers: "ClosedLedgers"
    copies: "OffloadedCopies"
    owners: "TopicOwners"
    bucket_at: "Callable[[str], Bucket]"
    url_of: "Callable[[OffloadContext], str | None]"
    away: AwayBuckets = field(default_factory=AwayBuckets)
    turn: Turn = field(default_factory=Turn)
    pace_back: "Callable[[int], None]" = lambda _: None

    def from_bookies(self, batches: "Iterator[EntryBatch]") -> "Iterator[EntryBatch]":
        """Yield what is read of bookies, which have a rate of their own, in this turn; raises as `Turn.watched`."""
        return self.turn.watched(batches)

    def from_store(self, batches: "Iterator[EntryBatch]") -> "Iterator[EntryBatch]":
        """Yield what is read of the store in this turn, each when it may pass; raises as `Turn.watched` and ``pace_back``."""
        for batch in self.turn.watched(batches):
            self.pace_back(int(batch.lengths.sum()))
            yield batch
