"""The new cluster's coordinators of transactions: they begin beyond all numbers that the lost cluster's gave.

Brokers hide messages by the ids of transactions, so that no id may be given twice. A coordinator that has no log yet goes on behind the
number that a property of the log's node has (``MLTransactionSequenceIdGenerator`` in Pulsar). Brokers make these nodes when the first
client with transactions connects, and keep the property up to date.
"""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ledgerfs_cluster.errors import ChangedMeanwhileError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    ManagedLedgerInfo,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import coordinator_log_path
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.partitioned_topics import parse_partitions, partitioned_path
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode

_ASSIGNED = partitioned_path("pulsar/system/persistent/transaction_coordinator_assign")
_USUAL_COORDINATORS = 16
_MOST_COORDINATORS = 1024
"""No cluster has more: a greater number in an id is none that a coordinator gives."""
_GREATEST = "max_local_txn_id"


def advance_transactions(lock: ClusterLock) -> None:
    """Have all coordinators that have given no number yet begin at the present time; raises the errors of `ClusterLock.commit`.

    No cluster counts a transaction each microsecond, so that the numbers are beyond those of any former cluster, those that were restored
    this way included.
    """
    nodes = dict(answered(lock.newest().get_many, [_ASSIGNED]))
    count = parse_partitions(nodes[_ASSIGNED].data, key=_ASSIGNED) if _ASSIGNED in nodes else _USUAL_COORDINATORS
    _given(lock, range(count or _USUAL_COORDINATORS))


def coordinators_behind(lock: ClusterLock, greatest: Mapping[int, int]) -> dict[int, int]:
    """Return {coordinator: a number up to which it gives none again}, of those that may still give numbers up to ``greatest``.

    Raises `CorruptMetadataError` for a log's node that cannot be read, and the errors of `ClusterLock.commit`.
    """
    given = _given(lock, (number for number in greatest if 0 <= number < _MOST_COORDINATORS))
    return {number: least for number, least in given.items() if least < greatest[number]}


def _given(lock: ClusterLock, numbers: Iterable[int]) -> dict[int, int]:
    """Return {coordinator: a number up to which it gives none}, -1 for an unknown one, after those without a log have got a node."""
    paths = {coordinator_log_path(number): number for number in numbers}
    there = dict(answered(lock.newest().get_many, paths))
    value = str(time.time_ns() // 1000)
    made = build_managed_ledger_info(ManagedLedgerInfo((), None, ((_GREATEST, value),)))
    while missing := [path for path in paths if path not in there]:
        # A broker may make some at this moment.
        with suppress(ChangedMeanwhileError):
            lock.commit([MakeNode(path, made) for path in missing])
        there = dict(answered(lock.newest().get_many, paths))
    return {paths[path]: _greatest_in(node.data, path) for path, node in there.items()}


def _greatest_in(data: bytes, path: str) -> int:
    properties = dict(parse_managed_ledger_info(data, key=path).properties) if data else {}
    value = properties.get(_GREATEST, "")
    return int(value) if value.isascii() and value.isdecimal() else -1
