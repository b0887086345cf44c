"""The messages of transactions in a topic, by what became of their transactions, from one walk over all entries.

The outcomes are those of a scan (`ledgerfs.scan.transaction_outcomes`): that of the first marker behind a message; without one that of the
last marker before it, in its own ledger or the previous one of its block of ids. A topic without transactions costs no more than reading it
and the walk over the metadata of its entries.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ledgerfs.errors import CorruptMessageError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.records import EntryBatch
from ledgerfs.ledgers.id_blocks import blocks_of, first_of_clusters
from ledgerfs.ledgers.reader import LedgerReader
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.decode.entry_fields import messages_in_transactions, outcomes_in, transactions_at
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
    uuid
        Of the copy that was read.
    aborted, committed
        Of transactions that ended so.
    open
        Of those without an outcome up to the topic's end.

    """

    uuid: str
    aborted: Int64 = field(default_factory=_no_ids)
    open: Int64 = field(default_factory=_no_ids)
    committed: Int64 = field(default_factory=_no_ids)

    def hidden_and_plain(self, open_as: str) -> tuple[Int64, Int64]:
        """Return which of them are not to be seen, and which are; ``open_as`` is what open ones are taken for."""
        if open_as == "aborted":
            return np.union1d(self.aborted, self.open), self.committed
        return self.aborted, np.union1d(self.committed, self.open)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """The messages of transactions in a topic.

    Attributes
    ----------
    ledgers
        {ledger id: its messages}, for ledgers that have some.

    """

    ledgers: Mapping[int, MessagesOfTransactions]

    def hidden(self, open_as: str) -> dict[int, Int64]:
        """Return {ledger id: entries that are not to be seen}; ``open_as`` is what open ones are taken for."""
        return {ledger_id: one.hidden_and_plain(open_as)[0] for ledger_id, one in self.ledgers.items()}


def unsettled(readers: Sequence[LedgerReader], ends: Collection[int] = ()) -> Unsettled:
    """Return the messages of transactions in a topic, and what became of each; reads all of its ledgers, given in the order of their ids.

    Markers of one cluster say nothing of messages of another (`ledgerfs.ledgers.id_blocks`); ``ends`` are ids of ledgers between the two.

    Raises `CorruptMessageError` for a marker, or a message of a transaction, whose checksum is wrong, and as the readers.
    """
    ledgers: dict[int, MessagesOfTransactions] = {}
    firsts = first_of_clusters([one.ref for one in readers], ends)
    for first, end in pairwise([*firsts, len(readers)]):
        ledgers |= _of_one_cluster(readers[first:end])
    return Unsettled(ledgers)


def _of_one_cluster(readers: Sequence[LedgerReader]) -> "dict[int, MessagesOfTransactions]":
    found = _Found()
    for place, batch in read_entries(readers, Reach.of(range(len(readers)))):
        found.take(place, batch, readers[place.number].ref.key)
    blocks = np.array(blocks_of(one.ref for one in readers), np.int64)
    return dict(_by_ledger(readers, *found.settled(blocks)))


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

    def settled(self, blocks: Int64) -> tuple[Int64, Int64, Int64]:
        """Return number of the ledger, entry and state of each message; ``blocks`` are those of all ledgers."""
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
            is_near = (numbers - numbers[before] <= 1) & (blocks[numbers] == blocks[numbers[before]])
        ended_before = np.where(is_near, _outcome(before, group, states), _NOT_ENDED)
        state = np.where(ended != _NOT_ENDED, ended, ended_before)
        return numbers[~is_marker], ids[~is_marker], state[~is_marker]


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
        ref, mine, state = readers[number].ref, ids[part], states[part]
        parts = (mine[state == one] for one in (_ABORTED, _NOT_ENDED, _COMMITTED))
        found.append((ref.ledger_id, MessagesOfTransactions(ref.uuid, *parts)))
    return found


def _require_sound(batch: EntryBatch, rows: Int64, key: str) -> None:
    """Raise `CorruptMessageError` for the first of some entries whose checksum is wrong: it would tell of another transaction."""
    some = EntryBatch(batch.first_entry, batch.buffer, batch.offsets[rows], batch.lengths[rows], batch.ids_of(rows))
    wrong = np.flatnonzero(check_entries(some).states >= EntryState.MISMATCH)
    if wrong.size:
        entry = some.id_of(int(wrong[0]))
        raise CorruptMessageError(f"entry {entry} is of a transaction, and has a wrong checksum", key=key)
