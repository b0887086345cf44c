"""State that all readers of one live cluster share: ledger lists, connections to bookies, and the stores of its buckets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from cachetools import LRUCache

from ledgerfs.catalog.catalog_rows import NO_UUID
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import (
    BucketNotFoundError,
    CorruptMetadataError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
)
from ledgerfs.forked import ForkLock
from ledgerfs.formats.record_header import records_size
from ledgerfs.storage.traffic import Traffic
from ledgerfs_cluster.bookies.pool import BookiePool, shared_pool
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, ManagedLedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT, managed_ledger_path
from ledgerfs_cluster.snapshot.managed_ledger_paths import list_of_ledgers, managed_ledger_paths
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading, LivingCluster
from ledgerfs_cluster.zookeeper.nodes import Nodes

if TYPE_CHECKING:
    from ledgerfs_cluster.live_source.offloaded_copies import OffloadedCopies


_LISTS = 64
"""Number of cached ledger lists, each of at most some thousand ledgers."""


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger in BookKeeper's current metadata.

    Attributes
    ----------
    node
        The ledger's metadata; its creation time is that of its ZooKeeper node if it has none, as in brokers.
    version
        Version of its node; deleting the ledger requires it.
    made_ms
        Creation of its node, ms since 1970 UTC by ZooKeeper's clock.

    """

    node: LedgerNode
    version: int
    made_ms: int

    @property
    def records_size(self) -> int:
        """Bytes of all entries with their record headers."""
        return records_size(self.node.length, self.node.last_entry)


class UnlistedTopic(NamedTuple):
    """A managed ledger whose list cannot be read, and the error."""

    name: str
    error: CorruptMetadataError


class ListedTopic(NamedTuple):
    """A managed ledger, its list, and the list's last change, ms since 1970 UTC."""

    name: str
    info: ManagedLedgerInfo
    changed_ms: int


def managed_ledger_names(nodes: Nodes) -> list[str]:
    """Return the names of all managed ledgers, such as ``tenant/namespace/persistent/topic``, without those deleted meanwhile.

    Raises `BucketNotFoundError` if their root node is missing, and the errors of ZooKeeper.
    """
    found = managed_ledger_paths(nodes)
    if not found:
        try:
            nodes.get(ROOT)
        except ObjectNotFoundError as error:
            reason = (
                "this ZooKeeper has no managed ledgers: it belongs to another cluster, "
                "or the path after the servers is missing (host:port/path)"
            )
            raise BucketNotFoundError(reason, key=ROOT) from error
    return sorted(path[len(ROOT) + 1 :] for path in found)


def listed_topics(
    nodes: Nodes, names: list[str], progress: Progress | None = None
) -> Iterator[ListedTopic | UnlistedTopic]:
    """Yield each managed ledger that still exists with its list, or the error of reading it; raises the errors of ZooKeeper."""
    asked = (managed_ledger_path(name) for name in names)
    for number, (name, node) in enumerate(zip(names, nodes.get_many(asked), strict=True), 1):
        if progress is not None and (number % 256 == 0 or number == len(names)):
            progress("reading ledger lists", number, len(names))
        if isinstance(node, ObjectNotFoundError):
            continue
        if isinstance(node, LedgerfsError):
            raise node
        try:
            yield ListedTopic(name, list_of_ledgers(node), node.changed_ms)
        except CorruptMetadataError as error:
            yield UnlistedTopic(name, error)


def listed_topic(nodes: Nodes, name: str) -> ListedTopic:
    """Return one managed ledger with its current list; raises `ObjectNotFoundError`, `CorruptMetadataError` and those of ZooKeeper."""
    node = nodes.get(managed_ledger_path(name))
    return ListedTopic(name, list_of_ledgers(node), node.changed_ms)


class ClusterAccess:
    """A live cluster as its readers use it. Thread-safe, also after a fork. All methods but `known_ledger` read ZooKeeper at each call.

    ``expire`` requests a new listing at the next use, ``is_stopping`` returns whether to stop reads that wait for the bookies' rate;
    pickles contain neither.
    """

    __slots__ = ("_lists", "_lock", "_offloaded", "cluster", "expire", "is_stopping", "traffic")

    def __init__(
        self,
        cluster: LivingCluster,
        expire: Callable[[], None] = lambda: None,
        is_stopping: Callable[[], bool] | None = None,
    ) -> None:
        self.cluster = cluster
        self.expire = expire
        self.is_stopping = is_stopping
        self.traffic = Traffic()
        self._offloaded: OffloadedCopies | None = None
        self._lock = ForkLock()
        self._lists: LRUCache[str, dict[int, LedgerInfo]] = LRUCache(_LISTS)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.cluster,))

    @property
    def reading(self) -> LiveReading:
        """Options for reading its topics."""
        return self.cluster.reading

    @property
    def pool(self) -> BookiePool:
        """Connections of this process to bookies."""
        return shared_pool(self.reading.timeout_s, self.reading.bookie_rate)

    @property
    def offloaded(self) -> "OffloadedCopies":
        """The ledgers in its buckets."""
        if self._offloaded is None:
            # Ledgers in BookKeeper do not need stores of buckets and the layout that reads them.
            from ledgerfs_cluster.live_source.offloaded_copies import OffloadedCopies

            self._offloaded = OffloadedCopies(self.reading)
        return self._offloaded

    def path_of(self, ledger_id: int) -> str:
        """Return the path of a ledger's metadata."""
        return ledger_path(ledger_id, self.reading.ledgers_path)

    def stored(self, ledger_id: int) -> StoredLedger:
        """Return a ledger's current metadata; raises `ObjectNotFoundError` (deleted), `CorruptMetadataError`, and those of ZooKeeper."""
        path = self.path_of(ledger_id)
        node = self.cluster.nodes.get(path)
        ledger = parse_ledger_node(node.data, ledger_id, key=path)
        # Pulsar's ledgers do not contain their creation time: use that of the node, as brokers do.
        made = ledger if ledger.created_ms is not None else replace(ledger, created_ms=node.created_ms)
        return StoredLedger(made, node.version, node.created_ms)

    def listed_ledger(self, managed_ledger: str, ledger_id: int) -> LedgerInfo:
        """Return a topic's current record of a ledger; raises `StaleObjectError` if the topic no longer lists it, and as `listed_topic`."""
        try:
            found = listed_topic(self.cluster.nodes, managed_ledger).info.ledgers
        except ObjectNotFoundError:
            found = ()
        ledgers = {info.ledger_id: info for info in found}
        with self._lock:
            self._lists[managed_ledger] = ledgers
        if ledger_id in ledgers:
            return ledgers[ledger_id]
        reason = "the ledger was trimmed, or its topic was deleted, after the cluster was listed"
        raise StaleObjectError(reason, key=self.path_of(ledger_id))

    def known_ledger(self, ref: LedgerRef) -> LedgerInfo | None:
        """Return a topic's record of a ledger as last read here; None unless the catalog has the same copy of it.

        It may be outdated: use it only to choose the first place to try.
        """
        with self._lock:
            info = self._lists.get(ref.managed_ledger or "", {}).get(ref.ledger_id)
        uuid = None if info is None or info.context is None or not info.is_offloaded else info.context.uuid
        return info if (uuid or NO_UUID) == ref.uuid else None
