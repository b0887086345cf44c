"""A cluster in which something is marked."""

from collections.abc import Iterator

import pytest

from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.marked import Marked


@pytest.fixture
def marked(cluster: LiveCluster) -> Iterator[Marked]:
    made = Marked(cluster)
    yield made
    made.close()
