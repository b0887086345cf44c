"""What all readers of one living cluster share: its metadata, connections to its bookies, and the stores of its buckets."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from cachetools import LRUCache

from ledgerfs.catalog.catalog_rows import NO_UUID
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import ObjectNotFoundError, StaleObjectError
from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs.storage.traffic import Traffic
from ledgerfs_cluster.bookies.pool import BookiePool, shared_pool
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.live_source.topics import listed_topic
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading, LivingCluster

if TYPE_CHECKING:
    from ledgerfs_cluster.live_source.offloaded import OffloadedLedgers


_LISTS = 64
"""Ledger lists that are kept, each at most some thousand ledgers."""


class ClusterAccess:
    """A live cluster as its readers use it. Safe in threads and after a fork. All but `known_ledger` reads ZooKeeper at each call.

    ``expire`` has the cluster listed again when it is next used, ``is_stopping`` returns whether reads of bookies stop that wait for their
    rate; pickles have neither.
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
        self._offloaded: OffloadedLedgers | None = None
        self._lock = ForkLock()
        self._lists: LRUCache[str, dict[int, LedgerInfo]] = LRUCache(_LISTS)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.cluster,))

    @property
    def reading(self) -> LiveReading:
        """How its topics are to be read."""
        return self.cluster.reading

    @property
    def pool(self) -> BookiePool:
        """The connections to bookies that this process has."""
        return shared_pool(self.reading.timeout_s, self.reading.bookie_rate)

    @property
    def offloaded(self) -> "OffloadedLedgers":
        """The ledgers in its buckets."""
        if self._offloaded is None:
            # Stores of buckets, and the layout that reads them, are not needed for ledgers of bookies.
            from ledgerfs_cluster.live_source.offloaded import OffloadedLedgers

            self._offloaded = OffloadedLedgers(self.reading)
        return self._offloaded

    def path_of(self, ledger_id: int) -> str:
        """Return where the metadata of a ledger is."""
        return ledger_path(ledger_id, self.reading.ledgers_path)

    def ledger_node(self, ledger_id: int) -> LedgerNode:
        """Return BookKeeper's metadata of a ledger as it is now.

        Raises `ObjectNotFoundError` (deleted), `CorruptMetadataError`, and the errors of ZooKeeper.
        """
        path = self.path_of(ledger_id)
        node = self.cluster.nodes.get(path)
        ledger = parse_ledger_node(node.data, ledger_id, key=path)
        # Pulsar's ledgers do not say when they were made: brokers take the time of the node, too.
        return ledger if ledger.created_ms is not None else replace(ledger, created_ms=node.created_ms)

    def listed_ledger(self, managed_ledger: str, ledger_id: int) -> LedgerInfo:
        """Return how a topic lists one of its ledgers now; raises `StaleObjectError` if it does not any more, and as `listed_topic`."""
        try:
            found = listed_topic(self.cluster.nodes, managed_ledger).info.ledgers
        except ObjectNotFoundError:
            found = ()
        ledgers = {info.ledger_id: info for info in found}
        with self._lock:
            self._lists[managed_ledger] = ledgers
        if ledger_id in ledgers:
            return ledgers[ledger_id]
        reason = "the ledger was trimmed, or its topic deleted, since the cluster was listed"
        raise StaleObjectError(reason, key=self.path_of(ledger_id))

    def known_ledger(self, ref: LedgerRef) -> LedgerInfo | None:
        """Return how the topic listed a ledger when its list was last read here; None unless the catalog has the same copy of it.

        It may be out of date: only where a first read is tried may depend on it.
        """
        with self._lock:
            info = self._lists.get(ref.managed_ledger or "", {}).get(ref.ledger_id)
        uuid = None if info is None or info.context is None or not info.is_offloaded else info.context.uuid
        return info if (uuid or NO_UUID) == ref.uuid else None
