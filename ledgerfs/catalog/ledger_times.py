"""Limits of the publish times of each ledger, as far as the catalog knows them.

They follow from three facts. No message of a ledger was published before the ledger was created: a broker creates it first, and an import
takes the earliest publish time of its rows as the creation. The messages of a ledger that a broker wrote were published before the same
broker created the next one. And the clocks behind these times differ by no more than the slack.

A ledger that ledgerfs made of rows or records, or copied from another topic or id, has no end: its messages are of any time, and it limits
no other ledger. If the creations of the other ledgers do not all ascend (copies by earlier versions, several clusters), ids are not in the
order of time, and no ledger of the topic has an end.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ledgerfs.catalog.catalog_rows import Table
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.time_arguments import CLOCK_SLACK_MS
from ledgerfs.formats.array_types import Int64, Mask

_LOWEST, _HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Publish times from ``start_ms`` on and before ``end_ms``, ms since 1970 UTC, None for no limit; and how far clocks may be off."""

    start_ms: int | None
    end_ms: int | None
    slack_ms: int = CLOCK_SLACK_MS

    @property
    def has_limits(self) -> bool:
        """Whether the range has a start or an end."""
        return self.start_ms is not None or self.end_ms is not None

    def is_behind(self, time_ms: int) -> bool:
        """Whether the range begins after this time, even if clocks are off by the slack."""
        return self.start_ms is not None and time_ms + self.slack_ms < self.start_ms

    def is_before(self, time_ms: int) -> bool:
        """Whether the range ends before this time, even if clocks are off by the slack."""
        return self.end_ms is not None and time_ms - self.slack_ms >= self.end_ms


@dataclass(frozen=True, slots=True)
class LedgerTimes:
    """Limits of publish times, ms since 1970 UTC, for ledgers in their order.

    Attributes
    ----------
    earliest, latest
        No message of the ledger was published before the one, or after the other, except for the slack; the least and the greatest
        integer if unknown.
    is_known
        Whether its creation is known.
    is_in_order
        Whether it is in the order of time among the ledgers of its topic: then a time within it also limits the ledgers before and
        after it.

    """

    earliest: Int64
    latest: Int64
    is_known: Mask
    is_in_order: Mask

    @classmethod
    def of(cls, created_ms: Int64, is_ordered: Mask, topics: Int64) -> "LedgerTimes":
        """Return the limits for ledgers of several topics.

        Parameters
        ----------
        created_ms
            When each ledger was created, ms since 1970 UTC; 0 or less if unknown.
        is_ordered
            Which ledgers a broker wrote (`LedgerRef.is_ordered`).
        topics
            For each ledger the number of its topic, ascending; within a topic, ledgers ascend by their ids.

        """
        size = created_ms.size
        is_known = created_ms > 0
        tells = is_known & is_ordered
        # Ranks instead of times, so that those of one topic can be raised above those of all earlier topics.
        rank = np.unique(created_ms, return_inverse=True)[1].reshape(-1) + topics * (size + 1)
        before = _shifted(np.maximum.accumulate(np.where(tells, rank, -1)), -1, 1)
        behind = _shifted(np.minimum.accumulate(np.where(tells, rank, _HIGHEST)[::-1])[::-1], _HIGHEST, -1)
        is_between = (before < rank) & (rank < behind)
        # Equal times of two ledgers of one topic do not ascend.
        is_proof = tells & is_between
        # A single one that does not ascend proves that ids are not in the order of time in that topic.
        is_astray = np.isin(topics, topics[tells & ~is_between])
        is_in_order = is_ordered & ~is_astray
        places = np.arange(size)
        next_proof = _shifted(np.minimum.accumulate(np.where(is_proof, places, size)[::-1])[::-1], size, -1)
        last_proof = np.maximum.accumulate(np.where(is_proof, places, -1))
        latest = np.where(is_in_order, _of_same_topic(created_ms, topics, next_proof, _HIGHEST), _HIGHEST)
        earliest = np.where(is_in_order, _of_same_topic(created_ms, topics, last_proof, _LOWEST), _LOWEST)
        return cls(np.where(is_known, created_ms, earliest), latest, is_known, is_in_order)

    @classmethod
    def of_table(cls, table: Table, topics: Int64) -> "LedgerTimes":
        """Return the limits for rows of `LEDGER`."""
        return cls.of(table["created_ms"].astype(np.int64), table["ordered"].astype(bool), topics)

    @classmethod
    def of_refs(cls, refs: Iterable[LedgerRef]) -> "LedgerTimes":
        """Return the limits for all ledgers of one topic."""
        told = [(ref.created_ms or 0, ref.is_ordered) for ref in refs]
        created = np.array([one for one, _ in told], np.int64)
        return cls.of(created, np.array([one for _, one in told], bool), np.zeros(created.size, np.int64))

    @classmethod
    def unknown(cls, size: int) -> "LedgerTimes":
        """Return no limits for ``size`` ledgers."""
        nothing = np.zeros(size, bool)
        return cls(np.full(size, _LOWEST), np.full(size, _HIGHEST), nothing, nothing)

    def may_have(self, times: TimeRange) -> Mask:
        """Return which ledgers may have messages of a range of time."""
        keep = np.ones(self.earliest.size, bool)
        if times.start_ms is not None:
            keep &= self.latest >= _limit(times.start_ms - times.slack_ms)
        if times.end_ms is not None:
            keep &= self.earliest < _limit(times.end_ms + times.slack_ms)
        return keep

    def are_left_out_by_others(self, times: TimeRange) -> Mask:
        """Return which ledgers cannot have messages of a range of time only because of when others of their topic were created."""
        left_out = ~self.may_have(times)
        if times.end_ms is not None:
            left_out &= ~(self.is_known & (self.earliest >= _limit(times.end_ms + times.slack_ms)))
        return left_out


def _shifted(values: Int64, first: int, step: int) -> Int64:
    """Return for each row the value of the row before it (``step`` 1) or after it (-1)."""
    shifted = np.full_like(values, first)
    if step > 0:
        shifted[1:] = values[:-1]
    else:
        shifted[:-1] = values[1:]
    return shifted


def _of_same_topic(created_ms: Int64, topics: Int64, places: Int64, unknown: int) -> Int64:
    """Return for each ledger the creation of the ledger in row ``places``, if that is of the same topic; ``unknown`` otherwise."""
    if not places.size:
        return places
    is_place = (places >= 0) & (places < places.size)
    inside = np.where(is_place, places, 0)
    return np.where(is_place & (topics[inside] == topics), created_ms[inside], unknown)


def _limit(time_ms: int) -> int:
    """Return a time clipped to what a column can hold, without the values that mean no limit."""
    return min(max(time_ms, _LOWEST + 1), _HIGHEST)
