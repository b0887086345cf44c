"""What all tests of offloads share."""

import math

import pytest


@pytest.fixture(autouse=True)
def _nothing_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have locks free once they are released, and lists set once for all copies, on a slow machine, too."""
    monkeypatch.setattr("ledgerfs.storage.zookeeper.changes._END_S", 300.0)
    monkeypatch.setattr("ledgerfs.offload.one_step.BETWEEN_SETS_S", math.inf)
