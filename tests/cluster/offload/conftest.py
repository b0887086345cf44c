"""What all tests of offloads share."""

import math

import pytest


@pytest.fixture(autouse=True)
def _nothing_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have lists set once for all copies, on a slow machine, too."""
    monkeypatch.setattr("ledgerfs_cluster.offload.one_step.BETWEEN_SETS_S", math.inf)
