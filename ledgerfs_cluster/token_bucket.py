"""A bound on what passes in a second, of bytes or requests: turns in the order of asking, at a rate that may be changed meanwhile."""

import time
from collections.abc import Callable

from ledgerfs.storage.fork_lock import ForkLock

_SLICE_S = 0.2
"""After how long a thread that waits looks again: whether the rate is another, and whether it is to give up."""

_MOMENT_S = 1e-6
"""What is no wait: a clock may not even show it."""


class Bandwidth:
    """Tokens that come at a rate, and are taken in the order of asking. Safe in threads, and in the child after a fork.

    A turn comes once all that was asked before is paid, and not only when its own is: so one piece may be larger than what comes in a
    second. In any time ``t`` at most ``rate * t`` passes, and one piece more.

    Parameters
    ----------
    rate
        Tokens a second; None for no bound, 0 for none at all.
    clock, sleep
        Of this machine, unless tests have their own.

    """

    __slots__ = ("_asked", "_clock", "_lock", "_paid", "_rate", "_sleep", "_then")

    def __init__(
        self,
        rate: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._asked = self._paid = 0.0
        self._then: float | None = None
        self._lock = ForkLock()
        self._clock = clock
        self._sleep = sleep

    @property
    def rate(self) -> float | None:
        """What passes in a second at most; None for no bound."""
        return self._rate

    @rate.setter
    def rate(self, rate: float | None) -> None:
        """Have another rate at once, also for threads that wait."""
        with self._lock:
            self._pay()
            self._rate = rate

    def wait(self, size: float, gives_up: Callable[[], bool] | None = None) -> bool:
        """Wait until ``size`` more may pass; whether it may, which is false only if ``gives_up`` returns True meanwhile."""
        if self._rate is None:
            return gives_up is None or not gives_up()
        turn = self._ask(size)
        while gives_up is None or not gives_up():
            seconds = self._seconds_until(turn)
            if seconds <= 0:
                return True
            self._sleep(min(seconds, _SLICE_S))
        return False

    def _ask(self, size: float) -> float:
        """Ask for ``size`` tokens, and return the turn."""
        with self._lock:
            self._pay()
            turn = self._asked
            self._asked += size
            return turn

    def _seconds_until(self, turn: float) -> float:
        """Return how long it is to a turn at the rate of now; 0 once it has come, infinity at a rate of 0."""
        with self._lock:
            self._pay()
            left = turn - self._paid
            if left <= 0 or self._rate is None:
                return 0.0
            seconds = left / self._rate if self._rate > 0 else float("inf")
            return seconds if seconds > _MOMENT_S else 0.0

    def _pay(self) -> None:
        """Count what came since the last time, up to what was asked for."""
        now = self._clock()
        passed = 0.0 if self._then is None else max(0.0, now - self._then)
        self._then = now if self._then is None else max(now, self._then)
        self._paid = self._asked if self._rate is None else min(self._paid + self._rate * passed, self._asked)
