"""A cluster of ours, as a process of its own sees it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np

from ledgerfs_cluster.live_source.newest_entries import NewestEntries
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.surveying import Dumped, Progress, dump_cluster, survey_cluster
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from tests.cluster.support.live_clusters import LiveCluster

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


def dumped(cluster: LiveCluster, path: Path, progress: Progress = lambda *_: None, *, bookies: bool = True) -> Dumped:
    """Dump it into a file."""
    with living(cluster) as one:
        return dump_cluster(one, NewestEntries(one.reading) if bookies else None, path, progress)


def same(one: Survey, other: Survey) -> None:
    """Require that two surveys are of the same cluster at the same time."""
    for field in fields(Survey):
        if field.name in {"source", "read_ms", "began_ms"}:
            continue
        value, expected = getattr(one, field.name), getattr(other, field.name)
        if isinstance(value, np.ndarray):
            assert value.tolist() == expected.tolist(), field.name
        else:
            assert value == expected, field.name
