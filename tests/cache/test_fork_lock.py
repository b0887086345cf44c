"""A lock excludes threads, and a forked child does not inherit it locked."""

import os
import threading
from contextlib import contextmanager

import pytest

from ledgerfs.storage.fork_lock import ForkLock
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
