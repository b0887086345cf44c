"""A cluster of ours, as a process of its own sees it."""

from collections.abc import Iterator
from contextlib import contextmanager

from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster
from tests.support.live_clusters import LiveCluster


@contextmanager
def living(cluster: LiveCluster) -> Iterator[LivingCluster]:
    """Lend it, with a connection of its own."""
    made = ClusterFileSystem(timeout_s=5.0, skip_instance_cache=True).cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        yield made
    finally:
        made.nodes.close()
