"""A bound on what passes in a second, of bytes or requests: turns in the order of asking, at a rate that may be changed meanwhile."""

import time
from collections.abc import Callable

from ledgerfs.storage.fork_lock import ForkLock

_SLICE_S = 0.2
"""After how long who waits looks again: whether the rate is another, and whether it is to give up."""

_MOMENT_S = 1e-6
"""What is no wait: a clock may not even show it."""


class TokenBucket:
    """Tokens that come at a rate, up to ``burst``, and are taken in the order of asking. It has no clock, and is for one thread at a time.

    Who asks has its turn once all that was asked before is paid, and not only when its own is: so one piece may be larger than any burst.
    In any time ``t`` at most ``rate * t + burst`` passes, and one piece more.

    Parameters
    ----------
    rate
        Tokens a second; None for no bound, 0 for none at all.
    burst
        How many may be taken at once by who comes after a time without use.

    """

    __slots__ = ("_asked", "_burst", "_paid", "_rate", "_then")

    def __init__(self, rate: float | None, burst: float = 0.0) -> None:
        self._rate = rate
        self._burst = burst
        self._asked = 0.0
        self._paid = 0.0
        self._then: float | None = None

    @property
    def rate(self) -> float | None:
        """Tokens a second; None for no bound."""
        return self._rate

    def set_rate(self, rate: float | None, now: float) -> None:
        """Have another rate from ``now`` on, also for those that wait."""
        self._pay(now)
        self._rate = rate

    def ask(self, size: float, now: float) -> float:
        """Ask for ``size`` tokens, and return the turn: for `seconds_until`."""
        self._pay(now)
        turn = self._asked
        self._asked += size
        return turn

    def seconds_until(self, turn: float, now: float) -> float:
        """Return how long it is to a turn at the rate of now; 0 once it has come, infinity at a rate of 0."""
        self._pay(now)
        left = turn - self._paid
        if left <= 0 or self._rate is None:
            return 0.0
        seconds = left / self._rate if self._rate > 0 else float("inf")
        return seconds if seconds > _MOMENT_S else 0.0

    def _pay(self, now: float) -> None:
        """Count what came since the last time: up to ``burst`` more than was asked for."""
        passed = 0.0 if self._then is None else max(0.0, now - self._then)
        self._then = now if self._then is None else max(now, self._then)
        if self._rate is None:
            self._paid = self._asked + self._burst
        else:
            self._paid = min(self._paid + self._rate * passed, self._asked + self._burst)


class Bandwidth:
    """A `TokenBucket` that threads wait at. Safe in threads, and in the child after a fork.

    Parameters
    ----------
    rate, burst
        As in `TokenBucket`.
    clock, sleep
        Of this machine, unless tests have their own.

    """

    __slots__ = ("_bucket", "_clock", "_lock", "_sleep")

    def __init__(
        self,
        rate: float | None,
        burst: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._lock = ForkLock()
        self._clock = clock
        self._sleep = sleep

    @property
    def rate(self) -> float | None:
        """What passes in a second at most; None for no bound."""
        return self._bucket.rate

    @rate.setter
    def rate(self, rate: float | None) -> None:
        """Have another rate at once, also for threads that wait."""
        with self._lock:
            self._bucket.set_rate(rate, self._clock())

    def wait(self, size: float, gives_up: Callable[[], bool] | None = None) -> bool:
        """Wait until ``size`` more may pass; whether it may, which is false only for who ``gives_up`` meanwhile."""
        if self._bucket.rate is None:
            return gives_up is None or not gives_up()
        with self._lock:
            turn = self._bucket.ask(size, self._clock())
        while gives_up is None or not gives_up():
            with self._lock:
                seconds = self._bucket.seconds_until(turn, self._clock())
            if seconds <= 0:
                return True
            self._sleep(min(seconds, _SLICE_S))
        return False
