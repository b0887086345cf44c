"""Rate limit for bytes or requests: grants tokens in order of request."""

import time
from collections.abc import Callable

from ledgerfs.forked import ForkLock

_SLICE_S = 0.2
"""Interval at which a waiting thread calls ``gives_up``."""

_MOMENT_S = 1e-6
"""Shorter waits count as none: a clock may not resolve them."""


class Bandwidth:
    """Tokens at a constant rate, granted in order of request. Safe in threads, and in a forked child.

    A request is granted when all earlier ones are paid for, not when its own tokens are there: so one piece may exceed a second's
    tokens. In any time ``t`` at most ``rate * t`` passes, and one piece more.

    Parameters
    ----------
    rate
        Tokens a second, more than 0; None for no limit.
    clock, sleep
        Replaced only by tests.

    """

    __slots__ = ("_clock", "_lock", "_next_s", "_sleep", "rate")

    def __init__(
        self,
        rate: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._next_s = 0.0
        self._lock = ForkLock()
        self._clock = clock
        self._sleep = sleep

    def wait(self, size: float, gives_up: Callable[[], bool] | None = None) -> bool:
        """Wait until ``size`` more may pass; return True, or False if ``gives_up`` returned True meanwhile."""
        turn_s = self._turn(size)
        while gives_up is None or not gives_up():
            seconds = turn_s - self._clock()
            if seconds <= _MOMENT_S:
                return True
            self._sleep(min(seconds, _SLICE_S))
        return False

    def _turn(self, size: float) -> float:
        """Take ``size`` tokens, and return the time, by the clock, from which they may pass."""
        if self.rate is None:
            return 0.0
        with self._lock:
            turn_s = max(self._next_s, self._clock())
            self._next_s = turn_s + size / self.rate
            return turn_s
