"""First step: frame and metadata of every entry of a buffer, as a table of integers (``docs/formats/entries.md``).

A column of the table, ``table[Meta.…]``, is a field of all entries; a field of bytes is two columns: its position in the buffer, and its
length.
Nothing is copied. Unknown fields are skipped. An entry that breaks a bound, or lacks a required field, has a status that is not 0.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError

from ledgerfs.formats.array_types import Mask
from ledgerfs.formats.kernel import kernel
from ledgerfs.formats.memory_loads import load_uint32
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.kernels.arrays import borrowed, empty_table
from ledgerfs.messages.kernels.gather import gather_properties
from ledgerfs.messages.kernels.wire import ABSENT, ACTIONS, field_map, walk_fields
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord

Int64Table = npt.NDArray[np.int64]


class Status(IntEnum):
    """Fault of an entry."""

    VALID = 0
    BROKEN_FRAME = 1
    BROKEN_METADATA = 2
    MISSING_FIELD = 3
    """One of producer name, sequence id, publish time."""
    BROKEN_BATCH = 4
    """The payload is not the batch that the metadata promises."""
    IMPOSSIBLE_TIME = 5
    """The publish time overflows a 64-bit count of microseconds."""
    BROKEN_COMPRESSION = 6
    KAFKA_ENTRY = 7
    """Not a fault: Kafka on Pulsar wrote the payload, which is a batch of Kafka records."""


class Meta(IntEnum):
    """Columns of the table; in brackets the value for a missing field, if it is not 0."""

    STATUS = 0  # a `Status`
    METADATA_AT = 1
    METADATA_END = 2
    PAYLOAD_AT = 3
    PAYLOAD_END = 4
    BROKER_TIME = 5  # (ABSENT)
    BROKER_INDEX = 6  # (ABSENT) index of the entry's last message
    PRODUCER_AT = 7  # (ABSENT)
    PRODUCER_SIZE = 8
    SEQUENCE_ID = 9  # (ABSENT)
    PUBLISH_TIME = 10  # (ABSENT)
    PROPERTIES = 11
    REPLICATED_FROM_AT = 12  # (ABSENT)
    REPLICATED_FROM_SIZE = 13
    KEY_AT = 14  # (ABSENT)
    KEY_SIZE = 15
    COMPRESSION = 16
    UNCOMPRESSED_SIZE = 17  # (ABSENT)
    BATCH_SIZE = 18  # (ABSENT)
    EVENT_TIME = 19
    ENCRYPTION_KEYS = 20
    IV_AT = 21  # (ABSENT)
    IV_SIZE = 22
    SCHEMA_AT = 23  # (ABSENT)
    SCHEMA_SIZE = 24
    KEY_IS_BASE64 = 25
    ORDERING_KEY_AT = 26  # (ABSENT)
    ORDERING_KEY_SIZE = 27
    DELIVER_AT = 28
    MARKER = 29  # (ABSENT)
    TRANSACTION_LEAST = 30  # (ABSENT)
    TRANSACTION_MOST = 31  # (ABSENT)
    VALUE_IS_NULL = 32
    CHUNKED_ID_AT = 33  # (ABSENT)
    CHUNKED_ID_SIZE = 34
    CHUNKS = 35
    CHUNKED_SIZE = 36
    CHUNK = 37
    KEY_IS_NULL = 38
    KEPT_OF_BATCH = 39  # (ABSENT) anything else: compaction kept only some messages of the batch


_BROKER_FIELDS = field_map(numbers={1: Meta.BROKER_TIME, 2: Meta.BROKER_INDEX})

_MESSAGE_FIELDS = field_map(
    numbers={
        2: Meta.SEQUENCE_ID,
        3: Meta.PUBLISH_TIME,
        8: Meta.COMPRESSION,
        9: Meta.UNCOMPRESSED_SIZE,
        11: Meta.BATCH_SIZE,
        12: Meta.EVENT_TIME,
        17: Meta.KEY_IS_BASE64,
        19: Meta.DELIVER_AT,
        20: Meta.MARKER,
        22: Meta.TRANSACTION_LEAST,
        23: Meta.TRANSACTION_MOST,
        25: Meta.VALUE_IS_NULL,
        27: Meta.CHUNKS,
        28: Meta.CHUNKED_SIZE,
        29: Meta.CHUNK,
        30: Meta.KEY_IS_NULL,
        31: Meta.KEPT_OF_BATCH,
    },
    places={
        1: Meta.PRODUCER_AT,
        5: Meta.REPLICATED_FROM_AT,
        6: Meta.KEY_AT,
        15: Meta.IV_AT,
        16: Meta.SCHEMA_AT,
        18: Meta.ORDERING_KEY_AT,
        26: Meta.CHUNKED_ID_AT,
    },
    counts={4: Meta.PROPERTIES, 13: Meta.ENCRYPTION_KEYS, 31: Meta.KEPT_OF_BATCH},
)

_FIELDS = np.concatenate([_BROKER_FIELDS, _MESSAGE_FIELDS])
_DEFAULTS = np.zeros(len(Meta), np.int64)
_DEFAULTS[
    [
        Meta.BROKER_TIME,
        Meta.BROKER_INDEX,
        Meta.PRODUCER_AT,
        Meta.SEQUENCE_ID,
        Meta.PUBLISH_TIME,
        Meta.REPLICATED_FROM_AT,
        Meta.KEY_AT,
        Meta.UNCOMPRESSED_SIZE,
        Meta.BATCH_SIZE,
        Meta.IV_AT,
        Meta.SCHEMA_AT,
        Meta.ORDERING_KEY_AT,
        Meta.MARKER,
        Meta.TRANSACTION_LEAST,
        Meta.TRANSACTION_MOST,
        Meta.CHUNKED_ID_AT,
        Meta.KEPT_OF_BATCH,
    ]
] = ABSENT
_FILLED_AT_ONCE = 256
_LAST_TIME = 2**63 // 1000 - 1
_PROPERTY_FIELD = 4
_FORMAT_PROPERTY = "entry.format"
_KAFKA_FORMATS = pa.array(["kafka", "mixed_kafka"])
"""Values of ``entry.format`` by which Kafka on Pulsar (``io.streamnative.pulsar.handlers.kop.format``) marks its own entries."""


def walk_metadata(batch: EntryBatch) -> Int64Table:
    """Return the table of a batch's entries, shape (columns, entries)."""
    table = empty_table(len(Meta), len(batch))
    data, of_batch = np.frombuffer(batch.buffer, np.uint8), table[:, : len(batch)]
    if _walk_entries(data, batch.offsets, batch.lengths, table, _DEFAULTS, _FIELDS):
        _look_closer(data, of_batch)
    return of_batch


def have_sound_metadata(table: Int64Table) -> Mask:
    """Return which entries have valid metadata, whether or not the format of their payload is supported."""
    status = table[Meta.STATUS]
    sound: Mask = (status == Status.VALID) | (status == Status.KAFKA_ENTRY)
    return sound


def _look_closer(data: npt.NDArray[np.uint8], table: Int64Table) -> None:
    """Correct the status of entries that seem to lack a field, and of batches with properties, which may be Kafka's."""
    for row in np.flatnonzero(table[Meta.STATUS] == Status.MISSING_FIELD).tolist():
        table[Meta.STATUS, row] = _missing_or_not(data[table[Meta.METADATA_AT, row] : table[Meta.METADATA_END, row]])
    is_batch = table[Meta.BATCH_SIZE] != ABSENT
    rows = np.flatnonzero(is_batch & (table[Meta.PROPERTIES] > 0) & (table[Meta.STATUS] == Status.VALID))
    if rows.size:
        table[Meta.STATUS, rows[_are_kafka(data, np.ascontiguousarray(table[:, rows]))]] = Status.KAFKA_ENTRY


def _are_kafka(data: npt.NDArray[np.uint8], table: Int64Table) -> Mask:
    """Return which entries have the property by which Kafka on Pulsar marks its own."""
    counts = table[Meta.PROPERTIES]
    fields = np.full(counts.size, _PROPERTY_FIELD)
    found = gather_properties(data, table[Meta.METADATA_AT], table[Meta.METADATA_END], fields, counts)
    is_mark = pc.and_(pc.equal(found.keys, _FORMAT_PROPERTY), pc.is_in(found.items, value_set=_KAFKA_FORMATS))
    are_kafka = np.zeros(counts.size, bool)
    are_kafka[np.repeat(np.arange(counts.size), counts)[np.asarray(is_mark)]] = True
    return are_kafka


def _missing_or_not(metadata: npt.NDArray[np.uint8]) -> Status:
    """Return the status of an entry that seems to lack a field: the value may be 2⁶³, which the kernel reads as `ABSENT`."""
    try:
        message = MessageMetadataRecord.FromString(metadata.tobytes())
    except DecodeError:
        return Status.BROKEN_METADATA
    if not all(message.HasField(name) for name in ("producer_name", "sequence_id", "publish_time_ms")):
        return Status.MISSING_FIELD
    published = message.publish_time_ms
    return Status.VALID if min(published, 2**64 - published) <= _LAST_TIME else Status.IMPOSSIBLE_TIME


@kernel
def _walk_entries(data, offsets, lengths, table, defaults, fields):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0912, PLR0917
    """Fill the table; return whether an entry seems to lack a field, or is a batch with properties."""
    data, table, fields = borrowed(data), borrowed(table), borrowed(fields)  # type: ignore[call-arg]
    is_odd = False
    for i in range(offsets.size):
        if i % _FILLED_AT_ONCE == 0:
            stop = i + _FILLED_AT_ONCE if i + _FILLED_AT_ONCE < offsets.size else offsets.size  # noqa: FURB136  (min is one more function to compile)
            for column in range(defaults.size):
                value = defaults[column]
                for k in range(i, stop):
                    table[column, k] = value
        at, end = offsets[i], offsets[i] + lengths[i]
        # One place walks both messages of an entry: two would be compiled twice.
        is_broker = at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x02
        status = 0
        while True:
            if is_broker:
                at += 2
            elif at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x01:
                at += 6
            size = load_uint32(data, at) if at + 4 <= end else end
            at += 4
            if size > end - at:
                status = 1
                break
            if not is_broker:
                table[1, i] = at
                table[2, i] = table[3, i] = at + size
                table[4, i] = end
            if not walk_fields(data, at, at + size, table, i, fields, 0 if is_broker else ACTIONS):
                status = 1 if is_broker else 2
                break
            if not is_broker:
                break
            at += size
            is_broker = False
        if status == 0:
            if table[7, i] < 0 or table[9, i] == ABSENT or table[10, i] == ABSENT:
                status = 3
            elif not -_LAST_TIME <= table[10, i] <= _LAST_TIME:
                status = 5
        table[0, i] = status
        is_odd |= status == 3 or (table[11, i] > 0 and table[18, i] != ABSENT)
    return is_odd


def transactions_of(entries: Int64Table) -> list[tuple[int, int] | None]:
    """Return for each entry its transaction's id as (most, least) significant half; None without both halves."""
    pairs = zip(entries[Meta.TRANSACTION_MOST].tolist(), entries[Meta.TRANSACTION_LEAST].tolist(), strict=True)
    return [None if ABSENT in (most, least) else (most, least) for most, least in pairs]
