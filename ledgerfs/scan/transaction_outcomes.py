"""Outcomes of transactions: their markers may be in a later ledger than their messages, or not written yet.

The outcome of a message is that of the first marker of its transaction after it, however far away. If there is none up to the topic's end,
it is that of the last marker before it, in its own ledger or the previous one of its block of ids: the end of a transaction may overtake
its last messages, which follow soon after it. Without either, the transaction is open. Markers that another cluster wrote
(`ledgerfs.ledgers.id_blocks`) are those of other transactions with the same ids. All of that depends on the message's place in its topic,
never on where reading began.
"""

from bisect import bisect_right
from collections.abc import Iterator, MutableMapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from cachetools import LRUCache

from ledgerfs.ledgers.id_blocks import blocks_of, first_of_clusters
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.entry_fields import EntryRows, Transaction, markers_at, outcomes_in, transactions_at
from ledgerfs.messages.decode.metadata_walk import Int64Table, walk_metadata
from ledgerfs.scan.topic_entries import Place, Reach, read_entries

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.messages.decode.entries import Skipped


OPEN = "open"
"""The state of a transaction without an outcome up to the topic's end."""

_MOST_LEDGERS = 64
_LEDGERS_BEFORE = 2


class Position(NamedTuple):
    """An entry by the id of its ledger and its own; positions order as the topic does."""

    ledger_id: int
    entry_id: int


_END = Position(2**63 - 1, 2**63 - 1)


class TransactionOutcome(NamedTuple):
    """The outcome of the messages of a transaction from one position on, up to that of the marker.

    Attributes
    ----------
    at
        Position of the marker; after everything that its cluster wrote if there is none up to there, or to the topic's end.

    """

    since: Position
    at: Position
    state: str


Known = MutableMapping[Transaction, tuple[TransactionOutcome, ...]]
"""{transaction: its known outcomes}."""


class TransactionOutcomes:
    """The outcomes of transactions, for which entries are read ahead only as far as needed: a topic without transactions costs nothing.

    Parameters
    ----------
    ledgers
        All ledgers of the topic.
    known
        The known outcomes; new ones are added.
    ends
        Ids of ledgers that end clusters, and cannot be read.

    Attributes
    ----------
    any_open
        Whether the transaction of a requested message has no marker after the message, up to the topic's end.
    sources
        Ids of the ledgers with the markers of the requested outcomes.
    across
        The least and the greatest id of the ledgers with requested messages and their markers, between which other ledgers may come with
        further markers; None if there is no id between them.

    """

    def __init__(
        self, ledgers: Sequence[LedgerReader], known: Known, ends: Sequence[int] = (), *, is_damage_skipped: bool
    ) -> None:
        self.any_open = False
        self.sources: set[int] = set()
        self.across: tuple[int, int] | None = None
        self._ledgers = ledgers
        self._ends = ends
        # The scan reports damage when it reads these entries itself; here it is only skipped.
        self._skipped: list[Skipped] | None = [] if is_damage_skipped else None
        self._known = known
        self._ahead: Iterator[tuple[Place, EntryBatch]] | None = None
        self._since = _END
        self._stop = 0
        self._without_end: dict[tuple[Transaction, Position], str] = {}
        self._markers: LRUCache[int, dict[Transaction, list[tuple[int, str]]]] = LRUCache(_LEDGERS_BEFORE)

    def look_ahead(self, place: Place, entries: Int64Table, rows: EntryRows) -> None:
        """Find the outcomes of the messages ``rows``; reads on from where the last call ended, at first from ``place``."""
        ledger_id = self._ledgers[place.number].ref.ledger_id
        positions = (Position(ledger_id, place.entry + row) for row in rows.tolist())
        wanted = list(zip(transactions_at(entries, rows), positions, strict=True))
        unknown = {(one, position) for one, position in wanted if self._find(one, position) is None}
        if unknown and (self._ahead is None or place.number >= self._stop):
            self._since = Position(ledger_id, place.entry)
            self._stop = self._cluster_of(place.number)[1]
            self._ahead = self._entries_from(place, self._stop)
        while unknown:
            assert self._ahead is not None  # noqa: S101  (set for the first unknown one)
            found = next(self._ahead, None)
            if found is None:
                end = self._end_of(self._stop)
                for transaction, _ in unknown:
                    self._add(transaction, TransactionOutcome(self._since_last(transaction, end), end, OPEN))
                break
            told = self._take(*found)
            unknown = {
                (one, position) for one, position in unknown if one not in told or self._find(one, position) is None
            }
        self._without_end = {
            (one, position): self._outcome_before(one, place.number, position)
            for one, position in wanted
            if (outcome := self._find(one, position)) is not None and outcome.state == OPEN
        }

    def state_of(self, transaction: Transaction, ledger_id: int, entry_id: int) -> str:
        """Return ``committed``, ``aborted`` or `OPEN` for a message that `look_ahead` looked for."""
        position = Position(ledger_id, entry_id)
        outcome = self._find(transaction, position)
        if outcome is None or outcome.state == OPEN:
            self.any_open = True
            return self._without_end.get((transaction, position), OPEN)
        self._note_source(ledger_id, outcome.at.ledger_id)
        return outcome.state

    def are_visible(self, place: Place, entries: Int64Table, rows: EntryRows) -> list[bool]:
        """Return for each row of a transaction whether that is committed, or the row is a marker."""
        ledger_id = self._ledgers[place.number].ref.ledger_id
        found = zip(rows.tolist(), markers_at(entries, rows), transactions_at(entries, rows), strict=True)
        return [
            is_marker or self.state_of(transaction, ledger_id, place.entry + row) == "committed"
            for row, is_marker, transaction in found
        ]

    def first_open(self, place: Place, entries: Int64Table, rows: EntryRows) -> int | None:
        """Return the first of the rows that is a message of a transaction which may still end; None without one.

        What a lost cluster left open is over: readers of the cluster that came after it go on.
        """
        if self._cluster_of(place.number)[1] < len(self._ledgers):
            return None
        ledger_id = self._ledgers[place.number].ref.ledger_id
        found = zip(rows.tolist(), markers_at(entries, rows), transactions_at(entries, rows), strict=True)
        return next(
            (
                row
                for row, is_marker, transaction in found
                if not is_marker and self.state_of(transaction, ledger_id, place.entry + row) == OPEN
            ),
            None,
        )

    def _note_source(self, of_message: int, of_marker: int) -> None:
        self.sources.add(of_marker)
        if abs(of_message - of_marker) > 1:
            self.across = _spanned(*(self.across or (of_message, of_marker)), of_message, of_marker)

    def _find(self, transaction: Transaction, position: Position) -> TransactionOutcome | None:
        for one in self._known.get(transaction, ()):
            if one.since <= position <= one.at:
                return one
        return None

    def _take(self, place: Place, batch: "EntryBatch") -> set[Transaction]:
        """Remember the markers among some entries ahead; return their transactions."""
        ledger_id = self._ledgers[place.number].ref.ledger_id
        told = set()
        for row, transaction, state in outcomes_in(walk_metadata(batch)):
            at = Position(ledger_id, batch.id_of(row))
            self._add(transaction, TransactionOutcome(self._since_last(transaction, at), at, state))
            told.add(transaction)
        return told

    def _since_last(self, transaction: Transaction, at: Position) -> Position:
        """Return the position from which on a transaction has no other marker before ``at``, as far back as was read."""
        before = (one.at for one in self._known.get(transaction, ()) if one.at < at)
        return max((self._since, *(Position(last.ledger_id, last.entry_id + 1) for last in before)))

    def _add(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        """Remember an outcome, unless another scan has added it."""
        known = self._known.get(transaction, ())
        same = next((one for one in known if one[1:] == outcome[1:]), None)
        if same is None:
            self._known[transaction] = (*known, outcome)
        elif outcome.since < same.since:
            self._known[transaction] = tuple(outcome if one is same else one for one in known)

    def _outcome_before(self, transaction: Transaction, number: int, position: Position) -> str:
        """Return the outcome of the last marker before a message, in its own ledger or the previous one."""
        for one in range(number, max(-1, number - _LEDGERS_BEFORE), -1):
            if self._blocks[one] != self._blocks[number]:
                break
            told = [
                state
                for entry, state in self._markers_in(one).get(transaction, ())
                if entry < position.entry_id or one < number
            ]
            if told:
                self._note_source(position.ledger_id, self._ledgers[one].ref.ledger_id)
                return told[-1]
        return OPEN

    def _markers_in(self, number: int) -> dict[Transaction, list[tuple[int, str]]]:
        """Return the markers of a ledger: {transaction: [(entry, outcome)]}."""
        found = self._markers.get(number)
        if found is None:
            found = self._markers[number] = {}
            for _, batch in read_entries(self._ledgers, Reach.of(range(number, number + 1)), self._skipped):
                for row, transaction, state in outcomes_in(walk_metadata(batch)):
                    found.setdefault(transaction, []).append((batch.id_of(row), state))
        return found

    @cached_property
    def _firsts(self) -> list[int]:
        return first_of_clusters([one.ref for one in self._ledgers], self._ends)

    @cached_property
    def _blocks(self) -> list[int]:
        return blocks_of(one.ref for one in self._ledgers)

    def _cluster_of(self, number: int) -> tuple[int, int]:
        """Return the numbers of the first ledger that the cluster of one wrote, and of the first behind its last."""
        which = bisect_right(self._firsts, number)
        return self._firsts[which - 1], [*self._firsts, len(self._ledgers)][which]

    def _end_of(self, stop: int) -> Position:
        """Return the position behind everything before a ledger of this number."""
        return Position(self._ledgers[stop].ref.ledger_id, -1) if stop < len(self._ledgers) else _END

    def _entries_from(self, place: Place, end: int) -> "Iterator[tuple[Place, EntryBatch]]":
        """Yield all entries from a place to a ledger; few ledgers at a time at first, since markers are seldom far away."""
        start, ledgers = place, 1
        while start.number < end:
            stop = Place(min(start.number + ledgers, end), 0)
            yield from read_entries(self._ledgers, Reach(start, stop), self._skipped)
            ledgers, start = min(2 * ledgers, _MOST_LEDGERS), stop


def _spanned(*ids: int) -> tuple[int, int]:
    return min(ids), max(ids)
