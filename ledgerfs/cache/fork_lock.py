"""A lock that a forked child does not inherit locked."""

import os
import threading
from types import TracebackType


class ForkLock:
    """A re-entrant lock for ``with``.

    A thread of the parent may hold a lock at the moment of a fork; in the child nobody would ever release it, so each process makes its
    own.
    """

    __slots__ = ("_lock", "_pid")

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._pid != os.getpid():
            # A child starts with one thread, so nobody else is here.
            self._lock = threading.RLock()
            self._pid = os.getpid()
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
