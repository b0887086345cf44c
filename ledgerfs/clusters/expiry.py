"""The time to live: whose it is, and where it moves the subscriptions of a topic, as far as the times of entries are known.

It only moves subscriptions forward. So where its effect is not known, what is said without it to go goes anyway, and more may.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np

from ledgerfs.clusters.answers import LastEnd
from ledgerfs.clusters.expiry_search import ExpirySearch, Position, moved_to
from ledgerfs.clusters.survey import Survey, TopicLedgers, is_of_brokers
from ledgerfs.clusters.tables import Table
from ledgerfs.formats.array_types import Mask

_EXEMPT = ("__compaction", "pulsar.dedup")
"""Cursors that are no subscriptions of a loaded topic; those of replication are expired, too."""


class ExpiryState(Enum):
    """What is known of the effect of a time to live."""

    NONE = "none"
    """There is none, or nothing that it could expire."""
    KNOWN = "known"
    UNKNOWN = "unknown"


class Moved(NamedTuple):
    """The cursors of a topic as its time to live leaves them.

    Attributes
    ----------
    cursors
        Rows of `CURSOR`; where nothing is known, as they are.
    ttl_ms
        The time to live; 0 for none.
    expired
        Up to where it acknowledges; None for nothing, or if that is not known.

    """

    cursors: Table
    state: ExpiryState
    ttl_ms: int
    expired: Position | None


class Wanted(NamedTuple):
    """A topic whose entries' times decide what is expired."""

    managed_ledger: str
    ttl_ms: int
    search: ExpirySearch


def ttl_of(survey: Survey, managed_ledger: str, broker_ttl_ms: int) -> int:
    """Return the time to live of a topic: its own, its namespace's or else the brokers', ms; 0 for none, as system topics have."""
    if is_of_brokers(managed_ledger):
        return 0
    told = survey.policies_of(managed_ledger).ttl_ms
    return max(0, broker_ttl_ms if told is None else told)


def moved_cursors(survey: Survey, topic: int, ledgers: TopicLedgers, broker_ttl_ms: int) -> Moved:
    """Return the cursors of the topic in a row as its time to live leaves them once a broker has it loaded."""
    name, cursors = survey.topics[topic], survey.cursors_of(topic)
    ttl_ms = ttl_of(survey, name, broker_ttl_ms)
    movable = _movable(survey, cursors, ledgers) if ttl_ms else np.zeros(cursors.size, np.bool_)
    if not movable.any():
        return Moved(cursors, ExpiryState.NONE, ttl_ms, None)
    told = survey.expiries.get(name)
    if told is None or told.trouble is not None or told.ttl_ms != ttl_ms:
        return Moved(cursors, ExpiryState.UNKNOWN, ttl_ms, None)
    if told.position is None:
        return Moved(cursors, ExpiryState.KNOWN, ttl_ms, None)
    cursors = cursors.copy()
    for row in np.flatnonzero(movable).tolist():
        mark = int(cursors["mark_ledger"][row]), int(cursors["mark_entry"][row])
        holes = survey.holes[int(cursors["hole_ranges"][row])] if cursors["hole_ranges"][row] >= 0 else _NO_HOLES
        cursors[["mark_ledger", "mark_entry"]][row] = moved_to(ledgers, mark, told.position, holes)
    return Moved(cursors, ExpiryState.KNOWN, ttl_ms, told.position)


def searches(survey: Survey, broker_ttl_ms: int, now_ms: int) -> Iterator[Wanted]:
    """Yield a search for each topic with a time to live, without those of which an answer is there, or whose end is not known."""
    for row, name in enumerate(survey.topics):
        if name in survey.expiries or survey.topic_table["cursors"][row] == 0:
            continue
        ttl_ms = ttl_of(survey, name, broker_ttl_ms)
        if not ttl_ms:
            continue
        ledgers = survey.ledgers_of(row)
        if ledgers.last_end is not LastEnd.UNKNOWN and _movable(survey, survey.cursors_of(row), ledgers).any():
            yield Wanted(name, ttl_ms, ExpirySearch(ledgers, now_ms - ttl_ms))


_NO_HOLES = np.empty((0, 3), np.int64)


def _movable(survey: Survey, cursors: Table, ledgers: TopicLedgers) -> Mask:
    """Return which cursors are expired, and not at the end of the topic."""
    exempt = np.array([survey.cursor_names[one] in _EXEMPT for one in cursors["name"].tolist()], np.bool_)
    filled = np.flatnonzero(ledgers.entries > 0)
    if ledgers.last_end is LastEnd.UNKNOWN or not filled.size:
        return ~exempt & (ledgers.last_end is LastEnd.UNKNOWN)
    last_ledger, last_entry = ledgers.ids[filled[-1]], ledgers.entries[filled[-1]] - 1
    at_ledger, at_entry = cursors["mark_ledger"], cursors["mark_entry"]
    is_at_end = (at_ledger > last_ledger) | ((at_ledger == last_ledger) & (at_entry >= last_entry))
    movable: Mask = ~exempt & ~is_at_end
    return movable
