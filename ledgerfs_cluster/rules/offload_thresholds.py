"""What a broker would offload of each topic, by its thresholds, at the topic's next rollover.

The rule is that of a broker's trigger, compared with it in runs: from the newest closed ledger back, sizes are added up, offloaded ledgers
too; a ledger is chosen that is not offloaded, if the sum with it is over the threshold, or if it was closed long enough ago.
"""

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.snapshot.policies import OffloadThresholds
from ledgerfs_cluster.snapshot.survey import TopicLedgers


def chosen_of(ledgers: TopicLedgers, thresholds: OffloadThresholds, now_ms: int) -> Int64:
    """Return the rows that a broker would choose of a topic, ascending; a ledger without a time of closing is still open."""
    rows = np.flatnonzero(ledgers.closed_ms != 0)
    sizes, closed_ms = ledgers.sizes[rows], ledgers.closed_ms[rows]
    is_due = np.zeros(rows.size, np.bool_)
    if thresholds.size >= 0:
        is_due |= np.cumsum(sizes[::-1])[::-1] > thresholds.size
    if thresholds.time_ms >= 0:
        is_due |= now_ms - closed_ms >= thresholds.time_ms
    found: Int64 = rows[is_due & ~ledgers.are_offloaded[rows]]
    return found
