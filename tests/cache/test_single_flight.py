"""Work that several threads want at once."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ledgerfs.storage.single_flight import SingleFlight
from tests.support.children import fork


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
        self.may_end.wait(30)
        outcome = next(self.outcomes)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def run_with_followers(work, followers=8):
    """Run ``work`` by one thread and by others that come while it is under way; return their futures."""
    flights = SingleFlight()
    waiting = threading.Barrier(followers + 1)

    def follow():
        waiting.wait(30)
        return flights.run("key", work)

    with ThreadPoolExecutor(followers + 1) as pool:
        leader = pool.submit(flights.run, "key", work)
        assert work.begun.wait(30)
        others = [pool.submit(follow) for _ in range(followers)]
        waiting.wait(30)
        work.may_end.set()
        return leader, others


def test_calls_one_after_the_other_work_each():
    flights = SingleFlight()
    assert [flights.run("key", lambda: 1), flights.run("key", lambda: 2)] == [1, 2]


def test_those_who_wait_get_the_result_of_the_first():
    flights = SingleFlight()
    outer = Work(["done"])
    with ThreadPoolExecutor(9) as pool:
        futures = [pool.submit(flights.run, "key", outer) for _ in range(9)]
        assert outer.begun.wait(30)
        outer.may_end.set()
        assert {future.result() for future in futures if not future.exception()} == {"done"}
    # A thread that came after the end worked itself, for which nothing was left.
    assert outer.calls == 1 + sum(future.exception() is not None for future in futures)


def test_an_error_is_raised_in_all_of_them_and_not_remembered():
    flights = SingleFlight()
    work = Work([OSError("broken")] * 9)
    with ThreadPoolExecutor(9) as pool:
        futures = [pool.submit(flights.run, "key", work) for _ in range(9)]
        work.may_end.set()
        assert all(isinstance(future.exception(), OSError) for future in futures)
    assert flights.run("key", lambda: "well") == "well"


def test_an_interrupt_of_one_thread_is_none_of_the_others():
    leader, others = run_with_followers(Work([KeyboardInterrupt(), *range(8)]))
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
    assert work.begun.wait(30)
    child = fork()
    if child == 0:
        os._exit(flights.run("key", lambda: 42))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    work.may_end.set()
    thread.join()
