"""Find outcomes of transactions: their markers may be in a later ledger than their messages, or not written yet.

The outcome of a message is that of the first marker of its transaction after it, at any distance. If there is none up to the topic's end,
it is that of the last marker before it, in its own ledger or the previous one: the marker may overtake the transaction's last messages,
which follow soon after it. Without either, the transaction is open. All of that depends on the message's place in its topic, never on
where reading began.
"""

import logging
from collections.abc import Container, Iterable, Iterator, MutableMapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from cachetools import LRUCache

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.messages.decode.entry_fields import EntryRows, Transaction, markers_at, outcomes_in, transactions_at
from ledgerfs.messages.decode.metadata_walk import Int64Table, walk_metadata
from ledgerfs.scan.topic_entries import Place, Reach, read_entries

if TYPE_CHECKING:
    from ledgerfs.formats.records import EntryBatch
    from ledgerfs.messages.decode.entries import Skipped


_log = logging.getLogger("ledgerfs.scan")

OPEN = "open"
"""The state of a transaction without an outcome up to the topic's end."""

MOST_OUTCOMES = 100_000
"""Most transactions whose outcomes are remembered while entries are read ahead; of others, only those of requested messages are.

An open transaction requires reading all entries up to the topic's end. Messages whose outcomes were dropped require reading ahead again,
from their own place.
"""

_FAR_BYTES = 256 << 20
"""Bytes of entries to read ahead for one message before a warning is logged."""
_FILTER_BYTES = 8 << 20
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
        Position of the marker; after all others if there is none up to the topic's end.

    """

    since: Position
    at: Position
    state: str


Known = MutableMapping[Transaction, tuple[TransactionOutcome, ...]]
"""{transaction: its known outcomes}."""


class TransactionOutcomes:
    """The outcomes of transactions; reads entries ahead only as far as needed, so that a topic without transactions costs nothing.

    Parameters
    ----------
    ledgers
        All ledgers of the topic.
    known
        The known outcomes; new ones are added, about `MOST_OUTCOMES` at most.

    Attributes
    ----------
    any_open
        Whether the transaction of a requested message has no marker after the message, up to the topic's end.
    sources
        Ids of the ledgers with the markers of the requested outcomes.
    across
        The least and the greatest id of the ledgers with requested messages and their markers, between which other ledgers with more
        markers may appear; None if there is no id between them.

    """

    def __init__(self, ledgers: Sequence[LedgerReader], known: Known, *, is_damage_skipped: bool) -> None:
        self.any_open = False
        self.sources: set[int] = set()
        self.across: tuple[int, int] | None = None
        self._ledgers = ledgers
        # The scan reports damage when it reads these entries itself; here it is only skipped.
        self._skipped: list[Skipped] | None = [] if is_damage_skipped else None
        self._known = known
        self._ahead: Iterator[tuple[Place, EntryBatch]] | None = None
        self._since = _END
        self._left_out: _MayHave | None = None
        self._warned = False
        self._added = 0
        # Of the messages in the last call of `look_ahead`.
        self._found: dict[tuple[Transaction, Position], TransactionOutcome] = {}
        self._without_end: dict[tuple[Transaction, Position], str] = {}
        self._markers: LRUCache[int, dict[Transaction, list[tuple[int, str]]]] = LRUCache(_LEDGERS_BEFORE)

    def look_ahead(self, place: Place, batch: "EntryBatch", entries: Int64Table, rows: EntryRows) -> None:
        """Find the outcomes of the messages ``rows``; reads on from where the last call stopped, at first from ``place``."""
        ledger_id = self._ledgers[place.number].ref.ledger_id
        positions = (Position(ledger_id, entry_id) for entry_id in batch.ids_of(rows).tolist())
        wanted = list(zip(transactions_at(entries, rows), positions, strict=True))
        unknown = self._unknown_of(wanted)
        if unknown and self._has_to_begin(unknown):
            self._begin(place)
            unknown = self._unknown_of(wanted)
        if unknown:
            self._read_ahead(unknown)
        self._found = {one: outcome for one in wanted if (outcome := self._find(*one)) is not None}
        self._without_end = {
            (one, position): self._outcome_before(one, place.number, position)
            for (one, position), outcome in self._found.items()
            if outcome.state == OPEN
        }

    def state_of(self, transaction: Transaction, ledger_id: int, entry_id: int) -> str:
        """Return ``committed``, ``aborted`` or `OPEN` for a message that was passed to `look_ahead`."""
        position = Position(ledger_id, entry_id)
        outcome = self._found.get((transaction, position))
        if outcome is None or outcome.state == OPEN:
            self.any_open = True
            return self._without_end.get((transaction, position), OPEN)
        self._note_source(ledger_id, outcome.at.ledger_id)
        return outcome.state

    def are_visible(self, place: Place, batch: "EntryBatch", entries: Int64Table, rows: EntryRows) -> list[bool]:
        """Return for each row of a transaction whether that is committed, or the row is a marker."""
        ledger_id = self._ledgers[place.number].ref.ledger_id
        ids = batch.ids_of(rows).tolist()
        found = zip(ids, markers_at(entries, rows), transactions_at(entries, rows), strict=True)
        return [
            is_marker or self.state_of(transaction, ledger_id, entry_id) == "committed"
            for entry_id, is_marker, transaction in found
        ]

    def first_open(self, place: Place, batch: "EntryBatch", entries: Int64Table, rows: EntryRows) -> int | None:
        """Return the first of the rows that is a message of an open transaction; None without one."""
        ledger_id = self._ledgers[place.number].ref.ledger_id
        found = zip(rows.tolist(), markers_at(entries, rows), transactions_at(entries, rows), strict=True)
        return next(
            (
                row
                for row, is_marker, transaction in found
                if not is_marker and self.state_of(transaction, ledger_id, batch.id_of(row)) == OPEN
            ),
            None,
        )

    def _note_source(self, of_message: int, of_marker: int) -> None:
        self.sources.add(of_marker)
        if abs(of_message - of_marker) > 1:
            self.across = _spanned(*(self.across or (of_message, of_marker)), of_message, of_marker)

    def _unknown_of(self, wanted: Iterable[tuple[Transaction, Position]]) -> set[tuple[Transaction, Position]]:
        return {one for one in wanted if self._find(*one) is None}

    def _has_to_begin(self, unknown: Iterable[tuple[Transaction, Position]]) -> bool:
        """Whether reading ahead starts at a message: for the first time, or because an outcome may have been dropped."""
        if self._ahead is None or self._added >= 2 * MOST_OUTCOMES:
            return True
        return self._left_out is not None and any(one in self._left_out for one, _ in unknown)

    def _begin(self, place: Place) -> None:
        self._since = Position(self._ledgers[place.number].ref.ledger_id, place.entry)
        self._ahead = self._entries_from(place)
        self._left_out = None
        if self._added >= MOST_OUTCOMES:
            # Other scans may use the known ones. Open transactions are kept, since finding them again reads all entries.
            kept = {
                one: tuple(each for each in found if each.state == OPEN) for one, found in list(self._known.items())
            }
            still_open = {one: found for one, found in kept.items() if found}
            self._known = still_open if len(still_open) < MOST_OUTCOMES else {}
        self._added = 0

    def _read_ahead(self, unknown: set[tuple[Transaction, Position]]) -> None:
        """Read entries until the outcomes of some messages are known, at most to the topic's end."""
        assert self._ahead is not None  # noqa: S101  (`_begin` sets it)
        read = 0
        while unknown:
            found = next(self._ahead, None)
            if found is None:
                for transaction, _ in unknown:
                    self._add(transaction, TransactionOutcome(self._since_last(transaction, _END), _END, OPEN))
                return
            reported = self._take(*found, {one for one, _ in unknown})
            unknown = {one for one in unknown if one[0] not in reported or self._find(*one) is None}
            read += int(found[1].lengths.sum())
            if unknown and read >= _FAR_BYTES and not self._warned:
                self._warn(min(unknown, key=lambda one: one[1]), read)

    def _warn(self, unknown: tuple[Transaction, Position], read: int) -> None:
        (most, least), at = unknown
        self._warned = True
        _log.warning(
            "%s: transaction (%d,%d) of entry %d in ledger %d has no outcome in the %d MiB after it: "
            "the scan reads ahead, to the topic's end if the transaction is open",
            self._ledgers[0].ref.managed_ledger, most, least, at.entry_id, at.ledger_id, read >> 20,
        )  # fmt: skip

    def _find(self, transaction: Transaction, position: Position) -> TransactionOutcome | None:
        for one in self._known.get(transaction, ()):
            if one.since <= position <= one.at:
                return one
        return None

    def _take(self, place: Place, batch: "EntryBatch", wanted: Container[Transaction]) -> set[Transaction]:
        """Remember the markers of requested transactions among some entries, and others while there is room; return their transactions."""
        ledger_id = self._ledgers[place.number].ref.ledger_id
        reported = set()
        for row, transaction, state in outcomes_in(walk_metadata(batch)):
            at = Position(ledger_id, batch.id_of(row))
            if transaction not in wanted and self._added >= MOST_OUTCOMES:
                self._left_out = self._left_out or _MayHave()
                self._left_out.add(transaction)
                continue
            self._add(transaction, TransactionOutcome(self._since_last(transaction, at), at, state))
            reported.add(transaction)
        return reported

    def _since_last(self, transaction: Transaction, at: Position) -> Position:
        """Return the position from which on a transaction has no other marker before ``at``, as far back as was read."""
        before = (one.at for one in self._known.get(transaction, ()) if one.at < at)
        return max((self._since, *(Position(last.ledger_id, last.entry_id + 1) for last in before)))

    def _add(self, transaction: Transaction, outcome: TransactionOutcome) -> None:
        """Remember an outcome, unless another scan has added it."""
        known = self._known.get(transaction, ())
        same = next((one for one in known if one[1:] == outcome[1:]), None)
        self._added += same is None
        if same is None:
            self._known[transaction] = (*known, outcome)
        elif outcome.since < same.since:
            self._known[transaction] = tuple(outcome if one is same else one for one in known)

    def _outcome_before(self, transaction: Transaction, number: int, position: Position) -> str:
        """Return the outcome of the last marker before a message, in its own ledger or the previous one."""
        for one in range(number, max(-1, number - _LEDGERS_BEFORE), -1):
            reported = [
                state
                for entry, state in self._markers_in(one).get(transaction, ())
                if entry < position.entry_id or one < number
            ]
            if reported:
                self._note_source(position.ledger_id, self._ledgers[one].ref.ledger_id)
                return reported[-1]
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

    def _entries_from(self, place: Place) -> "Iterator[tuple[Place, EntryBatch]]":
        """Yield all entries from a place on; few ledgers at a time at first, since markers are seldom far away."""
        start, ledgers, end = place, 1, len(self._ledgers)
        while start.number < end:
            stop = Place(min(start.number + ledgers, end), 0)
            yield from read_entries(self._ledgers, Reach(start, stop), self._skipped)
            ledgers, start = min(2 * ledgers, _MOST_LEDGERS), stop


class _MayHave:
    """A set of transactions in little memory, which may also contain some that were not added (a Bloom filter)."""

    __slots__ = ("_bits",)

    def __init__(self) -> None:
        self._bits = bytearray(_FILTER_BYTES)

    def add(self, transaction: Transaction) -> None:
        for bit in self._bits_of(transaction):
            self._bits[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, transaction: Transaction) -> bool:
        return all(self._bits[bit >> 3] >> (bit & 7) & 1 for bit in self._bits_of(transaction))

    def _bits_of(self, transaction: Transaction) -> tuple[int, int]:
        bits = 8 * _FILTER_BYTES
        return hash(transaction) % bits, hash((transaction, 1)) % bits


def _spanned(*ids: int) -> tuple[int, int]:
    return min(ids), max(ids)
