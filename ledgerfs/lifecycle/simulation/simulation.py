"""Playing arrivals forward under rules: what BookKeeper and the store have, what is uploaded, what it costs.

Time passes in steps of an hour for what is told, and of a minute for the rate. Events of ledgers have their exact times.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from ledgerfs.formats.array_types import Mask
from ledgerfs.lifecycle.simulation.columns import ClosedLedgers, Floats, Rules, Topics
from ledgerfs.lifecycle.simulation.ledger_lives import Lives, known_lives, lives_to_come
from ledgerfs.lifecycle.simulation.prices import GIB, MONTH_S, Prices
from ledgerfs.lifecycle.simulation.uploads import Rates, Uploads, control_step_s, uploaded

STEP_S = 3600.0
DAY_S = 86400.0
_PARTS = 30
"""In how many parts ledgers that are taken together become due."""
_SOON_S = 1e-6


@dataclass(frozen=True, slots=True)
class Simulated:
    """What was found, a row each step; the first is the beginning.

    Attributes
    ----------
    times
        Seconds from the beginning.
    hot, hot_without
        Bytes on the disks of bookies, each copy counted: under the rules, and if nothing more was offloaded.
    cold
        Bytes in the store, of ledgers that are not past their retention.
    written
        Bytes that were written to topics, from the beginning.
    due, sent, requests
        Bytes that became due and that were uploaded, and requests that wrote them, from the beginning; ``due`` begins with what was due.
    highest_rates
        Bytes a second at most in the step before.
    too_late
        Bytes of what was uploaded until the end that had been past its retention before its turn came: a service would leave it out.

    """

    times: Floats
    hot: Floats
    hot_without: Floats
    cold: Floats
    written: Floats
    due: Floats
    sent: Floats
    requests: Floats
    highest_rates: Floats
    too_late: float = 0.0

    @property
    def backlog(self) -> Floats:
        """Bytes that are due and not uploaded."""
        return np.maximum(self.due - self.sent, 0.0)

    def costs(self, prices: Prices) -> Floats:
        """Return what everything has cost from the beginning to each time."""
        a_second = (self.hot * prices.hot + self.cold * prices.cold) / GIB / MONTH_S
        stored = np.concatenate(([0.0], np.cumsum((a_second[1:] + a_second[:-1]) / 2 * np.diff(self.times))))
        return stored + self.requests / 1000 * prices.put

    def rows_of_days(self) -> list[int]:
        """Return the row at the end of each day, and of what is left of the last one."""
        days = np.arange(DAY_S, self.times[-1] + 1, DAY_S)
        rows = np.searchsorted(self.times, days).tolist()
        last = self.times.size - 1
        return rows if rows and rows[-1] == last else [*rows, last]


class _Counts:
    """Amounts that come or go at some times, added up step by step."""

    __slots__ = ("_step_s", "changes")

    def __init__(self, steps: int, step_s: float) -> None:
        self.changes = np.zeros(steps + 1)
        self._step_s = step_s

    def add(self, times: Floats, amounts: Floats) -> None:
        """Add what changes; what happens after the end is left out."""
        last = self.changes.size - 1
        inside = times <= last * self._step_s
        rows = np.ceil(np.maximum(times[inside], 0.0) / self._step_s).astype(np.int64)
        self.changes += np.bincount(np.minimum(rows, last), amounts[inside], last + 1)

    def sums(self) -> Floats:
        """Return what came until each step."""
        return np.cumsum(self.changes)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept where, as ledgers come and go."""

    hot: _Counts
    hot_without: _Counts
    cold: _Counts
    requests: _Counts
    late: _Counts

    @classmethod
    def of(cls, steps: int, step_s: float) -> "_Kept":
        """Return counts of nothing."""
        return cls(*(_Counts(steps, step_s) for _ in range(5)))

    def begin_with(self, known: Lives, topics: Topics) -> None:
        """Add what is there at the beginning; what is written from then on is not counted here."""
        begin = np.zeros(known.sizes.size)
        is_hot = known.hot_until_s != 0
        copies = known.sizes * topics.write_quorums[known.topics]
        opened = topics.open_bytes * topics.write_quorums
        for one in (self.hot, self.hot_without):
            one.add(begin[is_hot], copies[is_hot])
            one.add(np.zeros(opened.size), opened)
        self.cold.add(begin[known.are_offloaded], known.sizes[known.are_offloaded])

    def add(self, lives: Lives, sent_s: Floats, rules: Rules, topics: Topics) -> None:
        """Add what ledgers that are uploaded at some times become, those of the dump and those to come alike."""
        of, trimmed = lives.topics, lives.trimmed_s
        copies = lives.sizes * topics.write_quorums[of]
        is_hot = lives.hot_until_s != 0
        hot_until = np.where(lives.are_offloaded, lives.hot_until_s, sent_s + rules.lag_s[of])
        without = np.where(lives.are_offloaded, lives.hot_until_s, np.inf)
        self.hot.add(np.minimum(hot_until, trimmed)[is_hot], -copies[is_hot])
        self.hot_without.add(np.minimum(without, trimmed)[is_hot], -copies[is_hot])
        comes = sent_s < trimmed
        self.cold.add(sent_s[comes], lives.sizes[comes])
        goes = comes | lives.are_offloaded
        self.cold.add(trimmed[goes], -lives.sizes[goes])
        self.requests.add(sent_s, lives.requests)
        self.late.add(sent_s[~comes], lives.sizes[~comes])


def simulated(  # noqa: PLR0917  (what there is, what is wanted, and for how long)
    topics: Topics, ledgers: ClosedLedgers, rules: Rules, days: float, rates: Rates, step_s: float = STEP_S
) -> Simulated:
    """Play topics forward for some days."""
    steps = max(1, int(np.ceil(days * DAY_S / step_s)))
    until = steps * step_s
    known = known_lives(topics, rules, ledgers)
    uploads = _uploads(known, lives_to_come(topics, rules, until, step_s), (until, step_s), rates)
    kept = _Kept.of(steps, step_s)
    kept.begin_with(known, topics)
    kept.add(known, _sent_of_known(known, uploads), rules, topics)
    for lives in lives_to_come(topics, rules, until, step_s):
        sent = np.where(_are_uploaded(lives), uploads.sent_when_due(lives.due_s), np.inf)
        kept.add(lives, sent, rules, topics)
    times: Floats = np.arange(steps + 1, dtype=np.float64) * step_s
    copies = float((topics.rates * topics.write_quorums).sum()) * times
    within = (uploads.times.size - 1) // steps
    return Simulated(
        times,
        kept.hot.sums() + copies,
        kept.hot_without.sums() + copies,
        kept.cold.sums(),
        float(topics.rates.sum()) * times,
        uploads.due[::within],
        uploads.sent[::within],
        kept.requests.sums(),
        np.concatenate(([0.0], uploads.rates[1:].reshape(steps, within).max(axis=1))),
        float(kept.late.sums()[-1]),
    )


def _are_uploaded(lives: Lives) -> Mask:
    """Whether ledgers are due before they are past their retention."""
    are_due: Mask = np.isfinite(lives.due_s) & (np.maximum(lives.due_s, 0.0) < lives.trimmed_s)
    return are_due


def _uploads(known: Lives, to_come: Iterable[Lives], until_and_step_s: tuple[float, float], rates: Rates) -> Uploads:
    """Return what is uploaded of everything that becomes due."""
    until_s, step_s = until_and_step_s
    within = max(1, int(step_s / control_step_s(until_s)))
    control_s = step_s / within
    due = _Counts(round(until_s / control_s), control_s)
    for lives in chain([known], to_come):
        _add_due(due, lives, _are_uploaded(lives) & (lives.due_s > 0))
    waiting = float(known.sizes[_wait(known)].sum())
    return uploaded(due.changes[1:], waiting, control_s, rates)


def _add_due(due: _Counts, lives: Lives, rows: Mask) -> None:
    """Add what becomes due; ledgers that are taken together one after the other, as they are."""
    alone, together = rows & (lives.spread_s == 0), rows & (lives.spread_s > 0)
    due.add(lives.due_s[alone], lives.sizes[alone])
    sizes, last, spread = (one[together] for one in (lives.sizes, lives.due_s, lives.spread_s))
    for part in range(_PARTS if sizes.size else 0):
        due.add(np.maximum(last - spread * part / _PARTS, _SOON_S), sizes / _PARTS)


def _wait(known: Lives) -> Mask:
    """Whether ledgers were due before the beginning."""
    return _are_uploaded(known) & (known.due_s <= 0)


def _sent_of_known(known: Lives, uploads: Uploads) -> Floats:
    """Return when ledgers that a dump has are uploaded: those that were due first, the one that was due for the longest time before."""
    sent = np.full(known.sizes.size, np.inf)
    waiting = np.flatnonzero(_wait(known))
    waiting = waiting[np.argsort(known.due_s[waiting], kind="stable")]
    sent[waiting] = uploads.sent_at(np.cumsum(known.sizes[waiting]))
    later = _are_uploaded(known) & (known.due_s > 0)
    sent[later] = uploads.sent_when_due(known.due_s[later])
    return sent
