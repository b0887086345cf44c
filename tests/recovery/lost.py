"""A lost cluster and a new one, of ours: what a dump and a bucket have of the first, and how topics are restored into the second."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledgerfs import open_bucket
from ledgerfs.clusters.dump_file import read_dump
from ledgerfs.clusters.dumping import dump_cluster
from ledgerfs.dialects.newest_entries import NewestEntries
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.recovery.lost.dumped_cluster import DumpedCluster, read_dumped
from ledgerfs.storage.zookeeper.changes import ClusterLock
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from ledgerfs.storage.zookeeper.nodes import Nodes
from tests.support.live_clusters import LiveCluster


def dump_of(cluster: LiveCluster, path: Path) -> DumpedCluster:
    """Return what a dump of a cluster has, which is written to ``path``."""
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        dump_cluster(living, NewestEntries(living.reading), path, lambda *_: None)
    finally:
        living.nodes.close()
    return read_dumped(lambda: read_dump(path))


def catalog_of(cluster: LiveCluster) -> Catalog:
    """Return the catalog of its bucket, as it is now."""
    return open_bucket(cluster.bucket_url()).refresh()


@contextmanager
def locked(cluster: LiveCluster) -> Iterator[tuple[ClusterLock, Nodes]]:
    """Take the lock of a cluster."""
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        with ClusterLock.take(living.nodes.settings, b"{}") as lock:
            yield lock, living.nodes
    finally:
        living.nodes.close()
