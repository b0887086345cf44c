"""How often something may be done to one topic: each unload lets its clients wait, and many at once leave them without a broker."""

import time
from collections.abc import Callable
from math import inf
from threading import Lock

from ledgerfs.errors import TooSoonError
from ledgerfs.formats.topic_names import topic_of

MINUTE_S = 60.0


class TopicPace:
    """Lets something be done to each topic once in a time, in this process; safe in threads.

    Parameters
    ----------
    seconds
        Between two times.
    clock
        Seconds that only grow.

    """

    __slots__ = ("_clock", "_done_s", "_lock", "_seconds")

    def __init__(self, seconds: float = MINUTE_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._done_s: dict[str, float] = {}
        self._lock = Lock()

    def take(self, managed_ledger: str) -> None:
        """Note that it is done now; raises `TooSoonError` if its time has not come, and notes nothing then."""
        with self._lock:
            now = self._clock()
            wait = self._done_s.get(managed_ledger, -inf) + self._seconds - now
            if wait > 0:
                raise TooSoonError(
                    f"this was done less than {self._seconds:.0f} s ago; again in {wait:.0f} s",
                    key=topic_of(managed_ledger),
                )
            self._done_s = {name: done for name, done in self._done_s.items() if now - done < self._seconds}
            self._done_s[managed_ledger] = now

    def give_back(self, managed_ledger: str) -> None:
        """Forget that it was done: it certainly was not."""
        with self._lock:
            self._done_s.pop(managed_ledger, None)
