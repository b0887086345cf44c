"""Brokers of ours, as a client shows them: topics whose messages come as ``pulsar-client`` has them, and whatever goes wrong there."""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from ledgerfs.errors import NotFoundError
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, MessageMetadataRecord
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position

Entry = tuple[int, int, bytes]
"""Ledger, entry, and what the ledger has of it."""


class ClientId(NamedTuple):
    """``pulsar.MessageId``."""

    ledger: int
    entry: int
    index: int

    def ledger_id(self) -> int:
        return self.ledger

    def entry_id(self) -> int:
        return self.entry

    def batch_index(self) -> int:
        return self.index


@dataclass(frozen=True)
class Served:
    """``pulsar.Message``."""

    at: ClientId
    value: bytes
    published: int
    event: int = 0
    key: str = ""
    named: dict[str, str] = field(default_factory=dict)

    def message_id(self) -> ClientId:
        return self.at

    def data(self) -> bytes:
        return self.value

    def publish_timestamp(self) -> int:
        return self.published

    def event_timestamp(self) -> int:
        return self.event

    def partition_key(self) -> str:
        return self.key

    def properties(self) -> dict[str, str]:
        return self.named


def served(entry: Entry) -> list[Served]:
    """Return the messages of an entry, whose payload is not compressed, as a client without keys has them."""
    ledger, number, data = entry
    if data[:2] == b"\x0e\x02":
        data = data[6 + int.from_bytes(data[2:6], "big") :]
    data = data[6:] if data[:2] == b"\x0e\x01" else data
    end = 4 + int.from_bytes(data[:4], "big")
    meta, payload = MessageMetadataRecord.FromString(data[4:end]), data[end:]
    if meta.encryption_key or not meta.HasField("messages_in_batch"):
        return [_served(ClientId(ledger, number, -1), payload, meta, meta)]
    found = []
    for index in range(meta.messages_in_batch):
        (size,) = struct.unpack_from(">I", payload)
        single = BatchedMetadataRecord.FromString(payload[4 : 4 + size])
        payload = payload[4 + size :]
        value, payload = payload[: single.payload_size], payload[single.payload_size :]
        found.append(_served(ClientId(ledger, number, index), value, meta, single))
    return found


def _served(
    at: ClientId, value: bytes, meta: MessageMetadataRecord, own: MessageMetadataRecord | BatchedMetadataRecord
) -> Served:
    named: dict[str, str] = {}
    for one in own.property:
        named.setdefault(_text(one.key), _text(one.value))
    return Served(at, value, meta.publish_time_ms, own.event_time_ms, _text(own.key), named)


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()


@dataclass
class ServedTopics:
    """Brokers, in place of `ledgerfs_cluster.recovery.checking.pulsar_service.PulsarService`.

    Attributes
    ----------
    topics
        {topic: its entries, in order}.
    hidden
        Entries that are not sent.
    spoil
        What comes in place of each message.
    stuck
        Entries at which no reader gets any further, as where a broker cannot read a ledger.
    last
        What brokers call the last entry; None for the last one that is sent.

    """

    topics: dict[str, Sequence[Entry]]
    hidden: set[tuple[int, int]] = field(default_factory=set)
    spoil: Callable[[Served], list[Served]] = lambda one: [one]
    stuck: set[tuple[int, int]] = field(default_factory=set)
    last: Position | None = None
    silence_s: float = 0.001
    patience_s: float = 0.005

    @contextmanager
    def reading(self, topic: str) -> Iterator["_Reading"]:
        if topic not in self.topics:
            raise NotFoundError("the broker has no such topic", key=topic)
        entries = [one for one in self.topics[topic] if one[:2] not in self.hidden]
        sent = [came for one in entries for message in served(one) for came in self.spoil(message)]
        yield _Reading(sent, self.stuck, self.last)


class _Reading:
    def __init__(self, sent: list[Served], stuck: set[tuple[int, int]], last: Position | None) -> None:
        self._sent, self._stuck = sent, stuck
        self._end = last or (Position(*sent[-1].at[:2]) if sent else None)
        self._before: Position | None = None
        self._at = 0

    def next(self, wait_s: float) -> Served | None:
        if self._at == len(self._sent) or self._sent[self._at].at[:2] in self._stuck:
            return None
        self._at += 1
        self._before = Position(*self._sent[self._at - 1].at[:2])
        return self._sent[self._at - 1]

    def is_at_end(self) -> bool:
        if self._end is None:
            return True
        if self._before is None:
            return False
        is_within = self._at < len(self._sent) and self._sent[self._at].at[:2] == self._before
        return self._before >= self._end and not is_within
