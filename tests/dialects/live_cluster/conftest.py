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
    """Bookies, though not ZooKeeper, are given up after less than a second."""
    _give_up_after(0.4, monkeypatch)


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same after a time in which one that is alive answers on a busy machine, too."""
    _give_up_after(2, monkeypatch)


def _give_up_after(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def pool(timeout_s: float, rate: float | None) -> BookiePool:
        return shared_pool(seconds, rate)

    monkeypatch.setattr("ledgerfs.dialects.live_cluster.access.shared_pool", pool)
