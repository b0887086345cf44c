"""Names of the clusters of a Pulsar instance in ZooKeeper."""

from ledgerfs.errors import ObjectNotFoundError
from ledgerfs_cluster.zookeeper.nodes import NodeReader

CLUSTERS = "/admin/clusters"
GLOBAL = "global"
"""Stands for all clusters."""


def cluster_names(nodes: NodeReader) -> list[str]:
    """Return the sorted names; with several, ZooKeeper does not contain which one is its own. Raises the errors of ZooKeeper."""
    try:
        return [name for name in nodes.children(CLUSTERS) if name != GLOBAL]
    except ObjectNotFoundError:
        return []


def only_cluster(nodes: NodeReader) -> str | None:
    """Return the cluster's name, which its brokers write to objects; None unless ZooKeeper has exactly one."""
    names = cluster_names(nodes)
    return names[0] if len(names) == 1 else None
