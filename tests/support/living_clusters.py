"""A cluster of ours, as a process of its own sees it."""

from collections.abc import Iterator
from contextlib import contextmanager

from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.surveying import survey_cluster
from ledgerfs.dialects.newest_entries import NewestEntries
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster
from tests.support.live_clusters import LiveCluster

PATIENCE_S = 180.0
"""How long a server may take to answer: on a busy machine its thread may not run for long. Nobody waits for one that is gone."""


@contextmanager
def living(cluster: LiveCluster) -> Iterator[LivingCluster]:
    """Lend it, with a connection of its own."""
    made = ClusterFileSystem(skip_instance_cache=True).cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        yield made
    finally:
        made.nodes.close()


def surveyed(cluster: LiveCluster, *, bookies: bool = True) -> Survey:
    """Survey it, which changes nothing in it."""
    before = cluster.nodes
    with living(cluster) as one:
        found = survey_cluster(one, NewestEntries(one.reading) if bookies else None, lambda *_: None)
    assert cluster.nodes == before
    return found
