"""How many partitions a topic has, in the new cluster's ZooKeeper: set once all of its partitions are there."""

import json
from collections.abc import Mapping

from ledgerfs.clusters.answered_nodes import answered
from ledgerfs.clusters.policies_now import PARTITIONED
from ledgerfs.errors import ChangedMeanwhileError
from ledgerfs.storage.zookeeper.changes import ClusterLock, MakeNode
from ledgerfs.storage.zookeeper.node import Node


def set_partitions(lock: ClusterLock, counts: Mapping[str, int]) -> dict[str, str]:
    """Set the counts of partitioned topics (managed ledgers without the number of a partition) that have none yet.

    Return of those that have another one, or get one meanwhile, what is the matter, in words. Raises the errors of `ClusterLock.commit`.
    """
    told: dict[str, str] = {}
    there = dict(answered(lock.newest().get_many, (f"{PARTITIONED}/{name}" for name in counts)))
    for name, count in counts.items():
        path = f"{PARTITIONED}/{name}"
        found = there.get(path)
        if found is not None:
            if _count(found) != count:
                told[name] = f"the new cluster has it with {_count(found)} partitions, and it had {count}"
            continue
        try:
            lock.commit([MakeNode(path, json.dumps({"partitions": count}).encode())])
        except ChangedMeanwhileError as error:
            told[name] = f"somebody made it meanwhile: {error}"
    return told


def _count(node: Node) -> object:
    try:
        told = json.loads(node.data)
    except (ValueError, RecursionError):
        return None
    return told.get("partitions") if isinstance(told, dict) else None
