"""What all acts on a cluster work with."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ledgerfs.lifecycle.acting.turn import Turn
from ledgerfs.storage.zookeeper.changes import ClusterLock
from ledgerfs.storage.zookeeper.nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs.dialects.closed_ledgers import ClosedLedgers
    from ledgerfs.dialects.offloaded_copies import OffloadedCopies
    from ledgerfs.offload.owners import TopicOwners


@dataclass(frozen=True, slots=True)
class Means:
    """What acts work with.

    Attributes
    ----------
    lock
        Under which all is changed.
    nodes
        What is read of ZooKeeper.
    ledgers, copies
        Ledgers in BookKeeper, and in whichever buckets they were offloaded to.
    owners
        Who has a topic.
    bucket_at
        Returns the bucket of a URL, with what it takes to write there.
    turn
        How long an act may go on.

    """

    lock: ClusterLock
    nodes: Nodes
    ledgers: "ClosedLedgers"
    copies: "OffloadedCopies"
    owners: "TopicOwners"
    bucket_at: "Callable[[str], Bucket]"
    turn: Turn = field(default_factory=Turn)
