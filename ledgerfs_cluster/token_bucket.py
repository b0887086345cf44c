"""A bound on what passes in a second, of bytes or requests: turns in the order of asking, at a rate."""

import time
from collections.abc import Callable

from ledgerfs.forked import ForkLock

_SLICE_S = 0.2
"""After how long a thread that waits looks again whether it is to give up."""

_MOMENT_S = 1e-6
"""What is no wait: a clock may not even show it."""


class Bandwidth:
    """Tokens that come at a rate, and are taken in the order of asking. Safe in threads, and in the child after a fork.

    A turn comes once all that was asked before is paid, and not only when its own is: so one piece may be larger than what comes in a
    second. In any time ``t`` at most ``rate * t`` passes, and one piece more.

    Parameters
    ----------
    rate
        Tokens a second, more than 0; None for no bound.
    clock, sleep
        Of this machine, unless tests have their own.

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
        """Wait until ``size`` more may pass; whether it may, which is false only if ``gives_up`` returns True meanwhile."""
        turn_s = self._turn(size)
        while gives_up is None or not gives_up():
            seconds = turn_s - self._clock()
            if seconds <= _MOMENT_S:
                return True
            self._sleep(min(seconds, _SLICE_S))
        return False

    def _turn(self, size: float) -> float:
        """Take ``size`` tokens, and return when they may pass, by the clock."""
        if self.rate is None:
            return 0.0
        with self._lock:
            turn_s = max(self._next_s, self._clock())
            self._next_s = turn_s + size / self.rate
            return turn_s
