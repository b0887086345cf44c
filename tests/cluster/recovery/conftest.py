"""A lost cluster and a new one for each test; modules write into the first what they need."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.recovery.lost import Clusters, two_clusters


@pytest.fixture(name="clusters")
def _clusters(tmp_path: Path) -> Iterator[Clusters]:
    with two_clusters(tmp_path) as made:
        yield made
