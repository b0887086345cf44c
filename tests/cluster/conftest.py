"""Fixtures of the tests of clusters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.support.live_clusters import LiveCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    """A living cluster of ours whose metadata may be changed, without topics."""
    with LiveCluster(tmp_path) as made:
        made.zookeeper.takes_writes = True
        yield made
