"""Advance the ids that the new cluster generates, for ledgers and transactions, beyond all ids of lost clusters.

BookKeeper counts sequential nodes below ``/ledgers/idgen`` for ids of 31 bits. Once there is a folder ``HOB-n`` below
``/ledgers/idgen-long``, it counts in the greatest of these instead, and ids are ``n · 2³² + count``. Both generators, BookKeeper's own
(``LongZkLedgerIdGenerator``) and Pulsar's (``PulsarLedgerIdGenerator``), read that for each new id. So one node advances the ids
of a cluster in use. A count has 31 bits, so no generator ever returns an id in the upper half of a block: recoveries use these.

Brokers hide messages by transaction id, so no id may be used twice. A coordinator without a log continues after the number in a
property of the log's node (``MLTransactionSequenceIdGenerator`` in Pulsar). Brokers create these nodes when the first
client with transactions connects, and keep the property up to date.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs_cluster.errors import ChangedMeanwhileError
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import BLOCK_BITS
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    ManagedLedgerInfo,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import coordinator_log_path
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster, parse_partitions, partitioned_path
from ledgerfs_cluster.recovery.new_cluster import END_OF_IDS, Found
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.next_ids import newest_block
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode
from ledgerfs_cluster.zookeeper.nodes import NodeReader

_LAST_BLOCK = (END_OF_IDS >> BLOCK_BITS) - 1
_ROOM = 1 << 24
"""Ids that must be left in a block for ledgers that recoveries create."""
_ASSIGNED = partitioned_path("pulsar/system/persistent/transaction_coordinator_assign")
_USUAL_COORDINATORS = 16
_MOST_COORDINATORS = 1024
"""Maximum number of coordinators: an id has no room for more."""
_GREATEST = "max_local_txn_id"


class FreeIds:
    """Ids that no generator returns: the upper half of the block before the new cluster's, after those in ``used``; for one thread."""

    __slots__ = ("_next", "last")

    def __init__(self, block: int, used: Iterable[int] = ()) -> None:
        # The last id before the cluster's own; no ledger ever has it.
        self.last = (block << BLOCK_BITS) - 1
        first = self.last + 1 - (1 << (BLOCK_BITS - 1))
        self._next = max((one + 1 for one in used if first <= one <= self.last), default=first)

    def take(self, count: int = 1) -> int:
        """Return the first of ``count`` consecutive ids; raises `UnsupportedWriteError` if there are not enough."""
        first = self._next
        if first + count > self.last:
            raise UnsupportedWriteError("not enough free ledger ids are left from this id on", key=f"id {first}")
        self._next = first + count
        return first


def advance_ids(
    lock: ClusterLock, catalog: Catalog, dump: DumpedCluster | None, found: Found, ledgers_path: str = "/ledgers"
) -> FreeIds:
    """Advance BookKeeper to the block of `block_beyond`, and return free ids before it.

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
    """Return the block for the cluster's next ids: the current one, or a later one beyond ledgers of other clusters.

    Raises `UnsupportedWriteError` if there is none below 2³⁵, and the errors of ZooKeeper.
    """
    now = newest_block(nodes, ledgers_path)
    others = [ledger_id for ledger_id, _ in _ledgers_in(catalog) - found.named]
    others += [one.ledger_id for info in (dump.lists.values() if dump else ()) for one in info.ledgers]
    greatest = max((one for one in others if one < END_OF_IDS), default=0)
    block = max(now, ((greatest + _ROOM) >> BLOCK_BITS) + 1)
    if block > _LAST_BLOCK:
        after = f"ledger {greatest}" if block > now else f"{now} · 2^32, where the cluster is,"
        reason = (
            f"BookKeeper's next ledger ids after {after} would be 2^35 or more, but Pulsar Functions support only smaller ids; one "
            "bucket has ids for seven recoveries. Restore from a copy of the bucket without ledgers of the highest ids"
        )
        raise UnsupportedWriteError(reason, key=f"{ledgers_path}/idgen-long")
    return block


def _ledgers_in(catalog: Catalog) -> set[tuple[int, int]]:
    """Return (id, first half of the uuid) of all ledgers in a bucket, also of incomplete ones."""
    columns = ("ledger_id", "uuid_high")
    tables = (catalog.ledgers, catalog.lost, catalog.gaps)
    return {pair for table in tables for pair in zip(*(table[one].tolist() for one in columns), strict=True)}


def advance_transactions(lock: ClusterLock) -> None:
    """Start coordinators without a log at the present time, in µs; raises the errors of `ClusterLock.commit`.

    No cluster counts a transaction each microsecond, so these numbers are beyond those of any former cluster, including those that were
    restored this way.
    """
    nodes = dict(answered(lock.newest().get_many, [_ASSIGNED]))
    count = parse_partitions(nodes[_ASSIGNED].data, key=_ASSIGNED) if _ASSIGNED in nodes else _USUAL_COORDINATORS
    _given(lock, range(count or _USUAL_COORDINATORS))


def coordinators_behind(lock: ClusterLock, greatest: Mapping[int, int]) -> dict[int, int]:
    """Return {coordinator: last number that it surely does not reuse}, if that is below ``greatest``.

    Raises `CorruptMetadataError` for an unreadable node of a log, and the errors of `ClusterLock.commit`.
    """
    given = _given(lock, (number for number in greatest if 0 <= number < _MOST_COORDINATORS))
    return {number: least for number, least in given.items() if least < greatest[number]}


def _given(lock: ClusterLock, numbers: Iterable[int]) -> dict[int, int]:
    """Create missing log nodes; return {coordinator: last number that it does not reuse}, -1 if unknown."""
    paths = {coordinator_log_path(number): number for number in numbers}
    value = str(time.time_ns() // 1000)
    made = build_managed_ledger_info(ManagedLedgerInfo((), None, ((_GREATEST, value),)))
    while True:
        there = dict(answered(lock.newest().get_many, paths))
        missing = [path for path in paths if path not in there]
        if not missing:
            return {paths[path]: _greatest_in(node.data, path) for path, node in there.items()}
        # A broker may create some at this moment.
        with suppress(ChangedMeanwhileError):
            lock.commit([MakeNode(path, made) for path in missing])


def _greatest_in(data: bytes, path: str) -> int:
    properties = dict(parse_managed_ledger_info(data, key=path).properties) if data else {}
    value = properties.get(_GREATEST, "")
    return int(value) if value.isascii() and value.isdecimal() else -1
