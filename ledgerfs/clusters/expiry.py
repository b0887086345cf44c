"""The time to live: whose it is, and how far it moves the subscriptions of a topic at least.

Entries are not read for it. A ledger that was closed longer ago than the time to live has only entries that are older, so subscriptions
move behind it; in the next ledger they may move further. Since whole ledgers are trimmed, that decides little: what is said to go then
goes, and more may.
"""

from typing import NamedTuple

import numpy as np

from ledgerfs.clusters.survey import Survey, TopicLedgers, is_of_brokers
from ledgerfs.clusters.tables import Table

_EXEMPT = ("__compaction", "pulsar.dedup")
"""Cursors that are no subscriptions of a loaded topic; those of replication are expired, too."""


class Moved(NamedTuple):
    """The cursors of a topic as its time to live leaves them.

    Attributes
    ----------
    cursors
        Rows of `CURSOR`.
    ttl_ms
        The time to live; 0 for none.

    """

    cursors: Table
    ttl_ms: int


def ttl_of(survey: Survey, managed_ledger: str, broker_ttl_ms: int) -> int:
    """Return the time to live of a topic: its own, its namespace's or else the brokers', ms; 0 for none, as system topics have."""
    if is_of_brokers(managed_ledger):
        return 0
    told = survey.policies_of(managed_ledger).ttl_ms
    return max(0, broker_ttl_ms if told is None else told)


def moved_cursors(survey: Survey, topic: int, ledgers: TopicLedgers, broker_ttl_ms: int, now_ms: int) -> Moved:
    """Return the cursors of the topic in a row as its time to live leaves them at least once a broker has it loaded."""
    cursors = survey.cursors_of(topic)
    ttl_ms = ttl_of(survey, survey.topics[topic], broker_ttl_ms)
    filled = np.flatnonzero(ledgers.entries > 0)
    closed_ms = ledgers.closed_ms[filled]
    younger = np.flatnonzero((closed_ms == 0) | (closed_ms >= now_ms - ttl_ms))
    expired = filled[: younger[0]] if younger.size else filled
    if not ttl_ms or not expired.size:
        return Moved(cursors, ttl_ms)
    ledger_id, entry = ledgers.ids[expired[-1]], ledgers.entries[expired[-1]] - 1
    at_ledger, at_entry = cursors["mark_ledger"], cursors["mark_entry"]
    is_before = (at_ledger < ledger_id) | ((at_ledger == ledger_id) & (at_entry < entry))
    is_exempt = np.array([survey.cursor_names[one] in _EXEMPT for one in cursors["name"].tolist()], np.bool_)
    cursors = cursors.copy()
    cursors[["mark_ledger", "mark_entry"]][is_before & ~is_exempt] = (ledger_id, entry)
    return Moved(cursors, ttl_ms)
