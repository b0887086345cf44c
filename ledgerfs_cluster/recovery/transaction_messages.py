"""Messages of transactions in a topic, by their outcomes, and the snapshot by which brokers hide aborted ones.

A topic without transactions only costs reading it, and the walk over the metadata of its entries.

Brokers keep snapshots in the system topic ``__transaction_buffer_snapshot`` of a namespace, where the newest message with a topic's name
as its key counts (``TransactionBufferSnapshot`` in Pulsar). The value is Avro binary, with the fields in alphabetical order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import CorruptMessageError, RefusedLedgerError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.decode.entry_fields import Transaction, messages_in_transactions, outcomes_in, transactions_at
from ledgerfs.messages.decode.metadata_walk import walk_metadata
from ledgerfs.scan.topic_entries import Reach, read_entries
from ledgerfs.scan.transaction_outcomes import OPEN, TransactionOutcomes
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position

States = Mapping[str, Sequence[int]]
_PRESENT = b"\x02"
"""The second branch of a union with null."""


@dataclass(frozen=True, slots=True)
class TopicTransactions:
    """The transactions of a topic.

    Attributes
    ----------
    entries
        {ledger id: {``committed``, ``aborted`` or ``open``: entry ids of such transactions}}, for ledgers with some.
    transactions
        {state: transactions with messages and this outcome}.
    greatest
        {coordinator: the greatest transaction number that it assigned}, from all messages and markers.

    """

    entries: Mapping[int, States] = field(default_factory=dict)
    transactions: Mapping[str, set[Transaction]] = field(default_factory=dict)
    greatest: Mapping[int, int] = field(default_factory=dict)

    @property
    def open(self) -> list[Transaction]:
        """Transactions without an outcome up to the topic's end."""
        return sorted(self.transactions.get(OPEN, ()))

    @property
    def hidden_messages(self) -> dict[int, Int64]:
        """{ledger id: entries to hide}: those of aborted and of open transactions."""
        return {
            ledger_id: np.array(sorted([*states.get("aborted", ()), *states.get(OPEN, ())]), np.int64)
            for ledger_id, states in self.entries.items()
        }

    def count(self, state: str) -> int:
        """Return the number of entries of transactions with this outcome."""
        return sum(len(states.get(state, ())) for states in self.entries.values())

    def hidden(self) -> list[Transaction]:
        """Return the transactions whose messages must be hidden.

        Raises `RefusedLedgerError` for one that also has visible messages: brokers identify transactions by their ids alone.
        """
        hidden = {*self.transactions.get("aborted", ()), *self.open}
        both = sorted(hidden & self.transactions.get("committed", set()))
        if both:
            reason = "two transactions have this id, one committed and one not (perhaps of two clusters): brokers would hide both"
            raise RefusedLedgerError(reason, key=f"transaction {both[0]}")
        return sorted(hidden)


def transactions_in(readers: Sequence[LedgerReader]) -> TopicTransactions:
    """Return the transactions of a topic, and the outcome of each message; reads all of its ledgers, given in the order of their ids.

    Raises `CorruptMessageError` for a marker, or a transaction's message, with a wrong checksum, and the errors of the readers.
    """
    outcomes = TransactionOutcomes(readers, {}, is_damage_skipped=False)
    entries: dict[int, dict[str, list[int]]] = {}
    transactions: dict[str, set[Transaction]] = {}
    greatest: dict[int, int] = {}
    for place, batch in read_entries(readers, Reach.of(range(len(readers)))):
        table, ref = walk_metadata(batch), readers[place.number].ref
        messages, markers = np.flatnonzero(messages_in_transactions(table)), outcomes_in(table)
        if not messages.size and not markers:
            continue
        _require_sound(batch, np.array([*messages, *(row for row, _, _ in markers)], np.int64), ref.key)
        ids = transactions_at(table, messages)
        for most, least in (*ids, *(one for _, one, _ in markers)):
            greatest[most] = max(greatest.get(most, least), least)
        outcomes.look_ahead(place, batch, table, messages)
        for row, transaction in zip(messages.tolist(), ids, strict=True):
            entry_id = batch.id_of(row)
            state = outcomes.state_of(transaction, ref.ledger_id, entry_id)
            entries.setdefault(ref.ledger_id, {}).setdefault(state, []).append(entry_id)
            transactions.setdefault(state, set()).add(transaction)
    return TopicTransactions(entries, transactions, greatest)


def _require_sound(batch: EntryBatch, rows: Int64, key: str) -> None:
    """Raise `CorruptMessageError` for the first entry with a wrong checksum: it could name another transaction."""
    some = EntryBatch(batch.first_entry, batch.buffer, batch.offsets[rows], batch.lengths[rows], batch.ids_of(rows))
    wrong = np.flatnonzero(check_entries(some).states >= EntryState.MISMATCH)
    if wrong.size:
        entry = some.id_of(int(wrong[0]))
        raise CorruptMessageError(f"entry {entry} of a transaction has a wrong checksum", key=key)


def snapshot_topic(namespace: str) -> str:
    """Return the system topic with the snapshots of a namespace."""
    return f"persistent://{namespace}/__transaction_buffer_snapshot"


def build_transaction_snapshot(topic: str, end: Position, aborts: Iterable[tuple[tuple[int, int], Position]]) -> bytes:
    """Return a snapshot by which brokers hide the messages of some transactions.

    Parameters
    ----------
    topic
        ``persistent://tenant/namespace/topic``.
    end
        The last entry that the snapshot covers.
    aborts
        Transactions, as (most, least) significant bits, each with the position of its abort, ascending by position: brokers drop it
        when that ledger is trimmed.

    """
    records = [_longs(at.entry_id, at.ledger_id, least, most) for (most, least), at in aborts]
    # An array is a block preceded by its number of records, unless empty, and an empty block.
    block = _longs(len(records)) + b"".join(records) if records else b""
    name = topic.encode()
    return _PRESENT + block + b"\x00" + _longs(end.entry_id, end.ledger_id) + _PRESENT + _longs(len(name)) + name


def _longs(*values: int) -> bytes:
    """Return integers as zigzag varints."""
    data = bytearray()
    for value in values:
        rest = (value << 1) ^ (value >> 63)
        while rest > 0x7F:
            data.append(rest & 0x7F | 0x80)
            rest >>= 7
        data.append(rest)
    return bytes(data)
