"""Compare a restored topic, read through brokers, with its ledgers in the bucket, message by message.

Pulsar's client reads the topic like any other reader. A broker sends everything except markers and messages of aborted transactions. Each
other message must arrive once, in order, with its position, payload, key, properties and times (`Message.is_served_as`). Payloads of
encrypted messages are compared encrypted: no key is needed.
"""

import heapq
import time
from base64 import b64encode
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ledgerfs.catalog.reader import LedgerReader
from ledgerfs.errors import EntryRangeError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta
from ledgerfs.scan.reread_damaged import walk_entries
from ledgerfs.scan.topic_entries import Reach, read_entries
from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService

_COLUMNS = ("entry_id", "batch_index", "publish_time", "event_time", "key", "key_bytes", "value", "properties")
_WRONG = {"differing": "differ", "missing": "missing", "unexpected": "unexpected", "repeated": "repeated"}
"""Kinds of wrong messages, and their words in a sentence."""
_MOST_NAMED = 10
_MOST_AHEAD = 10_000
_PAUSES = 3
_UINT64 = 1 << 64
_LATEST_EVENT_MS = (1 << 63) // 1000


class MessagePlace(NamedTuple):
    """Position of a message; ordered like the topic. ``batch_index`` is -1 outside batches."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}" + (f":{self.batch_index}" if self.batch_index >= 0 else "")


class Message(NamedTuple):
    """The compared parts of a message.

    Attributes
    ----------
    place
        With the ledger id in the new cluster.
    value
        Its payload; empty for none.
    publish_ms, event_ms
        Times, ms since 1970 UTC; an event time of 0 means none.
    key
        Its key, in base64 if it was set as bytes; empty for none.
    properties
        {name: values}; the client returns only one value of a repeated name.
    is_encrypted
        Whether the value is encrypted. Then only value and publish time are compared.
    is_dropped
        Whether the client drops it, so that its absence proves nothing.

    """

    place: MessagePlace
    value: bytes
    publish_ms: int
    event_ms: int = 0
    key: str = ""
    properties: Mapping[str, Sequence[str]] = {}
    is_encrypted: bool = False
    is_dropped: bool = False

    def is_served_as(self, sent: "Message") -> bool:
        """Return whether this message, from the bucket, equals one that was sent."""
        if self.value != sent.value or self.publish_ms != sent.publish_ms:
            return False
        if self.is_encrypted:
            return True
        return (
            self.key == sent.key
            and (self.event_ms == sent.event_ms or (self.event_ms == 0 and abs(sent.event_ms) >= _LATEST_EVENT_MS))
            and self.properties.keys() == sent.properties.keys()
            and all(sent.properties[name][0] in values for name, values in self.properties.items())
        )


@dataclass(slots=True)
class TopicComparison:
    """Result of comparing a topic.

    Attributes
    ----------
    counts
        Number of messages that arrived intact (``same``), arrived changed (``differing``), did not arrive (``missing``), arrived though the
        bucket does not have them or brokers must not send them (``unexpected``), arrived again or after later ones (``repeated``), are in
        ledgers after the last restored one (``appended``), or are dropped by the client: empty ones in zlib (``not_compared``).
    first
        Positions of the first few of each kind, with the new cluster's ledger ids.
    is_silent
        Whether brokers stopped sending for some time before the end: missing messages from there on may arrive later.

    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[MessagePlace]] = field(default_factory=dict)
    is_silent: bool = False

    @property
    def expected(self) -> int:
        """Number of the bucket's messages that brokers have to send."""
        return self.counts["same"] + self.counts["differing"] + self.counts["missing"]

    @property
    def is_whole(self) -> bool:
        """Whether every message arrived once, in order and intact, and no other."""
        return not any(self.counts[kind] for kind in _WRONG)

    def add(self, kind: str, message: Message) -> None:
        """Count a message."""
        self.counts[kind] += 1
        first = self.first.setdefault(kind, [])
        if len(first) < _MOST_NAMED:
            first.append(message.place)

    def add_missed(self, messages: Iterator[Message]) -> None:
        """Count messages that did not arrive."""
        for one in messages:
            self.add("not_compared" if one.is_dropped else "missing", one)

    def as_json(self) -> dict[str, Any]:
        """Return all fields."""
        return {
            "expected": self.expected,
            **{name: self.counts[name] for name in ("same", "appended", "not_compared")},
            "is_silent": self.is_silent,
            **{
                kind: {"messages": self.counts[kind], "first": list(map(str, self.first.get(kind, ())))}
                for kind in _WRONG
            },
        }

    def __str__(self) -> str:
        """Return a sentence."""
        parts = [f"{self.counts['same']:,} of {self.expected:,} are the same"]
        for kind, word in _WRONG.items():
            if self.counts[kind]:
                parts.append(f"{self.counts[kind]:,} {word} ({', '.join(map(str, self.first[kind][:3]))})")
        if self.counts["appended"]:
            parts.append(f"{self.counts['appended']:,} appended after the recovery")
        if self.is_silent:
            parts.append("brokers stopped sending")
        if self.counts["not_compared"]:
            parts.append(f"{self.counts['not_compared']:,} not compared (Pulsar's client drops these messages)")
        return ", ".join(parts)


def compare_topic(
    service: PulsarService,
    topic: str,
    ledgers: Sequence[LedgerReader],
    hidden: Mapping[int, Int64],
    ids: Mapping[int, int] | None = None,
) -> TopicComparison:
    """Read a restored topic through its brokers and compare it with the bucket; a partitioned topic is compared by its partitions.

    ``ledgers`` are the restored ones, ascending by id. ``hidden`` is {id of one: ids of entries of aborted transactions, which brokers must
    not send}; markers are found here. ``ids`` is {id of a ledger: its id in the new cluster} of ledgers that were restored under another
    id, both ascending.

    Raises the errors of `PulsarService.reading` and of the bucket, and `EntryRangeError` for ledgers that are not in the order of ids.
    """
    own = [one.ref.ledger_id for one in ledgers]
    known = [(ids or {}).get(one, one) for one in own]
    for one, other in (*pairwise(own), *pairwise(known)):
        if one >= other:
            raise EntryRangeError(
                f"ledger {other} is listed after ledger {one}, but brokers read ledgers in the order of ids"
            )
    found, wanted = TopicComparison(), _Wanted(expected_messages(topic, ledgers, hidden, known))
    highest: MessagePlace | None = None
    for came in _sent(service, topic, known, wanted):
        if came is None:
            found.is_silent = True
            break
        if highest is not None and came.place <= highest:
            found.add("repeated", came)
            continue
        highest = came.place
        found.add_missed(wanted.before(came.place))
        expected = wanted.at(came.place)
        if expected is not None:
            found.add("same" if expected.is_served_as(came) else "differing", expected)
        else:
            found.add("appended" if not known or came.place.ledger_id > known[-1] else "unexpected", came)
    found.add_missed(wanted.before(None))
    return found


class _Wanted:
    """The expected messages that have not arrived yet; the client drops some of them."""

    def __init__(self, messages: Iterator[Message]) -> None:
        self._messages = messages
        self._next = deque[Message]()

    def is_due(self) -> bool:
        """Return whether a message is left that the client does not drop."""
        while not self._next or self._next[-1].is_dropped:
            message = next(self._messages, None) if len(self._next) < _MOST_AHEAD else None
            if message is None:
                return False
            self._next.append(message)
        return True

    def before(self, place: MessagePlace | None) -> Iterator[Message]:
        """Yield those before a position; all without one."""
        while (self.is_due() or self._next) and (place is None or self._next[0].place < place):
            yield self._next.popleft()

    def at(self, place: MessagePlace) -> Message | None:
        """Return the message at a position, if it is the next one."""
        return self._next.popleft() if self._next and self._next[0].place == place else None


def _sent(service: PulsarService, topic: str, ids: Sequence[int], wanted: _Wanted) -> Iterator[Message | None]:
    """Yield all messages except those published from now on, and None if brokers stop sending.

    Raises as `PulsarService.reading`.
    """
    began_ms = time.time_ns() // 1_000_000
    with service.reading(topic) as reading:
        while True:
            # Expected messages may follow the end that brokers report.
            is_due, pauses = wanted.is_due(), 0
            if not is_due and reading.is_at_end():
                return
            while (sent := reading.next(service.silence_s)) is None:
                pauses += 1
                if is_due and reading.is_at_end():
                    return
                if pauses >= _PAUSES and not is_due:
                    # Brokers may report a marker as the last message, and the client never passes a batch that it cannot decrypt.
                    return
                if pauses >= _PAUSES and pauses * service.silence_s >= service.patience_s:
                    yield None
                    return
            message = _message_of(sent)
            if message.publish_ms > began_ms and message.place.ledger_id > max(ids, default=-1):
                return
            yield message


def expected_messages(
    topic: str, ledgers: Sequence[LedgerReader], hidden: Mapping[int, Int64], ids: Sequence[int]
) -> Iterator[Message]:
    """Yield the messages that brokers have to send of a restored topic, in order: without markers and aborted transactions.

    ``hidden`` and ``ids``, one for each ledger, are as in `compare_topic`. Raises the errors of the bucket and of decoding messages.
    """
    decoder = TopicDecoder(topic, DecodeOptions(_COLUMNS))
    batches = read_entries(ledgers, Reach.of(range(len(ledgers))))
    for place, batch, entries, keep in walk_entries(decoder, ledgers, batches):
        own_id, ledger_id = ledgers[place.number].ref.ledger_id, ids[place.number]
        is_sent = keep & ~np.isin(batch.ids_of(np.arange(len(batch))), hidden.get(own_id, ()))
        is_encrypted = is_sent & (entries[Meta.ENCRYPTION_KEYS] > 0)
        sealed = _encrypted(batch, entries, is_encrypted, ledger_id)
        plain = _decoded(decoder, own_id, batch, entries, is_sent & ~is_encrypted, ledger_id)
        yield from heapq.merge(plain, sealed, key=lambda message: message.place)


def _decoded(  # noqa: PLR0917  (what a decoder needs, and the other id)
    decoder: TopicDecoder, own_id: int, batch: EntryBatch, entries: Int64Table, keep: Mask, ledger_id: int
) -> Iterator[Message]:
    for portion in decoder.portions(entries, keep):
        # Decoding changes the table of entries.
        dropped = frozenset(batch.ids_of(np.flatnonzero(portion & _are_dropped(entries))).tolist())
        for message in _messages_in(decoder.decode(batch, own_id, entries, portion), ledger_id):
            yield message._replace(is_dropped=True) if message.place.entry_id in dropped else message


def _encrypted(batch: EntryBatch, entries: Int64Table, keep: Mask, ledger_id: int) -> Iterator[Message]:
    """Yield entries as clients without a key receive them: a batch is one message."""
    for row in np.flatnonzero(keep).tolist():
        start, end = int(entries[Meta.PAYLOAD_AT, row]), int(entries[Meta.PAYLOAD_END, row])
        published = int(entries[Meta.PUBLISH_TIME, row])
        place = MessagePlace(ledger_id, batch.id_of(row))
        yield Message(place, bytes(batch.buffer[start:end]), published, is_encrypted=True)


def _are_dropped(entries: Int64Table) -> Mask:
    """Return which entries the client drops: empty zlib payloads. Producers (also Java's) send them, but it cannot decompress them."""
    is_empty = (entries[Meta.COMPRESSION] == Compression.ZLIB) & (entries[Meta.UNCOMPRESSED_SIZE] == 0)
    are_dropped: Mask = is_empty & (entries[Meta.ENCRYPTION_KEYS] == 0)
    return are_dropped


def _message_of(sent: Any) -> Message:  # noqa: ANN401  (`pulsar.Message`)
    """Convert a message that the client has received."""
    at, event_ms = sent.message_id(), sent.event_timestamp()
    return Message(
        MessagePlace(at.ledger_id(), at.entry_id(), at.batch_index()),
        sent.data(),
        sent.publish_timestamp(),
        event_ms - _UINT64 if event_ms >= _UINT64 >> 1 else event_ms,
        sent.partition_key(),
        {name: (value,) for name, value in sent.properties().items()},
    )


def _messages_in(table: pa.RecordBatch, ledger_id: int) -> list[Message]:
    """Return the messages of a batch of `_COLUMNS`, in a ledger."""
    times = (table.column(name).cast(pa.int64()).to_pylist() for name in ("publish_time", "event_time"))
    others = (
        table.column(name).to_pylist()
        for name in ("entry_id", "batch_index", "key", "key_bytes", "value", "properties")
    )
    return [
        Message(
            MessagePlace(ledger_id, entry_id, -1 if batch_index is None else batch_index),
            value or b"",
            published // 1000,
            (event or 0) // 1000,
            b64encode(key_bytes).decode() if key_bytes is not None else key or "",
            _by_name(properties),
        )
        for published, event, entry_id, batch_index, key, key_bytes, value, properties in zip(
            *times, *others, strict=True
        )
    ]


def _by_name(properties: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in properties:
        found.setdefault(name, []).append(value)
    return found
