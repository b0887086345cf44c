"""A lock that a forked child does not inherit locked."""

import os
import threading
from types import TracebackType
from weakref import WeakSet


class ForkLock:
    """A re-entrant lock for ``with``.

    A thread of the parent may hold a lock at the moment of a fork; in the child nobody would ever release it. So a child begins with locks
    of its own.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self.renew()
        _locks.add(self)

    def renew(self) -> None:
        """Forget who holds the lock."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


_locks: "WeakSet[ForkLock]" = WeakSet()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


os.register_at_fork(after_in_child=_renew_all)
