"""A clock of this machine that is set ahead, whenever that is, moves no time after ZooKeeper's."""

import time
from typing import TYPE_CHECKING, cast

import pytest

from ledgerfs_cluster.zookeeper.changes import LOCK_PATH
from ledgerfs_cluster.zookeeper.cluster_clock import ClusterClock
from ledgerfs_cluster.zookeeper.node import Node

if TYPE_CHECKING:
    from ledgerfs_cluster.zookeeper.changes import ClusterLock

BEGAN_MS = 1_700_000_000_000
DAYS_MS = 30 * 86_400_000


class _Times:
    """This machine's clocks, as a test sets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall_ms = BEGAN_MS
        self.monotonic_ms = 5000
        monkeypatch.setattr(time, "time_ns", lambda: self.wall_ms * 1_000_000)
        monkeypatch.setattr(time, "monotonic_ns", lambda: self.monotonic_ms * 1_000_000)

    def go_on(self, ms: int) -> None:
        self.wall_ms += ms
        self.monotonic_ms += ms


class _Locked:
    """A lock whose own node is read."""

    def __init__(self, made_ms: int) -> None:
        self.made_ms = made_ms

    def node(self, path: str) -> Node:
        assert path == LOCK_PATH
        return Node(path, b"", self.made_ms, self.made_ms, 0, 0)


@pytest.fixture(name="times")
def _times(monkeypatch: pytest.MonkeyPatch) -> _Times:
    return _Times(monkeypatch)


def clock_of(made_ms: int) -> ClusterClock:
    return ClusterClock(cast("ClusterLock", _Locked(made_ms)))


def test_a_clock_that_is_set_ahead_moves_nothing(times: _Times) -> None:
    clock = clock_of(BEGAN_MS)
    times.go_on(1000)
    times.wall_ms += DAYS_MS
    assert clock.now_ms() == BEGAN_MS + 1000


def test_a_clock_that_is_set_back_is_the_earlier_one(times: _Times) -> None:
    clock = clock_of(BEGAN_MS)
    times.wall_ms -= 500
    assert clock.now_ms() == BEGAN_MS - 500


def test_a_clock_that_is_ahead_from_the_start_is_not_gone_by(times: _Times) -> None:
    clock = clock_of(BEGAN_MS - DAYS_MS)
    times.go_on(1000)
    assert clock.now_ms() == BEGAN_MS - DAYS_MS + 1000


def test_what_a_server_writes_later_puts_the_time_back_only(times: _Times) -> None:
    clock = clock_of(BEGAN_MS)
    times.go_on(10_000)
    sent_ns = time.monotonic_ns()
    clock.compare(BEGAN_MS + DAYS_MS, sent_ns)
    assert clock.now_ms() == BEGAN_MS + 10_000
    times.go_on(3000)
    # Written as it was sent, and read three seconds later.
    clock.compare(BEGAN_MS + 10_000, sent_ns)
    assert clock.now_ms() == BEGAN_MS + 13_000
    clock.compare(BEGAN_MS + 8000, sent_ns)
    assert clock.now_ms() == BEGAN_MS + 8000


def test_what_is_noted_is_the_later_time(times: _Times) -> None:
    """A clock that is behind, and is set right meanwhile, makes no grace and no lag shorter; neither does a server's."""
    clock = clock_of(BEGAN_MS + DAYS_MS)
    assert (clock.now_ms(), clock.later_ms()) == (BEGAN_MS, BEGAN_MS + DAYS_MS)
    times.wall_ms += DAYS_MS + 3000
    assert (clock.now_ms(), clock.later_ms()) == (BEGAN_MS + DAYS_MS, BEGAN_MS + DAYS_MS + 3000)
