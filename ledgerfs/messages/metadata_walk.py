"""First step: frame and metadata of every entry of a buffer, as a table of integers (``facts/pulsar-format.md`` §7.1, §7.2).

A row of the table is an entry, a column is a field; a field of bytes is two columns, where it begins in the buffer and how long it is.
Nothing is copied. Unknown fields are skipped; an entry that breaks a bound, or lacks what every message has, says so in its status.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from numba import njit

from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.wire import ABSENT, FieldMap, uint32_be, walk_fields

Int64Table = npt.NDArray[np.int64]


class Status(IntEnum):
    """What is wrong with an entry."""

    VALID = 0
    BROKEN_FRAME = 1
    BROKEN_METADATA = 2
    MISSING_FIELD = 3
    """One of producer name, sequence id, publish time."""
    BROKEN_BATCH = 4
    """The payload is not the batch that the metadata promises."""
    IMPOSSIBLE_TIME = 5


class Meta(IntEnum):
    """Columns of the table; in brackets the value that stands for "not there" where it is not 0."""

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


BROKER_FIELDS = FieldMap.of(numbers={1: Meta.BROKER_TIME, 2: Meta.BROKER_INDEX})

MESSAGE_FIELDS = FieldMap.of(
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
    counts={4: Meta.PROPERTIES, 13: Meta.ENCRYPTION_KEYS},
)

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
    ]
] = ABSENT


def walk_metadata(batch: EntryBatch) -> Int64Table:
    """Return the table of a batch's entries, shape (entries, columns)."""
    table = np.empty((len(batch), len(Meta)), np.int64)
    data = np.frombuffer(batch.buffer, np.uint8)
    _walk_entries(
        data, batch.offsets, batch.lengths, table, _DEFAULTS, _as_tuple(BROKER_FIELDS), _as_tuple(MESSAGE_FIELDS)
    )
    missing = (table[:, [Meta.PRODUCER_AT, Meta.SEQUENCE_ID, Meta.PUBLISH_TIME]] == ABSENT).any(axis=1)
    status = table[:, Meta.STATUS]
    status[missing & (status == Status.VALID)] = Status.MISSING_FIELD
    return table


def _as_tuple(fields: FieldMap) -> tuple[Int64Table, Int64Table, Int64Table]:
    return fields.numbers, fields.places, fields.counts


@njit(nogil=True, cache=True)
def _walk_entries(data, offsets, lengths, table, defaults, broker, message):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    for i in range(offsets.size):
        for column in range(defaults.size):
            table[i, column] = defaults[column]
        at = offsets[i]
        end = at + lengths[i]
        table[i, 0] = 1
        if at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x02:
            size = uint32_be(data, at + 2)
            at += 6
            if size > end - at or not walk_fields(data, at, at + size, table, i, broker[0], broker[1], broker[2]):
                continue
            at += size
        if at + 6 <= end and data[at] == 0x0E and data[at + 1] == 0x01:
            at += 6
        if at + 4 > end:
            continue
        size = uint32_be(data, at)
        at += 4
        if size > end - at:
            continue
        table[i, 1] = at
        table[i, 2] = table[i, 3] = at + size
        table[i, 4] = end
        is_sound = walk_fields(data, at, at + size, table, i, message[0], message[1], message[2])
        table[i, 0] = 0 if is_sound else 2


def transactions_of(rows: Int64Table) -> list[tuple[int, int] | None]:
    """Return for each row its transaction's id as (most, least) significant half; None where it is in none."""
    pairs = zip(rows[:, Meta.TRANSACTION_MOST].tolist(), rows[:, Meta.TRANSACTION_LEAST].tolist(), strict=True)
    return [None if least == ABSENT else (0 if most == ABSENT else most, least) for most, least in pairs]
