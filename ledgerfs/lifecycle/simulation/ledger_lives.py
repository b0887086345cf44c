"""When each ledger is closed, due, and past its retention: those that a dump has, and those to come.

The rules are those of `ledgerfs.clusters.offload_thresholds` and `ledgerfs.clusters.retention`, for all topics at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.lifecycle.simulation.columns import ClosedLedgers, Floats, Rules, Topics

_AT_ONCE = 2_000_000
"""Ledgers that are computed together."""
_FAR_S = 1e10
"""Later than any simulation ends."""
_REQUESTS_BESIDE_PARTS = 3
"""For an object in parts two, to begin and to complete it, and one for the index."""


@dataclass(frozen=True, slots=True)
class Lives:
    """Ledgers, a row each, or a few of one topic that are closed in one step.

    Attributes
    ----------
    topics
        Rows of `Topics`.
    sizes, requests
        Bytes, and requests that write them to a store.
    due_s
        When they are due to be offloaded: before 0 of those that were due before the dump; infinity for never.
    trimmed_s
        When they are past their retention.
    spread_s
        Of some that are taken together: by how much the first of them is due before the last.
    hot_until_s
        Of ledgers that are offloaded already: until when BookKeeper has them. Not a number of others.

    """

    topics: Int64
    sizes: Floats
    requests: Floats
    due_s: Floats
    trimmed_s: Floats
    spread_s: Floats
    hot_until_s: Floats

    @property
    def are_offloaded(self) -> Mask:
        """Which are offloaded from the beginning."""
        return ~np.isnan(self.hot_until_s)


def known_lives(topics: Topics, rules: Rules, ledgers: ClosedLedgers) -> Lives:
    """Return the lives of the ledgers that a dump has."""
    of = ledgers.topics
    count = topics.rates.size
    totals = np.bincount(of, ledgers.sizes, count)
    through = np.cumsum(ledgers.sizes)
    ends = np.cumsum(np.bincount(of, minlength=count))
    # Bytes of a topic's ledgers from each one on, itself among them.
    before_topic = np.concatenate(([0.0], through))[ends - np.bincount(of, minlength=count).astype(np.int64)]
    from_here = totals[of] - (through - ledgers.sizes - before_topic[of])
    due = np.minimum(_due_by_size(topics, rules, of, from_here), ledgers.closed_s + rules.after_s[of])
    due[ledgers.are_offloaded] = np.inf
    after = from_here - ledgers.sizes + topics.open_bytes[of]
    with np.errstate(invalid="ignore", divide="ignore"):
        missing = rules.retention_bytes[of] - after
        by_size = np.where(missing <= 0, 0.0, np.where(topics.rates[of] > 0, missing / topics.rates[of], np.inf))
    trimmed = np.minimum(by_size, ledgers.closed_s + rules.retention_s[of])
    trimmed = np.maximum(np.maximum(trimmed, ledgers.closed_s + topics.behind_s[of]), 0.0)
    hot_until = np.where(ledgers.are_hot, np.maximum(ledgers.offloaded_s + rules.lag_s[of], 0.0), 0.0)
    return Lives(
        of,
        ledgers.sizes,
        _requests(ledgers.sizes, rules.block_bytes[of]),
        due,
        _in_order(of, trimmed),
        np.zeros(of.size),
        np.where(ledgers.are_offloaded, hot_until, np.nan),
    )


def lives_to_come(topics: Topics, rules: Rules, until_s: float, step_s: float) -> Iterator[Lives]:
    """Yield the lives of the ledgers that are closed until then, some topics after the other.

    Ledgers of a topic that are closed more often than once in a step are taken together.
    """
    groups = np.where(np.isfinite(topics.periods_s), np.ceil(step_s / topics.periods_s), 1.0)
    groups = np.maximum(groups, 1.0)
    periods = topics.periods_s * groups
    with np.errstate(invalid="ignore"):
        counts = np.where(topics.next_close_s <= until_s, np.floor((until_s - topics.next_close_s) / periods) + 1, 0.0)
    counts = np.nan_to_num(counts).astype(np.int64)
    ends = np.cumsum(counts)
    begin = 0
    while begin < counts.size:
        done = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + _AT_ONCE, side="right")))
        yield _to_come(topics, rules, slice(begin, end), counts[begin:end], groups)
        begin = end


def _to_come(topics: Topics, rules: Rules, some: slice, counts: Int64, groups: Floats) -> Lives:
    of = np.repeat(np.arange(counts.size) + some.start, counts)
    number = np.arange(of.size) - np.repeat(np.cumsum(counts) - counts, counts)
    rates, group = topics.rates[of], groups[of]
    period = topics.periods_s[of] * group
    closed = topics.next_close_s[of] + number * period
    sizes = np.where(number == 0, topics.open_bytes[of] + rates * topics.next_close_s[of], rates * period)
    # Of some that are taken together the first one has what was written already, and is alone.
    of_each = np.where(number == 0, sizes, sizes / group)
    by_size = closed + _more_closings(rules.above[of] - of_each, rates * topics.periods_s[of]) * topics.periods_s[of]
    due = np.minimum(by_size, closed + rules.after_s[of])
    kept = np.minimum(rules.retention_s[of], rules.retention_bytes[of] / rates)
    trimmed = closed + np.maximum(kept, topics.behind_s[of])
    requests = _requests(of_each, rules.block_bytes[of]) * np.where(number == 0, 1.0, group)
    spread = np.where(number == 0, 0.0, (group - 1) * topics.periods_s[of])
    return Lives(of, sizes, requests, due, trimmed, spread, np.full(of.size, np.nan))


def _due_by_size(topics: Topics, rules: Rules, of: Int64, from_here: Floats) -> Floats:
    """Return when ledgers of now are due by size: at the closing with which more than the threshold is closed from them on."""
    missing = rules.above[of] - from_here
    next_close, rates = topics.next_close_s[of], topics.rates[of]
    with np.errstate(invalid="ignore"):
        first = topics.open_bytes[of] + np.where(rates > 0, rates * next_close, 0.0)
        more = _more_closings(missing - first, rates * topics.periods_s[of])
        later = next_close + np.where(rates > 0, more * topics.periods_s[of], np.inf)
    # Which were due before the dump wait in the order of their ages, which nobody knows here: all since it.
    return np.where(missing < 0, 0.0, later)


def _more_closings(missing: Floats, size: Floats) -> Floats:
    """Return how many ledgers of a size have to be closed for more than what is missing; 0 where less than nothing is."""
    with np.errstate(invalid="ignore", divide="ignore"):
        more = np.floor(missing / size) + 1
    return np.where(missing < 0, 0.0, np.where(np.isnan(more), np.inf, more))


def _requests(sizes: Floats, blocks: Floats) -> Floats:
    return np.maximum(np.ceil(sizes / blocks), 1.0) + _REQUESTS_BESIDE_PARTS


def _in_order(topics: Int64, times: Floats) -> Floats:
    """Return times of which none is before that of an older ledger of its topic: trimming ends at the first that stays."""
    raised = np.minimum(times, _FAR_S) + topics * (2 * _FAR_S)
    found = np.maximum.accumulate(raised) - topics * (2 * _FAR_S) if times.size else raised
    return np.where(found >= _FAR_S / 2, np.inf, found)
