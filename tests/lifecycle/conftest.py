"""What all tests of the lifecycle share."""

import pytest


@pytest.fixture(autouse=True)
def _locks_are_free_once_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `ClusterLock.release` wait until ZooKeeper has ended the session, on a busy machine, too: then the lock is free."""
    monkeypatch.setattr("ledgerfs.storage.zookeeper.changes._END_S", 300.0)
