"""A cluster of ours for each test, which no test may change by reading it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.dialects.live_cluster.bookies.pool import BookiePool, shared_pool
from tests.support.live_clusters import LiveCluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        yield made
        assert made.not_reads() == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits before it tries again hardly waits."""
    monkeypatch.setattr("ledgerfs.dialects.live_cluster.hot_ledger._PAUSE_S", 0.01)
    monkeypatch.setattr("ledgerfs.dialects.live_cluster.reader._PAUSES_S", (0.01, 0.02))
    monkeypatch.setattr("ledgerfs.dialects.live_cluster.bookies.asking._PAUSES_S", (0.01, 0.02, 0.03))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bookies, though not ZooKeeper, are given up after a tenth of a second."""

    def pool(timeout_s: float, rate: float | None) -> BookiePool:
        return shared_pool(0.1, rate)

    monkeypatch.setattr("ledgerfs.dialects.live_cluster.access.shared_pool", pool)
