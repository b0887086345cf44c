"""Limits of each ledger's publish times, from the catalog.

They follow from three facts. All messages of a ledger were published after its creation: a broker creates it first, and an import sets the
creation to the earliest publish time of its rows. All messages of a ledger that a broker wrote were published before the broker created
the next one. And the clocks behind these times differ at most by the slack.

A ledger that ledgerfs wrote from rows or records, or copied from another topic or id, has no end: its messages may have any time, and it
does not limit other ledgers. If the creations of the other ledgers do not all ascend (copies by earlier versions, several clusters), ids
are not in the order of time, and the topic's ledgers have no end.
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
    """Publish times from ``start_ms`` on and before ``end_ms``, ms since 1970 UTC, None for no limit; with the slack of clocks."""

    start_ms: int | None
    end_ms: int | None
    slack_ms: int = CLOCK_SLACK_MS

    @property
    def has_limits(self) -> bool:
        """Whether the range has a start or an end."""
        return self.start_ms is not None or self.end_ms is not None

    def is_behind(self, time_ms: int) -> bool:
        """Return whether the range begins after this time plus the slack."""
        return self.start_ms is not None and time_ms + self.slack_ms < self.start_ms

    def is_before(self, time_ms: int) -> bool:
        """Return whether the range ends before this time minus the slack."""
        return self.end_ms is not None and time_ms - self.slack_ms >= self.end_ms


@dataclass(frozen=True, slots=True)
class LedgerTimes:
    """Limits of publish times, ms since 1970 UTC, for ledgers in their order.

    Attributes
    ----------
    earliest, latest
        First and last possible publish time, up to the slack; the least and the greatest integer if unknown.
    is_known
        Whether its creation is known.
    is_in_order
        Whether it is in order of time among the ledgers of its topic: then a time in it also limits the ledgers before and after it.

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
            Creation of each ledger, ms since 1970 UTC; 0 or less if unknown.
        is_ordered
            Whether a broker wrote each ledger (`LedgerRef.is_ordered`).
        topics
            The number of each ledger's topic, ascending; within a topic, ledgers ascend by id.

        """
        size = created_ms.size
        is_known = created_ms > 0
        reports = is_known & is_ordered
        # Ranks instead of times, so that a topic's ranks can be raised above those of all earlier topics.
        rank = np.unique(created_ms, return_inverse=True)[1].reshape(-1) + topics * (size + 1)
        before = _shifted(np.maximum.accumulate(np.where(reports, rank, -1)), -1, 1)
        behind = _shifted(np.minimum.accumulate(np.where(reports, rank, _HIGHEST)[::-1])[::-1], _HIGHEST, -1)
        is_between = (before < rank) & (rank < behind)
        # Equal times of two ledgers of one topic do not ascend.
        is_proof = reports & is_between
        # One time that does not ascend proves that the topic's ids are not in the order of time.
        is_astray = np.isin(topics, topics[reports & ~is_between])
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
        reported = [(ref.created_ms or 0, ref.is_ordered) for ref in refs]
        created = np.array([one for one, _ in reported], np.int64)
        return cls.of(created, np.array([one for _, one in reported], bool), np.zeros(created.size, np.int64))

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
        """Return which ledgers are outside of a range of time only because of the creation of other ledgers of their topic."""
        left_out = ~self.may_have(times)
        if times.end_ms is not None:
            left_out &= ~(self.is_known & (self.earliest >= _limit(times.end_ms + times.slack_ms)))
        return left_out


def _shifted(values: Int64, first: int, step: int) -> Int64:
    """Return each row's previous (``step`` 1) or next (-1) value."""
    shifted = np.full_like(values, first)
    if step > 0:
        shifted[1:] = values[:-1]
    else:
        shifted[:-1] = values[1:]
    return shifted


def _of_same_topic(created_ms: Int64, topics: Int64, places: Int64, unknown: int) -> Int64:
    """Return for each ledger the creation of the ledger in row ``places``, if it has the same topic, else ``unknown``."""
    if not places.size:
        return places
    is_place = (places >= 0) & (places < places.size)
    inside = np.where(is_place, places, 0)
    return np.where(is_place & (topics[inside] == topics), created_ms[inside], unknown)


def _limit(time_ms: int) -> int:
    """Return a time clipped to the range of a column, without the values for no limit."""
    return min(max(time_ms, _LOWEST + 1), _HIGHEST)
