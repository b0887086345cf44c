"""Fork safety: reset objects that a forked child cannot share with its parent.

A child has none of its parent's threads. A lock that another thread held, or a read that another thread would complete, would block the
child forever, and both would send on one connection.
"""

import os
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol
from weakref import WeakSet


class Inherited(Protocol):
    """An object that a forked child cannot use as it is."""

    def after_fork(self) -> None:
        """Reset the object in a forked child, while it has one thread. Must not wait, nor use locks and futures of the parent."""
        ...


class ForkLock:
    """A re-entrant lock for ``with``; free in a forked child."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self.renew()
        _locks.add(self)

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


def start_again_in_child(one: Inherited) -> None:
    """Call `Inherited.after_fork` in each forked child, while the object exists."""
    _inherited.add(one)


def run_in_child(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function in each forked child, before the objects of `start_again_in_child`."""
    _functions.append(function)
    return function


_locks: "WeakSet[ForkLock]" = WeakSet()
_functions: list[Callable[[], None]] = []
_inherited: "WeakSet[Inherited]" = WeakSet()


def _after_fork() -> None:
    for lock in list(_locks):
        lock.renew()
    for function in _functions:
        function()
    # The list keeps all objects alive until each is reset, since the finalizer of one may use another.
    inherited = list(_inherited)
    for one in inherited:
        one.after_fork()


os.register_at_fork(after_in_child=_after_fork)
