"""What direct work on a topic has to know of its broker, and may ask of it."""

from collections.abc import Callable

from ledgerfs.errors import LedgerfsError, UnsupportedWriteError
from ledgerfs_cluster.offload.outcomes import Outcome, failed
from ledgerfs_cluster.rules.topic_owners import owner_now
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.zookeeper.changes import ClusterLock


class TopicOwners:
    """Knows which broker has a topic at the moment of the call, and has it unloaded.

    What is returned is never older than what the holder of the lock has read, or committed, before: a broker that took the topic before it
    changed the list that was read is seen, and so is one that took it before the commit.

    Parameters
    ----------
    ask
        Has a broker unload a topic; None where no broker can be asked.

    """

    __slots__ = ("_ask", "_lock")

    def __init__(self, lock: ClusterLock, ask: Callable[[str], None] | None = None) -> None:
        self._lock = lock
        self._ask = ask

    def owner_of(self, managed_ledger: str) -> Owner:
        """Return what is known of the broker that has the topic now; loads nothing. Raises the errors of ZooKeeper."""
        return owner_now(self._lock.newest(), managed_ledger)

    @property
    def can_unload(self) -> bool:
        """Whether a broker can be asked to unload a topic."""
        return self._ask is not None

    def unload(self, managed_ledger: str) -> None:
        """Have a broker unload a topic, so that it reads the list again; raises its errors, and `UnsupportedWriteError` without one."""
        if self._ask is None:
            raise UnsupportedWriteError("no broker is named that could unload it", key=managed_ledger)
        self._ask(managed_ledger)


def let_go(owners: TopicOwners, managed_ledger: str) -> list[Outcome]:
    """Have a broker that took a topic, while its list was set, unload it: it has the old list. Return what an operator has to do.

    Raises the errors of ZooKeeper.
    """
    if owners.owner_of(managed_ledger) is Owner.NONE:
        return []
    if not owners.can_unload:
        text = f"a broker has taken {managed_ledger} meanwhile: unload the topic, so that it reads its list again"
        return [failed("taken", managed_ledger, text)]
    try:
        owners.unload(managed_ledger)
    except LedgerfsError as error:
        text = f"{managed_ledger} was taken by a broker meanwhile, and could not be unloaded: {error}"
        return [failed("not-unloaded", managed_ledger, text, error)]
    return []
