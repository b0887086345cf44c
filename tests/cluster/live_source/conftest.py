"""A cluster of ours for each test, which no test may change by reading it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerfs_cluster.zookeeper import filesystem
from ledgerfs_cluster.zookeeper.living_cluster import LiveReading
from tests.cluster.support.live_clusters import LiveCluster
from tests.cluster.support.patience import Patience, patience_with_bookies


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        yield made
        assert made.not_reads() == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits before it tries again hardly waits."""
    monkeypatch.setattr("ledgerfs_cluster.live_source.hot_ledger._PAUSE_S", 0.01)
    monkeypatch.setattr("ledgerfs_cluster.live_source.reader._PAUSES_S", (0.01, 0.02))
    monkeypatch.setattr("ledgerfs_cluster.bookies.asking._PAUSES_S", (0.01, 0.02, 0.03))


@pytest.fixture(autouse=True, scope="module")
def _no_server_is_given_up_soon() -> Iterator[None]:
    """Wait for minutes for ZooKeeper and bookies, which are threads of this process, also where options or commands say less."""

    def patient(read_from: str, open_end: str, ledgers_path: str, timeout_s: float, *others: Any) -> LiveReading:
        return LiveReading(read_from, open_end, ledgers_path, max(timeout_s, 300.0), *others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(filesystem, "LiveReading", patient)
        yield


@pytest.fixture(autouse=True)
def patience() -> Iterator[Patience]:
    with patience_with_bookies() as made:
        yield made
