"""Third step: the requested columns of the message table, built from the tables of integers."""

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.topic_names import split_partition
from ledgerfs.messages.decode.batch_split import MessageField, Messages
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, transactions_of
from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA
from ledgerfs.messages.decode.undecodable import Undecodable, add_undecodable, message_id
from ledgerfs.messages.kernels.gather import (
    are_equal,
    gather_bytes,
    gather_properties,
    gather_text,
    gather_times,
    masked,
    packed_bytes,
    require_countable,
    take,
)
from ledgerfs.messages.kernels.wire import ABSENT

StateOf = Callable[[tuple[int, int], int, int], str]
"""Called with a transaction, a ledger and an entry; returns the state of that message of the transaction."""

Constants = dict[str, tuple[object, pa.Array]]
"""Columns that repeat one value (topic, ledger, every field that no message sets), cached for the next batch: {name: (value, array)}."""

_LONGEST_CONSTANT = 256
_SMALLEST = 1 << 12
"""Items of a constant column."""
_PROPERTY_OF_MESSAGE, _PROPERTY_OF_BATCHED = 4, 1


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Builds Arrow arrays of the messages, one column at a time. A column that no message sets costs nothing.

    Times that no column can hold are null, and added to ``undecodable``.
    """

    topic: str
    ledger_id: int
    data: Bytes
    entries: Int64Table
    ids: Int64
    messages: Messages
    constants: Constants
    undecodable: list[Undecodable]
    state_of: StateOf | None = None

    def build(self, names: Sequence[str]) -> list[pa.Array]:
        """Return columns of `MESSAGE_SCHEMA`."""
        return [getattr(self, f"_{name}")() for name in names]

    def _constant(self, name: str, value: object = None) -> pa.Array:
        """Return a column that repeats one value; a shorter one is a slice of an earlier one, since arrays are immutable."""
        length = self.messages.columns[MessageField.ENTRY].size
        known, kept = self.constants.get(name, (None, None))
        is_new = kept is None or known != value
        if is_new or len(kept) < length:
            # A value of one ledger may never be needed again.
            kept = repeated(value, MESSAGE_SCHEMA.field(name).type, length if is_new else max(_SMALLEST, length))
            self.constants[name] = value, kept
        return kept.slice(0, length)

    def _topic(self) -> pa.Array:
        return self._constant("topic", self.topic)

    def _ledger_id(self) -> pa.Array:
        return self._constant("ledger_id", self.ledger_id)

    def _entry_id(self) -> pa.Array:
        return masked(self._of_messages(self.ids), None, pa.int64())

    def _batch_index(self) -> pa.Array:
        index = self.messages.columns[MessageField.BATCH_INDEX]
        valid = index >= 0
        if not valid.any():
            return self._constant("batch_index")
        return masked(index.astype(np.int32), valid, pa.int32())

    def _publish_time(self) -> pa.Array:
        return self._times("publish_time", self._of_messages(self.entries[Meta.PUBLISH_TIME]))

    def _event_time(self) -> pa.Array:
        times = self.messages.columns[MessageField.EVENT_TIME]
        return self._times("event_time", times, absent=0) if times.any() else self._constant("event_time")

    def _key(self) -> pa.Array:
        return self._keys("key", self.messages.columns[MessageField.KEY_IS_BASE64] == 0)

    def _key_bytes(self) -> pa.Array:
        is_base64 = self.messages.columns[MessageField.KEY_IS_BASE64] != 0
        if not is_base64.any():
            return self._constant("key_bytes")
        encoded = self._keys("key_bytes", is_base64)
        return pa.array([None if one is None else _from_base64(one) for one in encoded.to_pylist()], pa.binary())

    def _keys(self, name: str, valid: Mask) -> pa.Array:
        at, size = self.messages.columns[MessageField.KEY_AT], self.messages.columns[MessageField.KEY_SIZE]
        valid &= at >= 0
        valid &= self.messages.columns[MessageField.KEY_IS_NULL] == 0
        if not valid.any():
            return self._constant(name)
        return _GATHER[name](self.messages.heads, at, size, valid)

    def _ordering_key(self) -> pa.Array:
        at = self.messages.columns[MessageField.ORDERING_KEY_AT]
        valid = at >= 0
        if not valid.any():
            return self._constant("ordering_key")
        return gather_bytes(self.messages.heads, at, self.messages.columns[MessageField.ORDERING_KEY_SIZE], valid)

    def _value(self) -> pa.Array:
        is_null = self.messages.columns[MessageField.VALUE_IS_NULL]
        valid = is_null == 0 if is_null.any() else None
        if self.messages.are_packed:
            return packed_bytes(self.messages.payloads, self.messages.columns[MessageField.PAYLOAD_SIZE], valid)
        at, size = self.messages.columns[MessageField.PAYLOAD_AT], self.messages.columns[MessageField.PAYLOAD_SIZE]
        return gather_bytes(self.messages.payloads, at, size, valid)

    def _properties(self) -> pa.Array:
        counts = self.messages.columns[MessageField.PROPERTIES]
        if not counts.any():
            return self._constant("properties")
        alone = self.messages.columns[MessageField.BATCH_INDEX] < 0
        fields = np.where(alone, _PROPERTY_OF_MESSAGE, _PROPERTY_OF_BATCHED)
        at, end = self.messages.columns[MessageField.METADATA_AT], self.messages.columns[MessageField.METADATA_END]
        return gather_properties(self.messages.heads, at, end, fields, counts)

    def _producer_name(self) -> pa.Array:
        return self._repeating("producer_name", Meta.PRODUCER_AT)

    def _sequence_id(self) -> pa.Array:
        return masked(self.messages.columns[MessageField.SEQUENCE_ID].copy(), None, pa.int64())

    def _schema_version(self) -> pa.Array:
        return self._repeating("schema_version", Meta.SCHEMA_AT)

    def _partition(self) -> pa.Array:
        _, number = split_partition(self.topic)
        return self._constant("partition", None if number is None else int(number))

    def _broker_index(self) -> pa.Array:
        of_entry = self.entries[Meta.BROKER_INDEX]
        if (of_entry == ABSENT).all():
            return self._constant("broker_index")
        last = self._of_messages(of_entry)
        size = self._of_messages(self.entries[Meta.BATCH_SIZE])
        index = self.messages.columns[MessageField.BATCH_INDEX]
        return masked(np.where(index >= 0, last - size + 1 + index, last), last != ABSENT, pa.int64())

    def _broker_time(self) -> pa.Array:
        times = self.entries[Meta.BROKER_TIME]
        if (times == ABSENT).all():
            return self._constant("broker_time")
        return self._times("broker_time", self._of_messages(times))

    def _txn_id(self) -> pa.Array:
        return self._of_transactions("txn_id", lambda transaction, *_: f"({transaction[0]},{transaction[1]})")

    def _txn_state(self) -> pa.Array:
        return self._of_transactions("txn_state", self.state_of or (lambda *_: "open"))

    def _of_transactions(self, name: str, text: StateOf) -> pa.Array:
        if (self.entries[Meta.TRANSACTION_LEAST] == ABSENT).all():
            return self._constant(name)
        found = zip(transactions_of(self.entries), self.ids.tolist(), strict=True)
        reported = [None if one is None else text(one, self.ledger_id, entry) for one, entry in found]
        texts = pa.array(reported, pa.string())
        return texts if self.messages.one_an_entry else texts.take(pa.array(self.messages.columns[MessageField.ENTRY]))

    def _deliver_at_time(self) -> pa.Array:
        times = self.entries[Meta.DELIVER_AT]
        if not times.any():
            return self._constant("deliver_at_time")
        return self._times("deliver_at_time", self._of_messages(times), absent=0)

    def _replicated_from(self) -> pa.Array:
        return self._repeating("replicated_from", Meta.REPLICATED_FROM_AT)

    def _times(self, name: str, milliseconds: Int64, absent: int = ABSENT) -> pa.Array:
        """Return a column of times."""
        times, overflown = gather_times(milliseconds, absent)
        if overflown:
            first = int(np.flatnonzero((milliseconds != absent) & np.asarray(times.is_null()))[0])
            index = int(self.messages.columns[MessageField.BATCH_INDEX][first])
            entry_id = int(self.ids[self.messages.columns[MessageField.ENTRY][first]])
            message = message_id(self.ledger_id, entry_id, None if index < 0 else index)
            reason = f"its {name} does not fit 64 bits of µs and is null (Pulsar's times are ms)"
            add_undecodable(
                self.undecodable, Undecodable(None, reason, overflown, message, raw=int(milliseconds[first]))
            )
        return times

    def _of_messages(self, of_entries: Int64) -> Int64:
        """Return a column of the entries as a column of the messages."""
        return of_entries if self.messages.one_an_entry else take(of_entries, self.messages.columns[MessageField.ENTRY])

    def _repeating(self, name: str, column: Meta) -> pa.Array:
        """Return a column of text or bytes of the entries, most of which have equal values."""
        at, size = self.entries[column], self.entries[column + 1]
        valid, gather = at >= 0, _GATHER[name]
        if not valid.any():
            return self._constant(name)
        if valid.all() and size[0] <= _LONGEST_CONSTANT and are_equal(self.data, at, size):
            value = self.data[at[0] : at[0] + size[0]].tobytes()
            return self._constant(name, value.decode("utf-8", "replace") if gather is gather_text else value)
        valid = valid if self.messages.one_an_entry else valid[self.messages.columns[MessageField.ENTRY]]
        return gather(self.data, self._of_messages(at), self._of_messages(size), valid)


_GATHER = {
    "key": gather_text,
    "key_bytes": gather_bytes,
    "producer_name": gather_text,
    "schema_version": gather_bytes,
    "replicated_from": gather_text,
}


def repeated(value: object, kind: pa.DataType, size: int) -> pa.Array:
    """Return an array that repeats a value ``size`` times; for a map always an empty one."""
    if isinstance(kind, pa.MapType):
        nothing = pa.array([], pa.string())
        return pa.MapArray.from_arrays(pa.array(np.zeros(size + 1, np.int32)), nothing, nothing)
    if not isinstance(value, str | bytes):
        return pa.repeat(pa.scalar(value, kind), size)
    # Arrow's own repeat takes half a microsecond for each text.
    one = value.encode() if isinstance(value, str) else value
    require_countable(size * len(one))
    offsets = np.arange(size + 1, dtype=np.int32) * np.int32(len(one))
    return pa.Array.from_buffers(kind, size, [None, pa.py_buffer(offsets), pa.py_buffer(one * size)])


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text
