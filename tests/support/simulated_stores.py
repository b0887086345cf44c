"""A store that takes what it is given after a delay, as far as it can: what a controller of rates is tried on."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.lifecycle.scheduling.rate_control import RateControl

Of = Callable[[float], float]
"""Something by the time in seconds."""


@dataclass(frozen=True, slots=True)
class Run:
    """What happened, a row each ``step_s``: times, backlog, the rate that was asked for, the rate at which was sent."""

    times: npt.NDArray[np.float64]
    backlog: npt.NDArray[np.float64]
    asked: npt.NDArray[np.float64]
    sent: npt.NDArray[np.float64]

    def after(self, time: float) -> "Run":
        """Return the rows from a time on."""
        rows = self.times >= time
        return Run(self.times[rows], self.backlog[rows], self.asked[rows], self.sent[rows])

    def settled_at(self, value: float, within: float) -> float:
        """Return from when on the rate that is asked for stays so close to a value; infinity for never."""
        away = np.flatnonzero(np.abs(self.asked - value) > within * value)
        if not away.size:
            return float(self.times[0])
        return float(self.times[away[-1] + 1]) if away[-1] + 1 < self.times.size else float("inf")

    @property
    def turns(self) -> int:
        """How often the rate that is asked for turns around by more than 1 % of its largest value: an oscillation has many."""
        least, count, rises, extreme = 0.01 * float(self.asked.max()), 0, None, float(self.asked[0])
        for rate in self.asked.tolist():
            if rises is not False and rate < extreme - least:
                count, rises, extreme = count + (rises is True), False, rate
            elif rises is not True and rate > extreme + least:
                count, rises, extreme = count + (rises is False), True, rate
            elif rises is not None:
                extreme = max(extreme, rate) if rises else min(extreme, rate)
        return count


def simulated(
    control: RateControl,
    arrival: Of,
    seconds: float,
    *,
    capacity: Of = lambda _: float("inf"),
    delay_s: float = 30.0,
    step_s: float = 5.0,
    backlog: float = 0.0,
    lateness: float = 0.0,
    at: Callable[[float, RateControl], None] = lambda *_: None,
) -> Run:
    """Return what a controller does; ``at`` may change its bounds at any time."""
    orders = deque([control.rate] * max(1, round(delay_s / step_s)))
    rows, sent = [], 0.0
    for number in range(round(seconds / step_s)):
        now = number * step_s
        at(now, control)
        asked = control.update(now, backlog, sent, lateness)
        orders.append(asked)
        backlog += arrival(now) * step_s
        sent = min(backlog, orders.popleft() * step_s, capacity(now) * step_s)
        backlog -= sent
        rows.append((now, backlog, asked, sent / step_s))
    return Run(*np.array(rows).T)
