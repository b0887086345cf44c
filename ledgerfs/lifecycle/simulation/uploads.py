"""What is uploaded when: what is due waits for a rate that follows the backlog, as the service's does."""

from dataclasses import dataclass

import numpy as np

from ledgerfs.lifecycle.scheduling.rate_control import RateControl
from ledgerfs.lifecycle.simulation.columns import Floats

LEAST_STEP_S = 60.0
_MOST_STEPS = 200_000


def control_step_s(until_s: float) -> float:
    """Return how often the rate is set anew, s: each minute, or less often in a long simulation."""
    return max(LEAST_STEP_S, until_s / _MOST_STEPS)


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes a second between which the rate follows the backlog, and for how long ledgers may wait until they are late: `offload_after`."""

    floor: float = 0.0
    ceiling: float = np.inf
    patience_s: float = 86400.0


@dataclass(frozen=True, slots=True)
class Uploads:
    """What was due and what was sent until each of ``times``, bytes from the beginning; ``rates`` is what was sent in a second before."""

    times: Floats
    due: Floats
    sent: Floats
    rates: Floats
    waiting_before: float

    def sent_at(self, place: Floats) -> Floats:
        """Return when bytes at places in the order of what is due were sent; infinity for what was not."""
        # What is equal for some time has the time at which it was reached.
        rows = np.searchsorted(self.sent, place, side="left")
        is_sent = rows < self.sent.size
        after = np.minimum(rows, self.sent.size - 1)
        before = np.maximum(after - 1, 0)
        gained = self.sent[after] - self.sent[before]
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.where(gained > 0, (place - self.sent[before]) / gained, 1.0)
        found = self.times[before] + (self.times[after] - self.times[before]) * np.clip(part, 0.0, 1.0)
        return np.where(is_sent, found, np.inf)

    def sent_when_due(self, due_s: Floats) -> Floats:
        """Return when ledgers are sent that become due at some times after 0; infinity for those that become due after the end."""
        sent = self.sent_at(np.interp(due_s, self.times, self.due))
        return np.where(due_s <= self.times[-1], sent, np.inf)


def uploaded(due: Floats, waiting_before: float, step_s: float, rates: Rates) -> Uploads:
    """Return what is uploaded.

    ``due`` has the bytes that become due in each step, and ``waiting_before`` those that were due before.
    """
    control = RateControl(rates.floor, rates.ceiling, step_s)
    times: Floats = np.arange(due.size + 1, dtype=np.float64) * step_s
    total_due = waiting_before + np.concatenate(([0.0], np.cumsum(due)))
    # Sums in another order differ by roundings.
    slack = 1e-9 * float(total_due[-1])
    sent = np.zeros(due.size + 1)
    done, last, oldest = 0.0, 0.0, 0
    for row, arrived in enumerate(total_due.tolist()[1:], 1):
        while oldest < row and total_due[oldest] <= done:
            oldest += 1
        now = row * step_s
        lateness = (now - oldest * step_s) / rates.patience_s if rates.patience_s > 0 else 1.0
        rate = control.update(now, float(total_due[row - 1]) - done, last, lateness)
        last = min(rate * step_s, arrived - done)
        if arrived - done - last <= slack:
            last = arrived - done
        done += last
        sent[row] = done
    return Uploads(times, total_due, sent, np.diff(sent, prepend=0.0) / step_s, waiting_before)
