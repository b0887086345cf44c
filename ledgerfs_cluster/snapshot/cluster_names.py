"""What the clusters of an instance of Pulsar are called, as ZooKeeper has it."""

from ledgerfs.errors import ObjectNotFoundError
from ledgerfs_cluster.zookeeper.nodes import NodeReader

CLUSTERS = "/admin/clusters"
GLOBAL = "global"
"""Stands for them all."""


def cluster_names(nodes: NodeReader) -> list[str]:
    """Return the sorted names; of several, ZooKeeper does not tell which one it belongs to. Raises the errors of ZooKeeper."""
    try:
        return [name for name in nodes.children(CLUSTERS) if name != GLOBAL]
    except ObjectNotFoundError:
        return []


def only_cluster(nodes: NodeReader) -> str | None:
    """Return what the cluster is called, which its brokers write on objects; None where ZooKeeper has no name, or those of others, too."""
    names = cluster_names(nodes)
    return names[0] if len(names) == 1 else None
