"""Context of `Acting`, and the check whether an offload's objects may be the only copy of a ledger."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ledgerfs.errors import CorruptLedgerError, LedgerfsError, RefusedLedgerError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.offload.candidates import listed_or_none
from ledgerfs_cluster.offload.journal import JournalRecord
from ledgerfs_cluster.zookeeper.changes import ClusterLock

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket
    from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
    from ledgerfs_cluster.live_source.offloaded_copies import OffloadedCopies
    from ledgerfs_cluster.snapshot.answers import BookieReads
    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster


@dataclass(frozen=True, slots=True)
class ActionContext:
    """The cluster, its lock, and everything else that `Acting` needs.

    Attributes
    ----------
    lock
        For all changes; its session also reads all that decides on them: these reads include every earlier commit, by whichever
        server.
    ledgers, copies
        Ledgers in BookKeeper, and offloaded ledgers in any bucket.
    bookies
        None to ask none.
    bucket_at
        Returns the bucket of a URL, opened for writing.
    in_flight
        Returns the uuids of this process's running attempts.
    why_other_policy
        Returns how the policy file differs from the one of the plan; None if it is the same. Called right before each deletion.
    require_going
        Raises `StoppedError` once no more work may begin.

    """

    cluster: "LivingCluster"
    lock: ClusterLock
    ledgers: "ClosedLedgers"
    copies: "OffloadedCopies"
    bookies: "BookieReads | None"
    bucket_at: "Callable[[str], Bucket]"
    in_flight: Callable[[], frozenset[str]]
    why_other_policy: Callable[[], str | None]
    require_going: Callable[[], None]


def why_only_copy(context: ActionContext, record: JournalRecord) -> str | None:
    """Return the reason if a record's objects, which its topic's list does not name, may be a ledger's only copy; None if they are not.

    There is another copy if its bookies return the ledger's last entry, or the objects of another listed offload do. Brokers trim the
    oldest ledgers first, so a ledger older than all listed ones may be gone; a younger one that is not listed was in a list that was set
    back: a list or a record may be from a backup. Raises the errors of ZooKeeper.
    """
    managed_ledger, ledger_id = record.managed_ledger or "", record.ledger_id
    listed = listed_or_none(context.lock.newest(), managed_ledger)
    if listed is None:
        return None
    info, first = listed.ledger(ledger_id), listed.info.ledgers[0].ledger_id
    if info is None and ledger_id < first:
        return None
    if info is None:
        return f"its topic's ledger list begins at ledger {first} but lacks this newer ledger: the list was reset to an older state"
    try:
        try:
            _require_in_bookkeeper(context, ledger_id)
        except LedgerfsError:
            if not info.is_offloaded or info.context is None or info.context.uuid in {None, record.uuid}:
                raise
            _require_in_a_bucket(context, managed_ledger, info)
    except LedgerfsError as error:
        if context.lock.is_lost:
            raise
        return (
            "these objects may be the only copy: the topic's ledger list contains the ledger, and its last entry was not found "
            f"elsewhere: {error}"
        )
    return None


def _require_in_bookkeeper(context: ActionContext, ledger_id: int) -> None:
    found = context.ledgers.found(ledger_id)
    if not found.node.is_closed:
        raise RefusedLedgerError("the ledger is not closed in BookKeeper", key=str(ledger_id))
    context.ledgers.require_last_entry(found)


def _require_in_a_bucket(context: ActionContext, managed_ledger: str, info: LedgerInfo) -> None:
    reader = context.copies.reader(managed_ledger, info)
    last = reader.ref.last_entry
    if not sum(map(len, reader.batches(last, last))):
        raise CorruptLedgerError("the objects in its ledger list lack its last entry", key=managed_ledger)
