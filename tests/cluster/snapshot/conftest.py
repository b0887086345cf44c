"""A cluster of ours for each test, which no test may change by reading it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.support.live_clusters import LiveCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path / "cluster") as made:
        yield made
        assert made.not_reads() == []
