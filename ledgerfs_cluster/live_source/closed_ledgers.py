"""Closed ledgers of BookKeeper, whole, for those who copy them elsewhere.

Here so that rooms that know no layout can ask.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ledgerfs.errors import CorruptLedgerError, RefusedLedgerError
from ledgerfs.formats.record_header import records_size
from ledgerfs.formats.records import EntryBatch
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_path, parse_ledger_node
from ledgerfs_cluster.live_source.access import ClusterAccess
from ledgerfs_cluster.live_source.hot_ledger import HotLedger
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger as BookKeeper's metadata has it now.

    Attributes
    ----------
    node
        With the time at which its node was made as its creation, where it tells none: brokers take that, too.
    version
        Of its node; deleting the ledger takes it.
    made_ms
        When its node was made, ms since 1970 UTC by ZooKeeper's clock.

    """

    node: LedgerNode
    version: int
    made_ms: int

    @property
    def records_size(self) -> int:
        """Bytes of all entries with their record headers."""
        return records_size(self.node.length, self.node.last_entry)


class ClosedLedgers:
    """The closed ledgers of one living cluster. Safe in threads and after a fork; reads only, and fences nothing.

    Reads that wait for the rate of bookies raise `StoppedError` once ``is_stopping`` returns True.
    """

    __slots__ = ("_access",)

    def __init__(self, cluster: LivingCluster, is_stopping: Callable[[], bool] | None = None) -> None:
        self._access = ClusterAccess(cluster, is_stopping=is_stopping)

    @property
    def ledgers_path(self) -> str:
        """Where BookKeeper has its metadata."""
        return self._access.reading.ledgers_path

    def path_of(self, ledger_id: int) -> str:
        """Return where the node of a ledger is."""
        return ledger_path(ledger_id, self.ledgers_path)

    def found(self, ledger_id: int) -> StoredLedger:
        """Return a ledger, closed or not, as it is now.

        Raises `ObjectNotFoundError` for one that is deleted, `CorruptMetadataError`, and the errors of ZooKeeper.
        """
        path = self.path_of(ledger_id)
        node = self._access.cluster.nodes.get(path)
        ledger = parse_ledger_node(node.data, ledger_id, key=path)
        made = ledger if ledger.created_ms is not None else replace(ledger, created_ms=node.created_ms)
        return StoredLedger(made, node.version, node.created_ms)

    def require_last_entry(self, ledger: StoredLedger) -> None:
        """Have a bookie give the last entry of a closed ledger, if it has any: its node may be there, and its entries be collected.

        Raises `CorruptLedgerError` if no bookie has it undamaged, `StoreUnreachableError`, and the errors of ZooKeeper.
        """
        node = ledger.node
        if node.last_entry < 0:
            return
        hot = HotLedger(self._access, node.ledger_id, max(1, node.length // (node.last_entry + 1)))
        if not sum(map(len, hot.batches(node.last_entry, node.last_entry))):
            raise CorruptLedgerError(f"no bookie gives entry {node.last_entry}", key=self.path_of(node.ledger_id))

    def batches(self, ledger: StoredLedger) -> Iterator[EntryBatch]:
        """Yield all entries of a closed ledger, each with its digest verified, and compare them with its metadata.

        Raises `RefusedLedgerError` for a ledger that is not closed, `CorruptLedgerError` for entries that no bookie has undamaged and for
        bytes that do not add up to the ledger's length, `ObjectNotFoundError` if it is deleted meanwhile, `StoreUnreachableError`.
        """
        node = ledger.node
        if not node.is_closed:
            raise RefusedLedgerError("the ledger is still written", key=self.path_of(node.ledger_id))
        entries = length = 0
        hot = HotLedger(self._access, node.ledger_id, max(1, node.length // max(1, node.last_entry + 1)))
        for batch in hot.batches(0, node.last_entry):
            entries += len(batch)
            length += int(batch.lengths.sum())
            yield batch
        if (entries, length) != (node.last_entry + 1, node.length):
            reason = (
                f"its bookies gave {entries:,} entries of {length:,} bytes, its metadata tells {node.last_entry + 1:,} "
                f"of {node.length:,}"
            )
            raise CorruptLedgerError(reason, key=self.path_of(node.ledger_id))
