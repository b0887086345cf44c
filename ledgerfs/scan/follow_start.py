"""Find where following a topic begins: at its end, at its beginning, at a time, or at a message."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from ledgerfs.catalog.ledger_times import TimeRange
from ledgerfs.catalog.tail import BEGINNING, Gone, Look, Next
from ledgerfs.catalog.time_arguments import Moment, milliseconds_of
from ledgerfs.errors import InvalidNameError, InvalidOptionError
from ledgerfs.scan.message_id import MessageId
from ledgerfs.scan.time_pruning import TimePruning
from ledgerfs.scan.topic_entries import Reach

if TYPE_CHECKING:
    from ledgerfs.scan.scan import Scan

FollowStart = Moment | tuple[int, ...]
"""``latest``, ``earliest``, a time, or the id of a message as text or tuple."""

_TRIMMED = "were trimmed before following began, if they existed"
_EXPECTED = "expected 'latest', 'earliest', a time (ISO 8601, datetime, date, ms since 1970), or the id of a message"


@dataclass(frozen=True, slots=True)
class StartAt:
    """A requested start.

    Attributes
    ----------
    start_ms
        Messages published from here on, ms since 1970 UTC.
    message
        This message is the first one; with ``is_behind``, the one after it.
    is_earliest
        With neither: whether to begin at the topic's beginning, not at its end.

    """

    start_ms: int | None = None
    message: MessageId | None = None
    is_behind: bool = False
    is_earliest: bool = False

    @classmethod
    def of(cls, start: Any, after: Any = None) -> "StartAt":  # noqa: ANN401  (checked)
        """Return the start for the arguments of `Topic.follow`; raises `InvalidOptionError`."""
        if after is not None:
            if start != "latest":
                raise InvalidOptionError("pass either start or after, not both", key=f"start={start!r}")
            return cls(message=_message(after), is_behind=True)
        if start in {"latest", "earliest"} if isinstance(start, str) else False:
            return cls(is_earliest=start == "earliest")
        if start is None:
            raise InvalidOptionError(_EXPECTED, key="start=None")
        if isinstance(start, str | Sequence) and not isinstance(start, bytes):
            try:
                return cls(message=MessageId.of(start))
            except InvalidNameError as error:
                if not isinstance(start, str):
                    raise InvalidOptionError(error.reason, key=f"start={start!r}") from error
        if not isinstance(start, str | date | int):
            raise InvalidOptionError(_EXPECTED, key=f"start={start!r}")
        try:
            return cls(start_ms=milliseconds_of(start))
        except InvalidOptionError as error:
            raise InvalidOptionError(f"{_EXPECTED}: {error.reason}", key=f"start={start!r}") from error


@dataclass(frozen=True, slots=True)
class Started:
    """Where reading begins: the next entry, the lost entries before it, and the first message to show of that entry."""

    position: Next
    gone: tuple[Gone, ...] = ()
    since: "FirstMessage | None" = None


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """The first message to show of an entry with several."""

    entry: Next
    index: int
    is_behind: bool

    def is_shown(self, entry: Next, index: int | None) -> bool:
        """Whether a message is not before it."""
        if entry != self.entry:
            return entry > self.entry
        return not self.is_behind if index is None else index >= self.index


def started(asked: StartAt, look: Look, scan: "Scan") -> Started:
    """Return where to begin in a topic by its first snapshot; raises `NotFoundError` for a message that does not exist."""
    if asked.message is not None:
        return _at_message(asked.message, look, is_behind=asked.is_behind)
    if asked.start_ms is not None:
        return Started(_at_time(asked.start_ms, look, scan))
    return Started(BEGINNING if asked.is_earliest else look.end)


def _message(given: Any) -> MessageId:  # noqa: ANN401
    try:
        return MessageId.of(given)
    except InvalidNameError as error:
        raise InvalidOptionError(error.reason, key=f"after={given!r}") from error


def _at_time(start_ms: int, look: Look, scan: "Scan") -> Next:
    """Return the first entry that may have been published from a time on, unless clocks differ by more than the slack."""
    times = TimeRange(start_ms, None, scan.options.clock_slack_ms)
    part = Reach.of(range(len(look.ledgers)))
    place, stop = TimePruning(look.ledgers, part, times, None, scan.options.check_checksums).pruned().reach
    if place == stop or place.number >= len(look.ledgers):
        return look.end
    return Next(look.ledgers[place.number].ref.ledger_id, place.entry)


def _at_message(message: MessageId, look: Look, *, is_behind: bool) -> Started:
    ledger_id, entry_id = message.last
    last = {one.ref.ledger_id: one.last_entry for one in look.ledgers}
    first = Next(ledger_id, entry_id)
    if ledger_id < min([*last, look.end.ledger_id]):
        behind = Next(ledger_id, entry_id + is_behind)
        return Started(behind, (Gone(*behind, None, _TRIMMED),))
    if ledger_id not in last:
        raise message.not_found("the topic has no such ledger, or no entry of it can be read yet")
    if entry_id > last[ledger_id]:
        raise message.not_found(f"the ledger ends with entry {last[ledger_id]}")
    if message.index is None:
        return Started(Next(ledger_id, entry_id + is_behind))
    return Started(first, since=FirstMessage(first, message.index + is_behind, is_behind))
