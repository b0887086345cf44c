"""Ledgers that a broker would offload at a topic's next rollover, by its thresholds.

The rule is that of a broker's trigger, and was compared with it in runs: sum sizes from the newest closed ledger back, offloaded ledgers
included; choose a ledger that is not offloaded if the sum including it exceeds the threshold, or if it was closed long enough ago.
"""

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.snapshot.policies import OffloadThresholds
from ledgerfs_cluster.snapshot.survey import TopicLedgers


def chosen_of(ledgers: TopicLedgers, thresholds: OffloadThresholds, now_ms: int) -> Int64:
    """Return the rows that a broker would choose, ascending; a ledger without a closing time is still open."""
    rows = np.flatnonzero(ledgers.closed_ms != 0)
    sizes, closed_ms = ledgers.sizes[rows], ledgers.closed_ms[rows]
    is_due = np.zeros(rows.size, np.bool_)
    if thresholds.size >= 0:
        is_due |= np.cumsum(sizes[::-1])[::-1] > thresholds.size
    if thresholds.time_ms >= 0:
        is_due |= now_ms - closed_ms >= thresholds.time_ms
    found: Int64 = rows[is_due & ~ledgers.are_offloaded[rows]]
    return found
