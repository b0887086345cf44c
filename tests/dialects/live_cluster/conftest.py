"""A cluster of ours for each test, which no test may change by reading it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

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
