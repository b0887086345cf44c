"""In which order a run of a bookie's collector frees bytes, how long it takes under a rate, and how much room it needs meanwhile.

Logs without a live ledger go first. Those to compact are put into tenths of their live share, and the lowest tenth comes first. Inside a
tenth a bookie has them in the order of a hash map in its memory, or of ids if it keeps that map on disk; here it is that of ids.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.disks.collector.log_use import CountedBy
from ledgerfs.disks.collector.rules import Float64, Throttle
from ledgerfs.disks.collector.space import Fate, LogSpace
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Int64

_TENTHS = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """A run of the collector, log by log; all but the last two have shape (logs that go,).

    Attributes
    ----------
    rows
        The logs, in their order.
    freed, rewritten
        Bytes freed, and written again, up to the end of each.
    ends_s
        Seconds from the run's begin to the end of each; NaN from the first on of which that is not known.
    room
        Bytes that the directory must have free at the run's begin, beside what else is written: a log is deleted only after what lives
        of it is written.
    left
        Rows of logs that the run has no time for.

    """

    rows: Int64
    freed: Int64
    rewritten: Int64
    ends_s: Float64
    room: int
    left: Int64


def tenths(usages: Float64) -> Int64:
    """Return which tenth live shares are in, from 0 to 9; 1 is in the last one."""
    return np.minimum(_TENTHS - 1, np.floor(usages * _TENTHS)).astype(np.int64)


def compaction_order(space: LogSpace, *, is_major: bool | None = None) -> Int64:
    """Return rows of the logs that a compaction takes, in its order: a major one, which takes those below the minor threshold as well.

    It is a minor one if ``is_major`` is false, or if it is None and the rules have no major ones.
    """
    is_taken = space.fates == Fate.MINOR
    if space.rules.runs_major if is_major is None else is_major:
        is_below = space.usages < space.rules.major_threshold
        is_taken = (is_taken | (space.fates == Fate.MAJOR)) & (is_below & space.rules.runs_major)
    rows = np.flatnonzero(is_taken)
    return rows[np.argsort(tenths(space.usages[rows]), kind="stable")]


def plan(
    space: LogSpace,
    throttle: Throttle | None = None,
    *,
    is_major: bool | None = None,
    most_seconds: float | None = None,
) -> Plan:
    """Return a run of the collector with a major or a minor compaction (``is_major`` as in `compaction_order`).

    ``throttle`` is that of the rules if it is None. ``most_seconds`` is ``majorCompactionMaxTimeMillis`` or
    ``minorCompactionMaxTimeMillis``: no log is begun later. Raises `InvalidOptionError` if that is not above 0, or if times are not known
    that it needs.
    """
    order = compaction_order(space, is_major=is_major)
    rate = throttle or space.rules.throttle
    ends_s = np.cumsum(rate.seconds(space.live_entries[order], space.live_sizes[order]))
    left = order[:0]
    if most_seconds is not None:
        count = _count_until(ends_s, most_seconds)
        order, ends_s, left = order[:count], ends_s[:count], order[count:]
    deleted = np.flatnonzero(space.fates == Fate.DELETED)
    rows = np.concatenate([deleted, order])
    freed = np.cumsum(space.freed[rows])
    before = freed - space.freed[rows]
    needed = space.rewritten[rows] - before
    return Plan(
        rows,
        freed,
        np.cumsum(space.rewritten[rows]),
        np.concatenate([np.zeros(deleted.size, np.float64), ends_s]),
        max(0, int(needed.max(initial=0))),
        left,
    )


def scan_seconds(space: LogSpace, throttle: Throttle | None = None) -> float:
    """Return how long a bookie scans logs without a ledgers map before its first run ends, under the same rate; NaN if not known."""
    rows = np.flatnonzero((space.use.counted_by == CountedBy.SCAN) & ~space.use.are_current)
    entries = space.use.entry_sums(np.ones(space.use.ledger_ids.size, np.bool_))
    return float((throttle or space.rules.throttle).seconds(entries[rows], space.totals[rows]).sum())


def _count_until(ends_s: Float64, most_seconds: float) -> int:
    """Return how many of some logs are begun before a time."""
    if not most_seconds > 0:
        raise InvalidOptionError("the longest time has to be above 0 s", key=str(most_seconds))
    if np.any(np.isnan(ends_s)):
        raise InvalidOptionError("entries of logs are not known, and so not how long each takes", key=str(most_seconds))
    begins_s = np.concatenate([np.zeros(1, np.float64), ends_s[:-1]])[: ends_s.size]
    return int(np.searchsorted(begins_s, most_seconds))
