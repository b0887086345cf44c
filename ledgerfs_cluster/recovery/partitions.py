"""Numbers of partitions of restored topics, from the dump or from names; set in ZooKeeper after all partitions are restored."""

import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.topic_names import split_partition
from ledgerfs_cluster.errors import ChangedMeanwhileError
from ledgerfs_cluster.recovery.dumped_cluster import (
    DumpedCluster,
    DumpedSettings,
    is_partition,
    parse_partitions,
    partitioned_path,
)
from ledgerfs_cluster.recovery.report import TopicRecovery
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode
from ledgerfs_cluster.zookeeper.nodes import NodeReader

MOST_INFERRED = 10_000
"""Maximum number of partitions that is inferred from a name alone: clients open each, and producers can choose any name."""


def counts_in_new_cluster(plans: Iterable[TopicRecovery], dump: DumpedCluster | None) -> dict[str, int]:
    """Return {partitioned topic in the new cluster, as a managed ledger without a partition number: its number of partitions}.

    A dump may be older than the last partitions, so every partition with a ledger counts. A number beyond `MOST_INFERRED` that is not in
    the dump creates no partitions: those topics are served by their own names. A damaged node counts as missing.
    """
    settings = DumpedSettings() if dump is None else dump.settings
    counts: dict[str, int] = {}
    for one in plans:
        if is_partition(one.source, dump):
            stem, number = split_partition(one.source)
            reported, count = _reported(stem, settings), int(number or 0) + 1
            if count <= max(MOST_INFERRED, reported):
                counts[one.whole] = max(counts.get(one.whole, 0), count, reported)
    return dict(sorted(counts.items()))


def _reported(stem: str, settings: DumpedSettings) -> int:
    with suppress(CorruptMetadataError):
        return settings.partitions(stem) or 0
    return 0


def set_partitions(lock: ClusterLock, counts: Mapping[str, int], there_before: Collection[str] = ()) -> dict[str, str]:
    """Set the partition counts of topics (managed ledgers without a partition number) that have none yet.

    Return as `other_counts`, including those that get one meanwhile. Raises the errors of `ClusterLock.commit`.
    """
    nodes = lock.newest()
    wrong = other_counts(nodes, counts, there_before)
    there = {path for path, _ in answered(nodes.get_many, map(partitioned_path, counts))}
    for name, count in counts.items():
        path = partitioned_path(name)
        if path not in there:
            try:
                lock.commit([MakeNode(path, json.dumps({"partitions": count}).encode())])
            except ChangedMeanwhileError as error:
                wrong[name] = f"another client created the partitioned topic at the same time: {error}"
    return wrong


def other_counts(nodes: NodeReader, counts: Mapping[str, int], there_before: Collection[str] = ()) -> dict[str, str]:
    """Return {topic: reason} of those with another count in the cluster. Raises the errors of ZooKeeper.

    Topics in ``there_before`` may have got more partitions since.
    """
    wrong: dict[str, str] = {}
    names = {partitioned_path(name): name for name in counts}
    for path, node in answered(nodes.get_many, names):
        name, count = names[path], counts[names[path]]
        try:
            there = parse_partitions(node.data, key=path)
        except CorruptMetadataError as error:
            wrong[name] = f"the new cluster already has the topic, but its number of partitions is unknown: {error}"
            continue
        if there < count or (there > count and name not in there_before):
            wrong[name] = (
                f"the new cluster already has the topic with {there} partitions, but the lost cluster had {count}"
            )
    return wrong
