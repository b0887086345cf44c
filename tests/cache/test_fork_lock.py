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


def finishes(function):
    """Return whether ``function`` ends without an exception in another thread, which may block."""
    ended = []
    thread = threading.Thread(target=lambda: (function(), ended.append(True)), daemon=True)
    thread.start()
    thread.join(timeout=60)
    return bool(ended)


def taken_at_once(lock):
    """Return whether another thread gets ``lock`` without waiting for long."""
    taken = threading.Event()

    def contend():
        with lock:
            taken.set()

    threading.Thread(target=contend, daemon=True).start()
    return taken.wait(timeout=0.1)


@contextmanager
def held_by_another_thread(lock, inner=0):
    """Hold ``lock`` in another thread, which took and released it ``inner`` times more while it held it."""
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with lock:
            for _ in range(inner):
                take_twice(lock)
            held.set()
            let_go.wait(timeout=60)

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    assert held.wait(timeout=60)
    try:
        yield
    finally:
        let_go.set()
        holder.join(timeout=60)


def take_twice(lock):
    with lock, lock:
        pass


def test_thread_that_holds_it_may_take_it_again():
    assert finishes(lambda: take_twice(ForkLock()))


@pytest.mark.parametrize("inner", [0, 1, 3])
def test_other_threads_wait_until_the_outermost_release(inner):
    lock = ForkLock()
    taken = threading.Event()

    def contend():
        with lock:
            taken.set()

    contender = threading.Thread(target=contend, daemon=True)
    with held_by_another_thread(lock, inner):
        contender.start()
        assert not taken.wait(timeout=0.1)
    assert taken.wait(timeout=60)
    contender.join(timeout=60)


def test_exception_releases_it():
    lock = ForkLock()
    with pytest.raises(KeyError), lock:
        raise KeyError
    assert finishes(lambda: take_twice(lock))


def test_child_can_take_a_lock_that_another_thread_held_at_the_fork():
    lock = ForkLock()
    with held_by_another_thread(lock):
        assert status_in_child(lambda: take_twice(lock)) == 0


def test_child_can_take_a_lock_that_was_free_at_the_fork():
    lock = ForkLock()
    with lock:
        pass
    assert status_in_child(lambda: take_twice(lock)) == 0


def test_grandchild_can_take_a_lock_that_a_thread_of_the_child_held():
    lock = ForkLock()

    def child():
        with held_by_another_thread(lock):
            assert status_in_child(lambda: take_twice(lock)) == 0

    assert status_in_child(child) == 0


def test_lock_of_the_parent_is_untouched_by_the_child():
    lock = ForkLock()
    with held_by_another_thread(lock):
        assert status_in_child(lock.__enter__) == 0
        assert not taken_at_once(lock)
    assert finishes(lambda: take_twice(lock))


def test_lock_still_excludes_threads_in_the_child():
    lock = ForkLock()

    def child():
        take_twice(lock)
        with held_by_another_thread(lock):
            assert not taken_at_once(lock)

    with held_by_another_thread(lock):
        assert status_in_child(child) == 0


def test_two_threads_of_a_child_that_take_it_first_exclude_each_other(monkeypatch):
    """The second thread comes while the first is about to replace the parent's lock, if it does so when it takes it."""
    lock = ForkLock()
    held, let_go = threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            let_go.wait(timeout=60)

    rival = threading.Thread(target=hold, daemon=True)
    make_lock = threading.RLock

    def make_lock_slowly():
        if rival.ident is None:
            rival.start()
            held.wait(timeout=0.2)
        return make_lock()

    def child():
        monkeypatch.setattr(threading, "RLock", make_lock_slowly)
        with lock:
            assert not held.is_set()

    assert status_in_child(child) == 0
