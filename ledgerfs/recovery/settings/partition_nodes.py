"""How many partitions a topic has, in the new cluster's ZooKeeper: set once all of its partitions are there."""

import json
from collections.abc import Collection, Mapping

from ledgerfs.clusters.answered_nodes import answered
from ledgerfs.clusters.partitioned_topics import parse_partitions, partitioned_path
from ledgerfs.errors import ChangedMeanwhileError, CorruptMetadataError
from ledgerfs.storage.zookeeper.changes import ClusterLock, MakeNode
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.nodes import NodeReader


def set_partitions(lock: ClusterLock, counts: Mapping[str, int], there_before: Collection[str] = ()) -> dict[str, str]:
    """Set the counts of partitioned topics (managed ledgers without the number of a partition) that have none yet.

    Those that were there before may have got more partitions since. Return of those that have another one, or get one meanwhile, what is
    the matter, in words. Raises the errors of `ClusterLock.commit`.
    """
    told: dict[str, str] = {}
    there = dict(answered(lock.newest().get_many, map(partitioned_path, counts)))
    for name, count in counts.items():
        path = partitioned_path(name)
        found = there.get(path)
        if found is not None:
            if (other := _difference(found, count, may_grow=name in there_before)) is not None:
                told[name] = other
            continue
        try:
            lock.commit([MakeNode(path, json.dumps({"partitions": count}).encode())])
        except ChangedMeanwhileError as error:
            told[name] = f"somebody made it meanwhile: {error}"
    return told


def other_counts(nodes: NodeReader, counts: Mapping[str, int]) -> dict[str, str]:
    """Return of those that the cluster has with another count what is the matter, in words. Raises the errors of ZooKeeper."""
    names = {partitioned_path(name): name for name in counts}
    found = answered(nodes.get_many, names)
    told = {names[path]: _difference(node, counts[names[path]]) for path, node in found}
    return {name: why for name, why in told.items() if why is not None}


def _difference(node: Node, count: int, *, may_grow: bool = False) -> str | None:
    try:
        there = parse_partitions(node.data, key=node.path)
    except CorruptMetadataError as error:
        return f"the new cluster has it, and nobody knows with how many partitions: {error}"
    return (
        None
        if there == count or (may_grow and there > count)
        else f"the new cluster has it with {there} partitions, and it had {count}"
    )
