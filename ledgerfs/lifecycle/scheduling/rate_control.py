"""The rate of offloading follows the backlog: a PI controller between a floor and a ceiling.

The backlog ``B`` is what is due and not done. It grows by what becomes due, ``a``, and shrinks by what is sent, ``u``: ``B' = a - u``,
where ``u`` is the rate that was asked for some time ``d`` ago (plans are made now and then, uploads take time to begin). The rate asked for
is

    u = B / T + I,        I' = B / (4 T^2),        T = 4 d

Why these gains are stable: the open loop is ``(1 + 1/(4Ts)) exp(-ds) / (Ts)``. With ``x = wT`` its gain is 1 at ``x = 1.03``, where
its phase is ``-180 + atan(4x) - 57.3 x d/T`` degrees, so for ``d = T/4`` the **phase margin is 61 degrees** (76 - 15), and the delay
could be 5 times as long before it oscillates. The phase is -180 at ``x = 6.1``, where the gain is 1/6.1: the **gain margin is 6.1**.
The lateness (below) at most doubles the gain; margins are then 54 degrees and 3. (These are Skogestad's rules for an integrating
process, with a response three times as slow as the delay.)

Without delay both poles are at ``-1/(2T)``: critically damped, so nothing oscillates. After ``a`` jumps by 1 the rate is
``1 + exp(-t/2T) (t/2T - 1)``: it is 1 after ``2T``, 13.5 % over it at ``4T``, since what has piled up meanwhile has to be sent, too, and
within 2 % from ``11T`` on. The backlog is at most ``0.74 T a``, and ends at 0: what ``I`` has learned is how much becomes due.

What ``I`` learns is held to what really happens. Where the rate is at its ceiling it learns nothing that leads further out, so it does not
wind up there; and where less is sent than was asked for (a store that is slow or stopped, or nothing to do) it goes to what is sent with a
time constant of ``4T``. So after an hour's stop the backlog alone decides, and is never answered by more than the ceiling.
"""

_SLOWER = 4.0
"""`T` in delays, and the time of the integral in ``T``."""


class RateControl:
    """A rate in bytes a second that follows a backlog. For one thread at a time; it has no clock.

    Parameters
    ----------
    floor, ceiling
        The rate is never below or above these; a ceiling of infinity is none.
    delay_s
        After how long a rate shows in the backlog, s: as long as the longest of the time between two calls and the time in which uploads
        begin.

    Attributes
    ----------
    rate
        Bytes a second, as of the last call.

    """

    __slots__ = ("_ceiling", "_error", "_floor", "_learned", "_then", "_time_s", "rate")

    def __init__(self, floor: float, ceiling: float, delay_s: float = 30.0) -> None:
        self._floor = floor
        self._ceiling = max(floor, ceiling)
        self._time_s = _SLOWER * delay_s
        self._learned = 0.0
        self._error = 0.0
        self._then: float | None = None
        self.rate = floor

    @property
    def time_s(self) -> float:
        """The time constant ``T``."""
        return self._time_s

    def update(self, now: float, backlog: float, sent: float, lateness: float = 0.0) -> float:
        """Return the rate from ``now`` on.

        Parameters
        ----------
        now
            A time in seconds, of any clock.
        backlog
            Bytes that are due and not done.
        sent
            Bytes that were sent since the call before.
        lateness
            For how long the oldest of it has been due, as a part of ``offload_after``; 1 (as late as it should be old) or more doubles the
            answer to the backlog.

        """
        self._error = max(0.0, backlog) * (1.0 + min(max(lateness, 0.0), 1.0))
        if self._then is not None and now > self._then:
            self._learn(now - self._then, sent)
        self._then = now if self._then is None else max(now, self._then)
        self.rate = self._bounded(self._error / self._time_s + self._learned)
        return self.rate

    def set_bounds(self, floor: float, ceiling: float) -> None:
        """Have another floor and ceiling: the rate goes on from where it is, and jumps only if that is out of the new bounds."""
        self._floor, self._ceiling = floor, max(floor, ceiling)
        self.rate = self._bounded(self.rate)
        self._learned = self.rate - self._error / self._time_s

    def _learn(self, passed_s: float, sent: float) -> None:
        time_s, missed = self._time_s, max(0.0, self.rate - sent / passed_s)
        # Who was not called for long knows little of what happened meanwhile.
        step_s = min(passed_s, time_s)
        if self._error / time_s + self._learned < self._ceiling:
            self._learned += self._error / (_SLOWER * time_s * time_s) * step_s
        if self._learned > 0:
            self._learned = max(0.0, self._learned - missed / (_SLOWER * time_s) * step_s)
        self._learned = min(self._learned, self._ceiling)

    def _bounded(self, rate: float) -> float:
        return min(max(rate, self._floor), self._ceiling)
