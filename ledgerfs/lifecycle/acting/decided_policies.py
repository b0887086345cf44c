"""Whether policies are still those by which deletions were decided, which may be hours ago: asked right before each of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ledgerfs.clusters.answers import BookieReads
from ledgerfs.clusters.policies_now import SetPolicies, policies_now
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs.storage.zookeeper.changes import ClusterLock
from ledgerfs.storage.zookeeper.node import Node

WhyNot = Callable[[], str | None]
"""Returns why what was decided is not to be done any more; None if it is."""


def nothing_against_it() -> None:
    """Return that what was decided holds: for what no policy decides."""


@dataclass(frozen=True, slots=True)
class DecidedPolicies:
    """Reads policies of topics anew, and compares them.

    Attributes
    ----------
    lock
        Reads nodes as they are now, whichever server is behind.
    bookies
        Have the policies of single topics; None if none are asked, and these are not known.

    """

    lock: ClusterLock
    bookies: BookieReads | None
    ledgers_path: str

    def why_changed(self, managed_ledger: str, seen: Mapping[str, SetPolicies]) -> str | None:
        """Return which policies of a topic are others than those that were ``seen``; None if none are.

        What could not be read, then or now, is another one, unless it was so both times: then nothing was decided by it. Raises
        `CorruptMetadataError`, and the errors of ZooKeeper.
        """
        now = policies_now(_NodesNow(self.lock), managed_ledger, self.bookies, self.ledgers_path)
        before = seen.get(managed_ledger, SetPolicies(None, None))
        if now.of_namespace is None or now.of_namespace != before.of_namespace:
            return "the policies of its namespace have changed since it was decided"
        if now.of_topic is None and before.of_topic is not None:
            return "the policies of single topics of its namespace cannot be read now"
        if now.of_topic != before.of_topic:
            return "the topic's own policies have changed since it was decided"
        return None


class _NodesNow:
    """`ledgerfs.clusters.questions.ManyNodes` as they are after all that was committed before."""

    __slots__ = ("_lock",)

    def __init__(self, lock: ClusterLock) -> None:
        self._lock = lock

    def get_many(self, paths: Iterable[str]) -> Iterator[Node | LedgerfsError]:
        """Yield each node; raises as `ClusterLock.node`."""
        for path in paths:
            node = self._lock.node(path)
            yield ObjectNotFoundError("there is no such node", key=path) if node is None else node
