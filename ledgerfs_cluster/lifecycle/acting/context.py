"""What acts on a cluster work with."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerfs_cluster.offload.journal import JournalRecord
from ledgerfs_cluster.offload.outcomes import Outcome, Status
from ledgerfs_cluster.zookeeper.changes import ClusterLock

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext
    from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
    from ledgerfs_cluster.live_source.offloaded_copies import OffloadedCopies
    from ledgerfs_cluster.offload.owners import TopicOwners


@dataclass(frozen=True, slots=True)
class ActionContext:
    """What acts work with.

    Attributes
    ----------
    lock
        Under which all is changed, and in whose session all is read that decides what is changed: it goes behind no commit, of whichever
        server.
    ledgers, copies
        Ledgers in BookKeeper, and in whichever buckets they were offloaded to.
    owners
        The brokers of topics.
    bucket_at
        Returns the bucket of a URL, with what it takes to write there.
    url_of
        Returns the URL of the bucket that has the objects of an offload; None if no bucket is known that they are in.
    require_going
        Raises `StoppedError` once nothing more is to be begun.

    """

    lock: ClusterLock
    ledgers: "ClosedLedgers"
    copies: "OffloadedCopies"
    owners: "TopicOwners"
    bucket_at: "Callable[[str], Bucket]"
    url_of: "Callable[[OffloadContext], str | None]"
    require_going: "Callable[[], None]" = lambda: None


def postponed(record: JournalRecord, why: str, what: str = "delete") -> Outcome:
    """Return why nothing is done now with what a record is about."""
    subject = f"{record.managed_ledger or ''}, ledger {record.ledger_id}"
    text = f"{what} {subject}: not now: {why}"
    return Outcome(Status.SKIPPED, f"{what} postponed", subject, text, (record.ledger_id,))
