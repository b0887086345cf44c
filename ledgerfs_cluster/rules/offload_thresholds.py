"""What a broker would offload of each topic, by its thresholds, at the topic's next rollover; and how far the rest is from that.

The rule is that of a broker's trigger, compared with it in runs: from the newest closed ledger back, sizes are added up, offloaded ledgers
too; a ledger is chosen that is not offloaded, if the sum with it is over the threshold, or if it was closed long enough ago.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.snapshot.policies import OffloadThresholds
from ledgerfs_cluster.snapshot.survey import TopicLedgers


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a topic's thresholds choose, by rows of its ledgers.

    Attributes
    ----------
    rows
        Ascending: the oldest is offloaded first.
    since_ms
        From when on the first of them that was due has been, ms since 1970 UTC; None if none is.
    bytes_left, ms_left
        How many bytes more, or ms more, the next ledger needs that is closed and not offloaded; -1 where that is no threshold.
    next_row
        That ledger; None without one.

    """

    rows: tuple[int, ...]
    since_ms: int | None
    next_row: int | None = None
    bytes_left: int = -1
    ms_left: int = -1


def chosen_of(ledgers: TopicLedgers, thresholds: OffloadThresholds, now_ms: int) -> Chosen:
    """Return what a broker would choose of a topic; a ledger without a time of closing is still open."""
    rows = np.flatnonzero(ledgers.closed_ms != 0)
    sizes, closed_ms = ledgers.sizes[rows], ledgers.closed_ms[rows]
    behind = np.cumsum(sizes[::-1])[::-1]
    is_due = np.zeros(rows.size, np.bool_)
    if thresholds.size >= 0:
        is_due |= behind > thresholds.size
    if thresholds.time_ms >= 0:
        is_due |= now_ms - closed_ms >= thresholds.time_ms
    is_local = ~ledgers.are_offloaded[rows]
    due = np.flatnonzero(is_due & is_local)
    since = min((_due_since(int(one), sizes, closed_ms, thresholds) for one in due[:1]), default=None)
    waiting = np.flatnonzero(is_local & ~is_due)
    found = tuple(rows[due].tolist())
    if not waiting.size or thresholds.is_off:
        return Chosen(found, since)
    first = int(waiting[0])
    return Chosen(
        found,
        since,
        int(rows[first]),
        -1 if thresholds.size < 0 else thresholds.size - int(behind[first]) + 1,
        -1 if thresholds.time_ms < 0 else thresholds.time_ms - (now_ms - int(closed_ms[first])),
    )


def _due_since(row: int, sizes: Int64, closed_ms: Int64, thresholds: OffloadThresholds) -> int:
    """Return when a ledger that is due became so: by its age, or when the ledger was closed with which the sum was over the threshold."""
    times: list[int] = []
    if thresholds.time_ms >= 0:
        times.append(int(closed_ms[row]) + thresholds.time_ms)
    if thresholds.size >= 0:
        enough = row + int(np.searchsorted(np.cumsum(sizes[row:]), thresholds.size, side="right"))
        if enough < sizes.size:
            times.append(int(closed_ms[enough]))
    return min(times)
