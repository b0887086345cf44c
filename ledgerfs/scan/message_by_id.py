"""Read one message by its id, for little more than the cost of reading its entry."""

from dataclasses import dataclass, fields
from datetime import datetime
from reprlib import repr as short_repr
from typing import Protocol

import numpy as np
import pyarrow as pa

from ledgerfs.catalog.missing_ledgers import MissingLedger, missing_error
from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.display import printable
from ledgerfs.errors import CorruptMessageError, NotFoundError
from ledgerfs.messages.decode.entries import TopicDecoder
from ledgerfs.messages.decode.entry_fields import chunk_at, chunked_id_at, chunks_of, markers_at
from ledgerfs.scan.earlier_chunks import EarlierChunks
from ledgerfs.scan.message_id import MessageId
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.part_reading import decode_options, decrypt_with
from ledgerfs.scan.python_values import python_rows
from ledgerfs.scan.reread_damaged import walk_entries
from ledgerfs.scan.topic_entries import Place, Reach, read_entries

MOST_BYTES_AROUND = 1 << 30
"""Bytes of entries to search for the other parts of a chunked message, before the named part, and after it."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message: a row of the message table as Python values (``docs/reference/messages.md``).

    Attributes
    ----------
    id
        As Pulsar prints it: ``ledger:entry:partition``, and ``:index`` in a batch; the partition is -1 outside partitioned topics.
        A chunked message has the id of its last part.
    publish_time, event_time, broker_time, deliver_at_time
        UTC; None also for a time outside Python's calendar.
    properties
        Names and values in their order, duplicates kept.

    """

    id: str
    topic: str
    ledger_id: int
    entry_id: int
    batch_index: int | None
    publish_time: datetime | None
    event_time: datetime | None
    key: str | None
    key_bytes: bytes | None
    ordering_key: bytes | None
    value: bytes | None
    properties: list[tuple[str, str]]
    producer_name: str
    sequence_id: int
    schema_version: bytes | None
    partition: int | None
    broker_index: int | None
    broker_time: datetime | None
    txn_id: str | None
    deliver_at_time: datetime | None
    replicated_from: str | None

    def __repr__(self) -> str:
        key = "" if self.key is None else f", key {short_repr(self.key)}"
        value = "no value" if self.value is None else f"{len(self.value):,} bytes"
        published = (
            "" if self.publish_time is None else f", published {self.publish_time.isoformat(timespec='milliseconds')}"
        )
        return f"<message {self.id} of {printable(self.topic)}{published}{key}: {value}>"

    @classmethod
    def of(cls, row: pa.RecordBatch) -> "Message":
        """Return the message of a table with one row and all `COLUMNS`."""
        (values,) = python_rows(row)
        partition = -1 if values["partition"] is None else values["partition"]
        index = "" if values["batch_index"] is None else f":{values['batch_index']}"
        return cls(f"{values['ledger_id']}:{values['entry_id']}:{partition}{index}", **values)


class TopicLedgers(Protocol):
    """The ledgers of a topic of a bucket."""

    @property
    def name(self) -> str:
        """``persistent://tenant/namespace/topic``."""
        ...

    @property
    def ledgers(self) -> list[LedgerReader]:
        """Its ledgers, ascending by id."""
        ...

    @property
    def missing(self) -> tuple[MissingLedger, ...]:
        """Its ledgers that are known but unreadable."""
        ...

    def ledger(self, ledger_id: int) -> LedgerReader:
        """Return one of its ledgers; raises `NotFoundError`."""
        ...


COLUMNS = tuple(field.name for field in fields(Message) if field.name != "id")


def read_message(topic: TopicLedgers, identity: MessageId, options: ScanOptions) -> Message:
    """Return one message of a topic, in any state of its transaction. Raises the errors of `Topic.message`."""
    decoder = TopicDecoder(topic.name, decode_options(options, COLUMNS), decrypt_with(options))
    ledger = _ledger_of(topic, identity)
    (batch,) = ledger.batches(identity.entry_id, identity.entry_id)
    ((_, batch, entries, keep),) = walk_entries(decoder, [ledger], [(Place(0, identity.entry_id), batch)])
    if markers_at(entries, np.array([0]))[0] and not options.include_markers:
        raise identity.not_found("the entry is a marker of the broker, not a message")
    if chunk_at(entries, 0) is None:
        if identity.first:
            raise identity.not_found(
                "the id has a first and a last part, but the entry is not a part of a chunked message"
            )
        table = decoder.decode(batch, identity.ledger_id, entries, keep)
    else:
        table = _join(topic, identity, decoder, chunked_id_at(batch, entries, 0))
    if not table.num_rows:
        raise identity.not_found(
            "the entry is encrypted and skipped" if options.on_encrypted == "skip" else "the entry has no message"
        )
    row = identity.row(table.column("batch_index").to_pylist(), table.column("partition")[0].as_py())
    return Message.of(table.slice(row, 1))


def _ledger_of(topic: TopicLedgers, identity: MessageId) -> LedgerReader:
    hidden = [one for one in topic.missing if one.ledger_id == identity.ledger_id]
    if hidden:
        raise missing_error(topic.name, hidden)
    try:
        ledger = topic.ledger(identity.ledger_id)
    except NotFoundError as error:
        raise identity.not_found(error.reason) from error
    if identity.entry_id > ledger.last_entry:
        raise identity.not_found(f"the ledger ends with entry {ledger.last_entry}")
    return ledger


def _join(topic: TopicLedgers, identity: MessageId, decoder: TopicDecoder, chunked_id: bytes) -> pa.RecordBatch:
    """Read the chunked message of a part, from that part on; read earlier parts only if needed."""
    ledgers = topic.ledgers
    start = _place(ledgers, identity.first or identity.last, identity)
    # Damage of other entries does not affect this message; damage of the joined message does.
    joiner = decoder.beginner()
    joiner.chunks.earlier = earlier = EarlierChunks(ledgers, start, joiner, MOST_BYTES_AROUND)
    decoder.chunks = joiner.chunks
    most = MOST_BYTES_AROUND + decoder.options.max_message_bytes
    size, is_cut = 0, False
    stop = Place(len(ledgers), 0)
    found = read_entries(ledgers, Reach(start, stop), joiner.skipped)
    for place, batch, entries, keep in walk_entries(joiner, ledgers, found):
        ledger_id = ledgers[place.number].ref.ledger_id
        table = decoder.decode(batch, ledger_id, entries, keep & chunks_of(chunked_id, batch, entries))
        if table.num_rows:
            # An id with a first and a last part has to fit both.
            if identity.first and (ledger_id, table.column("entry_id")[0].as_py()) != identity.last:
                raise identity.not_found(
                    f"no chunked message begins at {identity.first[0]}:{identity.first[1]} and ends here"
                )
            return table
        size += int(batch.lengths.sum())
        is_cut = size > most
        if joiner.chunks.incomplete or is_cut:
            break
    if joiner.skipped:
        damage = joiner.skipped[0]
        raise CorruptMessageError.of(
            damage.ledger_id, damage.first_entry, f"{damage.reason} (looking for the parts of message {identity})"
        )
    if is_cut or earlier.is_cut:
        raise identity.not_found(
            f"the entry is a part of a chunked message whose other parts are not all within {MOST_BYTES_AROUND} bytes before it and {most} "
            "after it; scan the topic instead"
        )
    raise identity.not_found("the entry is a part of a chunked message, but the topic lacks other parts of it")


def _place(ledgers: list[LedgerReader], position: tuple[int, int], identity: MessageId) -> Place:
    ledger_id, entry_id = position
    for number, ledger in enumerate(ledgers):
        if ledger.ref.ledger_id == ledger_id and entry_id <= ledger.last_entry:
            return Place(number, entry_id)
    raise identity.not_found(f"its first part, {ledger_id}:{entry_id}, is not in this topic")
