"""Up to where the time to live of a topic acknowledges, found as brokers find it: by a binary search over the times of entries.

Publish times need not ascend, so the entries that are looked at decide what is found. These are those of a broker's own check, which looks
once for all subscriptions of a topic: times at which ledgers were closed bound the search, with a minute for clocks that differ; the first
entry is looked at, then the last, then the middle of what is left.
"""

from enum import Enum

import numpy as np

from ledgerfs.clusters.survey import TopicLedgers
from ledgerfs.formats.array_types import Int64

CLOCK_SKEW_MS = 60_000
"""By how much brokers take clocks to differ (managedLedgerCursorResetLedgerCloseTimestampMaxClockSkewMillis)."""

Position = tuple[int, int]


class _State(Enum):
    FIRST = 1
    LAST = 2
    BETWEEN = 3
    DONE = 4


class ExpirySearch:
    """One search: tells which entry to look at next, and is told whether that was published before the time.

    Parameters
    ----------
    ledgers
        All ledgers of the topic, with the end of the last one.
    before_ms
        Entries published before are expired, ms since 1970 UTC.

    Attributes
    ----------
    found
        The newest expired entry that was met; None while there is none.

    """

    __slots__ = ("_ends", "_high", "_ids", "_low", "_middle", "_start", "_state", "before_ms", "found")

    def __init__(self, ledgers: TopicLedgers, before_ms: int) -> None:
        has_entries = ledgers.entries > 0
        self._ids = ledgers.ids[has_entries]
        self._ends: Int64 = np.cumsum(ledgers.entries[has_entries])
        self.before_ms = before_ms
        self.found: Position | None = None
        self._start, end = self._bounds(ledgers.closed_ms[has_entries])
        self._low, self._high = 0, end - self._start + 1
        self._middle = 0
        self._state = _State.FIRST if self._ends.size else _State.DONE

    @property
    def next_entry(self) -> Position | None:
        """Which entry to look at; None if the search is done."""
        if self._state is _State.DONE:
            return None
        step = {_State.FIRST: 0, _State.LAST: self._high, _State.BETWEEN: self._middle}[self._state]
        # Behind the end of the topic brokers look at its last entry.
        place = min(self._start + step, int(self._ends[-1]) - 1)
        row = int(np.searchsorted(self._ends, place, side="right"))
        return int(self._ids[row]), place - (int(self._ends[row - 1]) if row else 0)

    def tell(self, time_ms: int | None) -> None:
        """Go on with the time of `next_entry`, ms since 1970 UTC; None for what is no message, which brokers never expire."""
        is_expired = time_ms is not None and time_ms < self.before_ms
        if is_expired:
            self.found = self.next_entry
        if self._state is _State.FIRST:
            self._state = _State.LAST if is_expired else _State.DONE
        elif self._state is _State.LAST:
            self._state = _State.DONE if is_expired else _State.BETWEEN
        elif is_expired:
            self._low = self._middle
        else:
            self._high = self._middle - 1
        self._middle = self._low + max((self._high - self._low) // 2, 1)
        if self._state is _State.BETWEEN and self._high <= self._low:
            self._state = _State.DONE

    def _bounds(self, closed_ms: Int64) -> tuple[int, int]:
        """Return the places of the first and last entry of the search, among all of the topic."""
        if not self._ends.size:
            return 0, 0
        is_open, is_late = closed_ms == 0, closed_ms > self.before_ms + CLOCK_SKEW_MS
        stops = np.flatnonzero(is_open | is_late)
        stop = int(stops[0]) if stops.size else closed_ms.size
        end = stop if stop < closed_ms.size and not is_open[stop] else closed_ms.size - 1
        early = np.flatnonzero(closed_ms[:stop] <= self.before_ms - CLOCK_SKEW_MS)
        return int(self._ends[early[-1]]) - 1 if early.size else 0, int(self._ends[end]) - 1


def moved_to(ledgers: TopicLedgers, mark: Position, expired: Position, holes: Int64) -> Position:
    """Return where a subscription is after what is ``expired``: never back, and over what it has acknowledged one by one behind that.

    ``holes`` has shape (ranges, 3): ledger, first and last entry that are acknowledged, by ledger and entry.
    """
    if mark >= expired:
        return mark
    ledger_id, entry = expired
    for hole_ledger, first, last in holes[np.searchsorted(holes[:, 0], ledger_id) :].tolist():
        if (hole_ledger, last) <= (ledger_id, entry):
            continue
        if (hole_ledger, first) > _after(ledgers, (ledger_id, entry)):
            break
        ledger_id, entry = hole_ledger, last
    return ledger_id, entry


def _after(ledgers: TopicLedgers, position: Position) -> Position:
    """Return the entry behind a position; one behind the end of the topic at its end."""
    ledger_id, entry = position
    at = int(np.searchsorted(ledgers.ids, ledger_id))
    if at < ledgers.ids.size and ledgers.ids[at] == ledger_id and entry + 1 < ledgers.entries[at]:
        return ledger_id, entry + 1
    later = np.flatnonzero((ledgers.ids > ledger_id) & (ledgers.entries > 0))
    return (int(ledgers.ids[later[0]]), 0) if later.size else (ledger_id, entry + 1)
