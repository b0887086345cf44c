"""The ids of ledgers in the new cluster: BookKeeper's next ones are beyond all that was there before, by one node, and below 2³⁵.

BookKeeper counts sequential nodes below ``/ledgers/idgen`` for ids of 31 bits. Once there is a folder ``HOB-n`` below
``/ledgers/idgen-long``, it counts in the greatest of these instead, and ids are ``n · 2³² + count``. Both generators, BookKeeper's own
(``LongZkLedgerIdGenerator``) and Pulsar's (``PulsarLedgerIdGenerator``), read that whenever they make an id. So one node advances the ids
of a cluster in use. A count has 31 bits, so no generator ever gives an id of the upper half of a block: recoveries use these.
"""

from collections.abc import Iterable

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import BLOCK_BITS
from ledgerfs_cluster.recovery.lost.dumped_cluster import DumpedCluster
from ledgerfs_cluster.recovery.topics.new_cluster import END_OF_IDS, Found
from ledgerfs_cluster.snapshot.next_ids import newest_block
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode
from ledgerfs_cluster.zookeeper.nodes import NodeReader

_LAST_BLOCK = (END_OF_IDS >> BLOCK_BITS) - 1
_ROOM = 1 << 24
"""Ids that have to be left in a block for ledgers that recoveries make."""


class FreeIds:
    """Ids that no generator gives, before all that the new cluster gives; for one thread.

    Parameters
    ----------
    block
        The cluster's.
    used
        Ids that have ledgers, or are to have some.

    """

    __slots__ = ("_end", "_next")

    def __init__(self, block: int, used: Iterable[int] = ()) -> None:
        self._end = block << BLOCK_BITS
        first = self._end - (1 << (BLOCK_BITS - 1))
        self._next = max((one + 1 for one in used if first <= one < self._end), default=first)

    @property
    def last(self) -> int:
        """The last one before all ids of the cluster: no ledger has it, ever."""
        return self._end - 1

    def take(self, count: int = 1) -> int:
        """Return the first of some that follow each other; raises `UnsupportedWriteError` where there are no more."""
        first = self._next
        if first + count > self.last:
            raise UnsupportedWriteError("more ledgers than there are ids for", key=f"id {first}")
        self._next = first + count
        return first


def advance_ids(
    lock: ClusterLock, catalog: Catalog, dump: DumpedCluster | None, found: Found, ledgers_path: str = "/ledgers"
) -> FreeIds:
    """Have BookKeeper give ids in the block of `block_beyond`, and return ids before it.

    Raises as `block_beyond`, and the errors of `ClusterLock.commit`.
    """
    nodes = lock.newest()
    block = block_beyond(nodes, catalog, dump, found, ledgers_path)
    if block > newest_block(nodes, ledgers_path):
        lock.commit([MakeNode(f"{ledgers_path}/idgen-long/HOB-{block:010d}", b"")])
    return FreeIds(block, (*(ledger_id for ledger_id, _ in _ledgers_in(catalog)), *found.noted))


def block_beyond(
    nodes: NodeReader, catalog: Catalog, dump: DumpedCluster | None, found: Found, ledgers_path: str = "/ledgers"
) -> int:
    """Return the number of the block for the cluster's next ids: the one that it has, unless other clusters' ledgers are there or beyond.

    Raises `UnsupportedWriteError` where there is none below 2³⁵, and the errors of ZooKeeper.
    """
    now = newest_block(nodes, ledgers_path)
    others = [ledger_id for ledger_id, _ in _ledgers_in(catalog) - found.named]
    others += [one.ledger_id for info in (dump.lists.values() if dump else ()) for one in info.ledgers]
    greatest = max((one for one in others if one < END_OF_IDS), default=0)
    block = max(now, ((greatest + _ROOM) >> BLOCK_BITS) + 1)
    if block > _LAST_BLOCK:
        behind = f"ledger {greatest}" if block > now else f"{now} · 2^32, where the cluster is,"
        reason = (
            f"BookKeeper's ids behind {behind} would be 2^35 or more, with which Pulsar's functions lose count of messages; ids last for "
            "seven recoveries of one bucket. Restore from a copy of the bucket without ledgers of that block of ids"
        )
        raise UnsupportedWriteError(reason, key=f"{ledgers_path}/idgen-long")
    return block


def _ledgers_in(catalog: Catalog) -> set[tuple[int, int]]:
    """Return id and first half of the uuid of all that a bucket has of ledgers, also of those that lost an object."""
    columns = ("ledger_id", "uuid_high")
    tables = (catalog.ledgers, catalog.lost, catalog.gaps)
    return {pair for table in tables for pair in zip(*(table[one].tolist() for one in columns), strict=True)}
