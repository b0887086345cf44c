"""A message of a restored topic, as the bucket has it and as Pulsar's client has it, and what has to be the same of both."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position

COLUMNS = ("entry_id", "batch_index", "publish_time", "event_time", "key", "key_bytes", "value", "properties")
"""Of the message table, those that `messages_in` takes."""

_UINT64 = 1 << 64
_LATEST_EVENT_MS = (1 << 63) // 1000


class MessagePlace(NamedTuple):
    """Where a message is; places order as the topic does. ``batch_index`` is -1 outside batches."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1

    @property
    def position(self) -> Position:
        """Where its entry is."""
        return Position(self.ledger_id, self.entry_id)

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}" + (f":{self.batch_index}" if self.batch_index >= 0 else "")


class Message(NamedTuple):
    """What is compared of a message.

    Attributes
    ----------
    place
        With the id of its ledger as brokers know it.
    value
        Its payload, empty for none.
    publish_ms, event_ms
        Times, ms since 1970 UTC; an event time of 0 is none.
    key
        Its key, in base64 if it was given as bytes; empty for none.
    properties
        {name: values}: of a name that a message has twice, the client has one value.
    is_encrypted
        Whether the value is what was encrypted. Then the rest is not compared, but for the publish time.
    is_dropped
        Whether the client drops it, so that nothing can be said if it does not come.

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
        """Whether a message that was sent is this one."""
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


def message_of(sent: Any) -> Message:  # noqa: ANN401  (`pulsar.Message`)
    """Return a message that the client has received."""
    at, event_ms = sent.message_id(), sent.event_timestamp()
    return Message(
        MessagePlace(at.ledger_id(), at.entry_id(), at.batch_index()),
        sent.data(),
        sent.publish_timestamp(),
        event_ms - _UINT64 if event_ms >= _UINT64 >> 1 else event_ms,
        sent.partition_key(),
        {name: (value,) for name, value in sent.properties().items()},
    )


def messages_in(table: pa.RecordBatch, ledger_id: int) -> list[Message]:
    """Return the messages of a batch of `COLUMNS`, in a ledger."""
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
