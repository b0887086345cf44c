"""Last step but one: the columns of the message table, each built from the tables of integers when it is asked for."""

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ledgerfs.messages.batch_split import Int64Table, Message
from ledgerfs.messages.gather import gather_bytes, gather_properties, gather_text, masked
from ledgerfs.messages.metadata_walk import Meta, transactions_of
from ledgerfs.messages.wire import ABSENT

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_PARTITION = re.compile(r"-partition-([0-9]{1,9})\Z")
_PROPERTY_OF_MESSAGE, _PROPERTY_OF_BATCHED = 4, 1


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Builds Arrow arrays of the messages, one column at a time."""

    topic: str
    ledger_id: int
    data: Bytes
    entries: Int64Table
    ids: Int64Table
    messages: Int64Table
    state_of: Callable[[tuple[int, int]], str] | None = None

    def build(self, name: str) -> pa.Array:
        """Return one column of `MESSAGE_SCHEMA`."""
        build: pa.Array = getattr(self, f"_{name}")()
        return build

    def _of_entry(self, column: Meta) -> Int64Table:
        of_entry: Int64Table = self.entries[self.messages[:, Message.ENTRY], column]
        return of_entry

    def _constant(self, value: object, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), len(self.messages))

    def _topic(self) -> pa.Array:
        return self._constant(self.topic, pa.string())

    def _ledger_id(self) -> pa.Array:
        return self._constant(self.ledger_id, pa.int64())

    def _entry_id(self) -> pa.Array:
        return pa.array(self.ids[self.messages[:, Message.ENTRY]])

    def _batch_index(self) -> pa.Array:
        index = self.messages[:, Message.BATCH_INDEX]
        return masked(index.astype(np.int32), index >= 0, pa.int32())

    def _publish_time(self) -> pa.Array:
        return _time(self._of_entry(Meta.PUBLISH_TIME))

    def _event_time(self) -> pa.Array:
        return _time(self.messages[:, Message.EVENT_TIME], zero_is_null=True)

    def _key_mask(self) -> Mask:
        is_null = (self.messages[:, Message.KEY_AT] < 0) | (self.messages[:, Message.KEY_IS_NULL] != 0)
        return np.asarray(~is_null)

    def _key(self) -> pa.Array:
        valid = self._key_mask() & (self.messages[:, Message.KEY_IS_BASE64] == 0)
        return gather_text(self.data, self.messages[:, Message.KEY_AT], self.messages[:, Message.KEY_SIZE], valid)

    def _key_bytes(self) -> pa.Array:
        valid = self._key_mask() & (self.messages[:, Message.KEY_IS_BASE64] != 0)
        if not valid.any():
            return self._constant(None, pa.binary())
        encoded = gather_bytes(self.data, self.messages[:, Message.KEY_AT], self.messages[:, Message.KEY_SIZE], valid)
        return pa.array([None if one is None else _from_base64(one) for one in encoded.to_pylist()], pa.binary())

    def _ordering_key(self) -> pa.Array:
        at = self.messages[:, Message.ORDERING_KEY_AT]
        return gather_bytes(self.data, at, self.messages[:, Message.ORDERING_KEY_SIZE], at >= 0)

    def _value(self) -> pa.Array:
        valid = self.messages[:, Message.VALUE_IS_NULL] == 0
        return gather_bytes(
            self.data, self.messages[:, Message.PAYLOAD_AT], self.messages[:, Message.PAYLOAD_SIZE], valid
        )

    def _properties(self) -> pa.Array:
        alone = self.messages[:, Message.BATCH_INDEX] < 0
        fields = np.where(alone, _PROPERTY_OF_MESSAGE, _PROPERTY_OF_BATCHED)
        at, end = self.messages[:, Message.METADATA_AT], self.messages[:, Message.METADATA_END]
        return gather_properties(self.data, at, end, fields, self.messages[:, Message.PROPERTIES])

    def _producer_name(self) -> pa.Array:
        return gather_text(self.data, self._of_entry(Meta.PRODUCER_AT), self._of_entry(Meta.PRODUCER_SIZE))

    def _sequence_id(self) -> pa.Array:
        return pa.array(self.messages[:, Message.SEQUENCE_ID])

    def _schema_version(self) -> pa.Array:
        at = self._of_entry(Meta.SCHEMA_AT)
        return gather_bytes(self.data, at, self._of_entry(Meta.SCHEMA_SIZE), at >= 0)

    def _partition(self) -> pa.Array:
        match = _PARTITION.search(self.topic)
        return self._constant(int(match[1]) if match else None, pa.int32())

    def _broker_index(self) -> pa.Array:
        last, size = self._of_entry(Meta.BROKER_INDEX), self._of_entry(Meta.BATCH_SIZE)
        index = self.messages[:, Message.BATCH_INDEX]
        return masked(np.where(index >= 0, last - size + 1 + index, last), last != ABSENT, pa.int64())

    def _broker_time(self) -> pa.Array:
        return _time(self._of_entry(Meta.BROKER_TIME))

    def _txn_id(self) -> pa.Array:
        return self._of_transactions(lambda transaction: f"({transaction[0]},{transaction[1]})")

    def _txn_state(self) -> pa.Array:
        return self._of_transactions(self.state_of or (lambda _: "open"))

    def _of_transactions(self, text: Callable[[tuple[int, int]], str]) -> pa.Array:
        rows = self.entries[self.messages[:, Message.ENTRY]]
        if (rows[:, Meta.TRANSACTION_LEAST] == ABSENT).all():
            return self._constant(None, pa.string())
        return pa.array([None if one is None else text(one) for one in transactions_of(rows)], pa.string())

    def _deliver_at_time(self) -> pa.Array:
        return _time(self._of_entry(Meta.DELIVER_AT), zero_is_null=True)

    def _replicated_from(self) -> pa.Array:
        at = self._of_entry(Meta.REPLICATED_FROM_AT)
        return gather_text(self.data, at, self._of_entry(Meta.REPLICATED_FROM_SIZE), at >= 0)


def _time(milliseconds: Int64Table, *, zero_is_null: bool = False) -> pa.Array:
    """Return times; null where absent, and for what no 64-bit count of microseconds holds."""
    valid = (milliseconds != ABSENT) & (np.abs(milliseconds) < 2**63 // 1000)
    if zero_is_null:
        valid &= milliseconds != 0
    return masked(np.where(valid, milliseconds, 0) * 1000, valid, pa.timestamp("us", tz="UTC"))


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return text
