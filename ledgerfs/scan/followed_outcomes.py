"""Find outcomes of transactions in a topic that grows: from the markers written so far; waits for the others.

As in a scan, the outcome of a message is that of the first marker of its transaction after it, else that of the last one before it, in its
own ledger or the previous one. Markers are remembered as long as messages may need them, entries are not: after the first message without
an outcome, entries are read again once it has one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.catalog.tail import Next
from ledgerfs.errors import NotFoundError, StaleObjectError
from ledgerfs.messages.decode.entry_fields import EntryRows, Transaction, markers_at, outcomes_in, transactions_at
from ledgerfs.messages.decode.metadata_walk import Int64Table, walk_metadata
from ledgerfs.scan.topic_entries import Place, Reach, read_entries
from ledgerfs.scan.transaction_outcomes import OPEN

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.messages.decode.entries import Skipped

_MOST_BACK = 64 << 20
"""Approximate bytes of entries before the start to search for markers that overtook their messages, which follow soon."""

_LEDGERS_BEFORE = 2
"""Ledgers with markers to remember before the one that is read; an empty one may lie between."""


class Undecided(NamedTuple):
    """The first of some rows whose transaction has no outcome yet, and the place of its message."""

    row: int
    transaction: Transaction
    at: Next


class FollowedOutcomes:
    """Remembers the markers of one topic.

    Parameters
    ----------
    start
        Where reading begins: markers are remembered from here on.
    before
        The ledgers up to the one of ``start``, or the last two of them.
    is_damage_skipped
        Whether to skip damaged entries here, because the reader of the topic reports them itself.

    """

    __slots__ = ("_before", "_markers", "_skipped", "_start", "seen")

    def __init__(self, start: Next, before: Sequence[LedgerReader], *, is_damage_skipped: bool) -> None:
        self.seen = start
        self._start = start
        self._before: Sequence[LedgerReader] | None = before
        self._skipped: list[Skipped] | None = [] if is_damage_skipped else None
        self._markers: dict[int, dict[Transaction, list[tuple[int, str]]]] = {}

    def take(self, ledger_id: int, batch: "EntryBatch", entries: Int64Table) -> None:
        """Remember the markers among entries, unless they were seen before."""
        end = Next(ledger_id, batch.last_entry + 1)
        if end <= self.seen:
            return
        for row, transaction, state in outcomes_in(entries):
            at = batch.id_of(row)
            if Next(ledger_id, at) >= self.seen:
                self._markers.setdefault(ledger_id, {}).setdefault(transaction, []).append((at, state))
        self.seen = end

    def look_ahead(self, ledgers: Sequence[LedgerReader], end: Next) -> None:
        """Remember the markers of all entries before ``end`` that are new; raises the errors of reading, and can then be called again."""
        for place, batch in read_entries(ledgers, reach_from(self.seen, ledgers), self._skipped):
            self.take(ledgers[place.number].ref.ledger_id, batch, walk_metadata(batch))
        self.seen = max(self.seen, end)

    def look_back(self) -> None:
        """Remember the markers shortly before the start, once; raises the errors of reading, and can then be called again."""
        if self._before is None:
            return
        found: dict[int, dict[Transaction, list[tuple[int, str]]]] = {}
        for ledger in self._before[-2:]:
            ref = ledger.ref
            behind = self._start.entry_id if ref.ledger_id == self._start.ledger_id else ledger.last_entry + 1
            first = max(0, behind - _MOST_BACK * max(1, ref.entries) // max(1, ref.length))
            if ref.ledger_id > self._start.ledger_id or first >= behind:
                continue
            reported = found.setdefault(ref.ledger_id, {})
            try:
                for _, batch in read_entries([ledger], Reach(Place(0, first), Place(0, behind)), self._skipped):
                    for row, transaction, state in outcomes_in(walk_metadata(batch)):
                        reported.setdefault(transaction, []).append((batch.id_of(row), state))
            except (StaleObjectError, NotFoundError):
                # Trimmed meanwhile: its markers are lost.
                found.pop(ref.ledger_id)
        for ledger_id, markers in found.items():
            own = self._markers.setdefault(ledger_id, {})
            for transaction, marks in markers.items():
                own[transaction] = marks + own.get(transaction, [])
        self._before = None

    def forget_before(self, ledger_id: int) -> None:
        """Forget the markers that no message from a ledger on needs."""
        for one in sorted(one for one in self._markers if one < ledger_id)[:-_LEDGERS_BEFORE]:
            del self._markers[one]

    def state_of(self, transaction: Transaction, ledger_id: int, entry_id: int) -> str:
        """Return ``committed``, ``aborted`` or `OPEN` for a message, by the markers seen so far."""
        before = OPEN
        for one in sorted(self._markers):
            for at, state in self._markers[one].get(transaction, ()):
                if (one, at) > (ledger_id, entry_id):
                    return state
                before = state
        return before

    def are_visible(
        self, ledger_id: int, batch: "EntryBatch", entries: Int64Table, rows: EntryRows
    ) -> tuple[list[bool], Undecided | None]:
        """Return whether each row is committed or a marker; and the first that is undecided, None without one."""
        visible, undecided = [], None
        found = zip(rows.tolist(), markers_at(entries, rows), transactions_at(entries, rows), strict=True)
        for row, is_marker, transaction in found:
            at = Next(ledger_id, batch.id_of(row))
            state = "committed" if is_marker else self.state_of(transaction, *at)
            visible.append(state == "committed")
            if state == OPEN and undecided is None:
                undecided = Undecided(row, transaction, at)
        return visible, undecided

    def is_decided(self, one: Undecided) -> bool:
        """Whether the marker of a transaction has arrived."""
        return self.state_of(one.transaction, *one.at) != OPEN


def reach_from(position: Next, ledgers: Sequence[LedgerReader]) -> Reach:
    """Return all entries of some ledgers from a position on."""
    number = sum(one.ref.ledger_id < position.ledger_id for one in ledgers)
    is_inside = number < len(ledgers) and ledgers[number].ref.ledger_id == position.ledger_id
    return Reach(Place(number, position.entry_id if is_inside else 0), Place(len(ledgers), 0))
