"""Turns at a rate: in order, and in time."""

import threading
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs_cluster.token_bucket import Bandwidth


class Clock:
    """A time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def bandwidth(clock: Clock, rate: float | None) -> Bandwidth:
    return Bandwidth(rate, clock, clock.sleep)


@given(
    st.floats(1, 1000),
    st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 300)), min_size=1, max_size=30),
)
def test_no_more_passes_in_any_time_than_rate_and_one_piece(rate: float, pieces: list[tuple[float, float]]) -> None:
    clock = Clock()
    limit = bandwidth(clock, rate)
    passed = []
    for pause, size in pieces:
        clock.now += pause
        limit.wait(size)
        passed.append((clock.now, size))
    largest = max(size for _, size in passed)
    for first, (began, _) in enumerate(passed):
        for (ended, _), total in zip(passed[first:], accumulate(size for _, size in passed[first:]), strict=True):
            assert total <= rate * (ended - began) + largest + 1e-6 * rate


def test_a_rate_that_is_used_all_the_time_is_reached() -> None:
    clock = Clock()
    limit = bandwidth(clock, 100)
    for _ in range(50):
        limit.wait(20)
    assert clock.now - 100 == pytest.approx(49 * 20 / 100)


def test_turns_are_in_the_order_of_asking() -> None:
    clock = Clock()
    limit = bandwidth(clock, 10)
    assert [limit._turn(100) for _ in range(3)] == [100, 110, 120]
    clock.now += 50
    assert limit._turn(100) == 150


def test_who_gives_up_does_not_wait_for_its_turn() -> None:
    clock = Clock()
    limit = bandwidth(clock, 1.0)
    assert limit.wait(1000)
    assert not limit.wait(1, lambda: clock.now > 101)
    assert clock.now < 102
    assert bandwidth(clock, None).wait(1, lambda: False)
    assert not bandwidth(clock, None).wait(1, lambda: True)


def test_many_threads_share_a_rate() -> None:
    """All have their turn, and what they have together is within the rate: counted, on a clock of the test's."""
    clock, lock = Clock(), threading.Lock()

    def sleep(seconds: float) -> None:
        with lock:
            clock.now += seconds / 8

    limit = Bandwidth(1000, clock, sleep)
    threads = [threading.Thread(target=lambda: [limit.wait(100) for _ in range(20)]) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert clock.now - 100 >= 159 * 100 / 1000 - 1e-6
