"""Work that several threads want at once."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ledgerfs.storage import single_flight
from ledgerfs.storage.single_flight import SingleFlight
from tests.support.children import is_true_in_child

HANGING = 300
"""Seconds after which something hangs."""

FOLLOWERS = 8


class Work:
    """Counts its calls, and does not end before it is let go."""

    def __init__(self, outcomes):
        self.outcomes = iter(outcomes)
        self.calls = 0
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self):
        self.calls += 1
        self.begun.set()
        assert self.may_end.wait(HANGING)
        outcome = next(self.outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


@pytest.fixture
def waiting(monkeypatch):
    """A semaphore that is released for each thread that waits for the result of another one."""
    released = threading.Semaphore(0)

    class Watched(Future):
        def result(self, timeout=None):
            released.release()
            return super().result(timeout)

    monkeypatch.setattr(single_flight, "Future", Watched)
    return released


def run_with_followers(flights, work, waiting):
    """Run ``work`` by one thread while others wait for its result; return their futures."""
    with ThreadPoolExecutor(FOLLOWERS + 1) as pool:
        leader = pool.submit(flights.run, "key", work)
        assert work.begun.wait(HANGING)
        others = [pool.submit(flights.run, "key", work) for _ in range(FOLLOWERS)]
        for _ in others:
            assert waiting.acquire(timeout=HANGING), "it does not wait for the first"
        work.may_end.set()
        return leader, others


def test_those_who_wait_get_the_result_of_the_first(waiting):
    work = Work(["done"])
    leader, others = run_with_followers(SingleFlight(), work, waiting)
    assert {future.result() for future in (leader, *others)} == {"done"}
    assert work.calls == 1


def test_an_error_is_raised_in_all_of_them_and_not_remembered(waiting):
    flights, error = SingleFlight(), OSError("broken")
    work = Work([error])
    leader, others = run_with_followers(flights, work, waiting)
    assert all(future.exception() is error for future in (leader, *others))
    assert work.calls == 1
    assert flights.run("key", lambda: "well") == "well"


def test_an_interrupt_of_one_thread_is_none_of_the_others(waiting):
    leader, others = run_with_followers(SingleFlight(), Work([KeyboardInterrupt(), *range(8)]), waiting)
    assert isinstance(leader.exception(), KeyboardInterrupt)
    assert {type(other.result()) for other in others} == {int}


def test_different_keys_do_not_wait_for_each_other():
    flights = SingleFlight()
    assert flights.run("a", lambda: flights.run("b", lambda: 1)) == 1


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_wait_for_its_parent():
    flights = SingleFlight()
    work = Work([1])
    thread = threading.Thread(target=flights.run, args=("key", work))
    thread.start()
    assert work.begun.wait(HANGING)
    assert is_true_in_child(lambda: flights.run("key", lambda: 42) == 42)
    work.may_end.set()
    thread.join()
