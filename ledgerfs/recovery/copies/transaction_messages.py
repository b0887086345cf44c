"""The messages of transactions in a topic, by what became of their transactions, from one walk over all entries.

The outcomes are those of a scan (`ledgerfs.scan.transaction_outcomes`): that of the first marker behind a message; without one that of the
last marker before it, in its own ledger or the previous one. A topic without transactions costs no more than reading it
and the walk over the metadata of its entries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ledgerfs.errors import CorruptMessageError, RefusedLedgerError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.decode.entry_fields import Transaction, messages_in_transactions, outcomes_in, transactions_at
from ledgerfs.messages.decode.metadata_walk import walk_metadata
from ledgerfs.scan.topic_entries import Place, Reach, read_entries

_NOT_ENDED, _COMMITTED, _ABORTED = 0, 1, 2
_STATES = {"committed": _COMMITTED, "aborted": _ABORTED}


def _no_ids() -> Int64:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class MessagesOfTransactions:
    """The entries of one ledger that are messages of transactions: ids, ascending, shape (entries,).

    Attributes
    ----------
    aborted, committed
        Of transactions that ended so.
    open
        Of those without an outcome up to the topic's end.

    """

    aborted: Int64 = field(default_factory=_no_ids)
    open: Int64 = field(default_factory=_no_ids)
    committed: Int64 = field(default_factory=_no_ids)


@dataclass(frozen=True, slots=True)
class TopicTransactions:
    """The transactions of a topic.

    Attributes
    ----------
    ledgers
        {ledger id: its messages}, for ledgers that have some.
    aborted, open, committed
        Transactions with messages that ended so, sorted.
    greatest
        {coordinator: the greatest number that it gave to a transaction}, by all messages and markers.

    """

    ledgers: Mapping[int, MessagesOfTransactions]
    aborted: tuple[Transaction, ...] = ()
    open: tuple[Transaction, ...] = ()
    committed: tuple[Transaction, ...] = ()
    greatest: Mapping[int, int] = field(default_factory=dict)

    @property
    def hidden_messages(self) -> dict[int, Int64]:
        """{ledger id: entries that are not to be seen}: those of aborted transactions, and of open ones."""
        return {ledger_id: np.union1d(one.aborted, one.open) for ledger_id, one in self.ledgers.items()}

    def hidden(self) -> list[Transaction]:
        """Return the transactions whose messages are not to be seen.

        Raises `RefusedLedgerError` for one with other messages that are to be seen: brokers know transactions by their ids alone.
        """
        hidden = {*self.aborted, *self.open}
        both = sorted(hidden & {*self.committed})
        if both:
            reason = "an id of two transactions, one committed and one not (of clusters that both counted from 0?): brokers would hide both"
            raise RefusedLedgerError(reason, key=f"transaction {both[0]}")
        return sorted(hidden)


def transactions_in(readers: Sequence[LedgerReader]) -> TopicTransactions:
    """Return the transactions of a topic, and what became of each message; reads all of its ledgers, given in the order of their ids.

    Raises `CorruptMessageError` for a marker, or a message of a transaction, whose checksum is wrong, and as the readers.
    """
    found = _Found()
    for place, batch in read_entries(readers, Reach.of(range(len(readers)))):
        found.take(place, batch, readers[place.number].ref.key)
    return found.transactions(readers)


class _Found:
    """Markers and messages of transactions, as rows: number of the ledger, entry, halves of the id, outcome of a marker or -1."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[Int64] = [np.empty((5, 0), np.int64)]

    def take(self, place: Place, batch: EntryBatch, key: str) -> None:
        """Take what is in some entries."""
        entries = walk_metadata(batch)
        messages = np.flatnonzero(messages_in_transactions(entries))
        markers = outcomes_in(entries)
        if not messages.size and not markers:
            return
        rows = np.concatenate([messages, np.array([row for row, _, _ in markers], np.int64)])
        _require_sound(batch, rows, key)
        transactions = [*transactions_at(entries, messages), *(one for _, one, _ in markers)]
        made = np.empty((5, rows.size), np.int64)
        made[0], made[1] = place.number, batch.ids_of(rows)
        made[2], made[3] = np.array(transactions, np.int64).T
        made[4] = [*[-1] * messages.size, *(_STATES[state] for _, _, state in markers)]
        self._rows.append(made)

    def transactions(self, readers: Sequence[LedgerReader]) -> TopicTransactions:
        """Return what was found in these ledgers."""
        rows = np.concatenate(self._rows, axis=1)
        rows = rows[:, np.lexsort((rows[1], rows[0], rows[3], rows[2]))]
        numbers, ids, most, least, states = rows
        begins = np.append(True, (np.diff(most) != 0) | (np.diff(least) != 0))[: ids.size]
        group = np.cumsum(begins)
        is_marker, here = states >= 0, np.arange(ids.size)
        after = np.minimum.accumulate(np.where(is_marker, here, ids.size)[::-1])[::-1]
        before = np.maximum.accumulate(np.where(is_marker, here, -1))
        ended = _outcome(after, group, states)
        is_near = is_marker
        if ids.size:
            is_near = numbers - numbers[before] <= 1
        ended_before = np.where(is_near, _outcome(before, group, states), _NOT_ENDED)
        state = np.where(ended != _NOT_ENDED, ended, ended_before)
        of = {one: _distinct(most, least, ~is_marker & (state == one)) for one in (_ABORTED, _NOT_ENDED, _COMMITTED)}
        ledgers = _by_ledger(readers, numbers[~is_marker], ids[~is_marker], state[~is_marker])
        greatest = {one: int(least[most == one].max()) for one in np.unique(most).tolist()}
        return TopicTransactions(dict(ledgers), of[_ABORTED], of[_NOT_ENDED], of[_COMMITTED], greatest)


def _distinct(most: Int64, least: Int64, which: Mask) -> tuple[Transaction, ...]:
    return tuple(sorted(set(zip(most[which].tolist(), least[which].tolist(), strict=True))))


def _outcome(markers: Int64, group: Int64, states: Int64) -> Int64:
    """Return the outcome that a marker of the same transaction tells, given by its place; `_NOT_ENDED` where there is none."""
    if not group.size:
        return states
    is_there = (markers >= 0) & (markers < group.size)
    places = np.where(is_there, markers, 0)
    is_same: Mask = is_there & (group[places] == group)
    outcome: Int64 = np.where(is_same, states[places], _NOT_ENDED)
    return outcome


def _by_ledger(
    readers: Sequence[LedgerReader], numbers: Int64, ids: Int64, states: Int64
) -> "list[tuple[int, MessagesOfTransactions]]":
    order = np.lexsort((ids, numbers))
    numbers, ids, states = numbers[order], ids[order], states[order]
    known, starts = np.unique(numbers, return_index=True)
    found = []
    for number, part in zip(known.tolist(), np.split(np.arange(ids.size), starts[1:]), strict=False):
        mine, state = ids[part], states[part]
        parts = (mine[state == one] for one in (_ABORTED, _NOT_ENDED, _COMMITTED))
        found.append((readers[number].ref.ledger_id, MessagesOfTransactions(*parts)))
    return found


def _require_sound(batch: EntryBatch, rows: Int64, key: str) -> None:
    """Raise `CorruptMessageError` for the first of some entries whose checksum is wrong: it would tell of another transaction."""
    some = EntryBatch(batch.first_entry, batch.buffer, batch.offsets[rows], batch.lengths[rows], batch.ids_of(rows))
    wrong = np.flatnonzero(check_entries(some).states >= EntryState.MISMATCH)
    if wrong.size:
        entry = some.id_of(int(wrong[0]))
        raise CorruptMessageError(f"entry {entry} is of a transaction, and has a wrong checksum", key=key)
