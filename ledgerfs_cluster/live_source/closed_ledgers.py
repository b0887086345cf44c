"""Read whole closed ledgers from BookKeeper, to copy them elsewhere."""

from collections.abc import Callable, Iterator

from ledgerfs.errors import CorruptLedgerError, RefusedLedgerError
from ledgerfs.formats.records import EntryBatch
from ledgerfs_cluster.live_source.access import ClusterAccess, StoredLedger
from ledgerfs_cluster.live_source.hot_ledger import HotLedger
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

__all__ = ["ClosedLedgers", "StoredLedger"]


class ClosedLedgers:
    """The closed ledgers of one live cluster. Thread-safe, also after a fork; only reads, without fencing.

    Reads that wait for the bookies' rate raise `StoppedError` once ``is_stopping`` returns True.
    """

    __slots__ = ("_access",)

    def __init__(self, cluster: LivingCluster, is_stopping: Callable[[], bool] | None = None) -> None:
        self._access = ClusterAccess(cluster, is_stopping=is_stopping)

    @property
    def ledgers_path(self) -> str:
        """BookKeeper's root path."""
        return self._access.reading.ledgers_path

    def path_of(self, ledger_id: int) -> str:
        """Return the path of a ledger's node."""
        return self._access.path_of(ledger_id)

    def found(self, ledger_id: int) -> StoredLedger:
        """Return a ledger's current metadata, closed or not; raises as `ClusterAccess.stored`."""
        return self._access.stored(ledger_id)

    def require_last_entry(self, ledger: StoredLedger) -> None:
        """Read the last entry of a closed ledger, if it has any: its node may exist although bookies collected its entries.

        Raises `CorruptLedgerError` if no bookie has it undamaged, `StoreUnreachableError`, and the errors of ZooKeeper.
        """
        node = ledger.node
        if node.last_entry < 0:
            return
        hot = HotLedger(self._access, node.ledger_id, max(1, node.length // (node.last_entry + 1)))
        if not sum(map(len, hot.batches(node.last_entry, node.last_entry))):
            raise CorruptLedgerError(f"no bookie returns entry {node.last_entry}", key=self.path_of(node.ledger_id))

    def batches(self, ledger: StoredLedger) -> Iterator[EntryBatch]:
        """Yield all entries of a closed ledger, with verified digests, and compare their totals with its metadata.

        Raises `RefusedLedgerError` for a ledger that is not closed, `CorruptLedgerError` for entries without a sound copy on bookies and
        for bytes that do not add up to the ledger's length, `ObjectNotFoundError` if it is deleted meanwhile, `StoreUnreachableError`.
        """
        node = ledger.node
        if not node.is_closed:
            raise RefusedLedgerError("the ledger is not closed yet", key=self.path_of(node.ledger_id))
        entries = length = 0
        hot = HotLedger(self._access, node.ledger_id, max(1, node.length // max(1, node.last_entry + 1)))
        for batch in hot.batches(0, node.last_entry):
            entries += len(batch)
            length += int(batch.lengths.sum())
            yield batch
        if (entries, length) != (node.last_entry + 1, node.length):
            reason = (
                f"its bookies returned {entries:,} entries with {length:,} bytes, but its metadata has {node.last_entry + 1:,} "
                f"with {node.length:,}"
            )
            raise CorruptLedgerError(reason, key=self.path_of(node.ledger_id))
