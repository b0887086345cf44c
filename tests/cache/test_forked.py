"""A lock excludes threads, and a forked child does not inherit it locked; what it cannot use as it is starts again."""

import gc
import multiprocessing
import os
import threading
from contextlib import contextmanager
from weakref import WeakSet

import pytest

from ledgerfs.forked import ForkLock, run_in_child, start_again_in_child
from tests.support.children import status_in_child

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

HANGING = 300
"""Seconds after which something hangs."""


def finishes(function):
    """Return whether ``function`` ends without an exception in another thread, which may block."""
    ended = []
    thread = threading.Thread(target=lambda: (function(), ended.append(True)), daemon=True)
    thread.start()
    thread.join(HANGING)
    return bool(ended)


def is_free(lock):
    """Return whether another thread gets ``lock`` without waiting."""
    taken = []

    def contend():
        taken.append(lock._lock.acquire(blocking=False))
        if taken[0]:
            lock._lock.release()

    thread = threading.Thread(target=contend)
    thread.start()
    thread.join()
    return taken[0]


@contextmanager
def held_by_another_thread(lock):
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            let_go.wait()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    assert held.wait(HANGING)
    try:
        yield
    finally:
        let_go.set()
        holder.join(HANGING)


def take_twice(lock):
    with lock, lock:
        pass


def test_child_can_take_a_lock_that_another_thread_held_at_the_fork():
    lock = ForkLock()
    with held_by_another_thread(lock):
        assert status_in_child(lambda: take_twice(lock), HANGING) == 0


def test_grandchild_can_take_a_lock_that_a_thread_of_the_child_held():
    lock = ForkLock()

    def child():
        with held_by_another_thread(lock):
            assert status_in_child(lambda: take_twice(lock), HANGING) == 0

    assert status_in_child(child, HANGING) == 0


def test_lock_of_the_parent_is_untouched_by_the_child():
    lock = ForkLock()
    with held_by_another_thread(lock):
        assert status_in_child(lock.__enter__, HANGING) == 0
        assert not is_free(lock)
    assert finishes(lambda: take_twice(lock))


def test_lock_still_excludes_threads_in_the_child():
    lock = ForkLock()

    def child():
        take_twice(lock)
        with held_by_another_thread(lock):
            assert not is_free(lock)

    with held_by_another_thread(lock):
        assert status_in_child(child, HANGING) == 0


class Counting:
    """Counts the forks that it has come through, while all others of its kind still exist."""

    def __init__(self, others):
        self.forks = 0
        self.others = others
        others.add(self)
        start_again_in_child(self)

    def after_fork(self):
        assert len(functions) > self.forks, "functions are called first"
        assert all(one.after_fork for one in self.others)
        self.forks += 1


functions = []
run_in_child(lambda: functions.append(1))


def test_what_is_inherited_starts_again_in_each_child_while_threads_hold_locks():
    others = WeakSet()
    kept, dropped = Counting(others), Counting(others)
    del dropped
    gc.collect()
    lock = ForkLock()

    def child():
        assert kept.forks == 1
        assert len(others) == 1
        with held_by_another_thread(lock):
            assert status_in_child(lambda: take_twice(lock) or kept.forks == 2 or os._exit(9), HANGING) == 0

    with held_by_another_thread(lock):
        for _ in range(3):
            assert status_in_child(child, HANGING) == 0
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join(HANGING)
            assert process.exitcode == 0
    assert kept.forks == 0
    assert functions == []
