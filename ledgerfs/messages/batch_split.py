"""Second step: from entries to messages (``facts/pulsar-format.md`` §7.4).

A message is a row of integers again: which entry it is of, which of a batch, and where its metadata, key and payload are. The payloads have
been decrypted and decompressed before; entries that are no batch are one message each.
"""

from enum import IntEnum

import numpy as np
import numpy.typing as npt
from numba import njit

from ledgerfs.messages.metadata_walk import Meta, Status
from ledgerfs.messages.wire import ABSENT, FieldMap, uint32_be, walk_fields

Int64Table = npt.NDArray[np.int64]
SMALLEST_MESSAGE = 6
"""Bytes that a message of a batch takes at least: the size of its metadata, and its payload's size in it."""


class Message(IntEnum):
    """Columns of the table of messages; the value that stands for "not there" in brackets."""

    ENTRY = 0  # row of the entry table
    BATCH_INDEX = 1  # (ABSENT)
    METADATA_AT = 2  # of the metadata that holds the properties
    METADATA_END = 3
    PAYLOAD_AT = 4
    PAYLOAD_SIZE = 5
    PROPERTIES = 6
    KEY_AT = 7  # (ABSENT)
    KEY_SIZE = 8
    KEY_IS_BASE64 = 9
    KEY_IS_NULL = 10
    ORDERING_KEY_AT = 11  # (ABSENT)
    ORDERING_KEY_SIZE = 12
    EVENT_TIME = 13  # (ABSENT, 0)
    SEQUENCE_ID = 14
    VALUE_IS_NULL = 15
    COMPACTED_OUT = 16


BATCHED_FIELDS = FieldMap.of(
    numbers={
        3: Message.PAYLOAD_SIZE,
        4: Message.COMPACTED_OUT,
        5: Message.EVENT_TIME,
        6: Message.KEY_IS_BASE64,
        8: Message.SEQUENCE_ID,
        9: Message.VALUE_IS_NULL,
        10: Message.KEY_IS_NULL,
    },
    places={2: Message.KEY_AT, 7: Message.ORDERING_KEY_AT},
    counts={1: Message.PROPERTIES},
)

# Columns that a message takes from its entry: all where it is alone, some where a batch has no other word.
_OF_ENTRY = {
    Message.METADATA_AT: Meta.METADATA_AT,
    Message.METADATA_END: Meta.METADATA_END,
    Message.PAYLOAD_AT: Meta.PAYLOAD_AT,
    Message.PROPERTIES: Meta.PROPERTIES,
    Message.KEY_AT: Meta.KEY_AT,
    Message.KEY_SIZE: Meta.KEY_SIZE,
    Message.KEY_IS_BASE64: Meta.KEY_IS_BASE64,
    Message.KEY_IS_NULL: Meta.KEY_IS_NULL,
    Message.ORDERING_KEY_AT: Meta.ORDERING_KEY_AT,
    Message.ORDERING_KEY_SIZE: Meta.ORDERING_KEY_SIZE,
    Message.EVENT_TIME: Meta.EVENT_TIME,
    Message.SEQUENCE_ID: Meta.SEQUENCE_ID,
    Message.VALUE_IS_NULL: Meta.VALUE_IS_NULL,
}
_FALLBACKS = (Message.EVENT_TIME, Message.SEQUENCE_ID, Message.VALUE_IS_NULL, Message.KEY_IS_NULL)


def split_batches(data: npt.NDArray[np.uint8], entries: Int64Table) -> Int64Table:
    """Return the table of messages of the entries in ``entries``, whose payloads are plain bytes in ``data``, shape (messages, columns).

    Sets the status of an entry that is not the batch that it promises, and leaves its messages out. Allocates no more than the payloads
    could hold.
    """
    batch_size = entries[:, Meta.BATCH_SIZE]
    is_batch = batch_size != ABSENT
    room = (entries[:, Meta.PAYLOAD_END] - entries[:, Meta.PAYLOAD_AT]) // SMALLEST_MESSAGE
    entries[is_batch & ((batch_size < 0) | (batch_size > room)), Meta.STATUS] = Status.BROKEN_BATCH
    is_valid = entries[:, Meta.STATUS] == Status.VALID
    counts = np.where(is_valid, np.where(is_batch, batch_size, 1), 0)
    table = np.empty((int(counts.sum()), len(Message)), np.int64)
    of_entry = np.array([[int(message), int(meta)] for message, meta in _OF_ENTRY.items()])
    fields = (BATCHED_FIELDS.numbers, BATCHED_FIELDS.places, BATCHED_FIELDS.counts)
    used = _split(data, entries, table, of_entry, fields)
    _fall_back(table[:used], entries)
    return table[:used]


def split_unopened(entries: Int64Table, limit: int = 2**31 - 1) -> Int64Table:
    """Return the table of messages without a look at the payloads, which may still be compressed: entry and batch index only.

    A batch that claims more messages than its uncompressed size, of at most ``limit`` bytes, could hold sets the status of its entry.
    """
    batch_size = entries[:, Meta.BATCH_SIZE]
    is_batch = batch_size != ABSENT
    stored = entries[:, Meta.PAYLOAD_END] - entries[:, Meta.PAYLOAD_AT]
    claimed = entries[:, Meta.UNCOMPRESSED_SIZE]
    room = (
        np.where(entries[:, Meta.COMPRESSION] == 0, stored, np.where(claimed <= limit, claimed, -1)) // SMALLEST_MESSAGE
    )
    entries[is_batch & ((batch_size < 0) | (batch_size > room)), Meta.STATUS] = Status.BROKEN_BATCH
    is_valid = entries[:, Meta.STATUS] == Status.VALID
    counts = np.where(is_valid, np.where(is_batch, batch_size, 1), 0)
    table = np.zeros((int(counts.sum()), len(Message)), np.int64)
    rows = np.repeat(np.arange(len(entries)), counts)
    first = np.cumsum(counts) - counts
    table[:, Message.ENTRY] = rows
    table[:, Message.BATCH_INDEX] = np.where(is_batch[rows], np.arange(rows.size) - first[rows], ABSENT)
    return table


def _fall_back(table: Int64Table, entries: Int64Table) -> None:
    """Take from the batch what its messages do not say themselves."""
    for column in _FALLBACKS:
        silent = np.flatnonzero(table[:, column] == ABSENT)
        table[silent, column] = entries[table[silent, Message.ENTRY], _OF_ENTRY[column]]


@njit(nogil=True, cache=True)
def _split(data, entries, table, of_entry, fields):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    used = 0
    for i in range(entries.shape[0]):
        if entries[i, 0] != 0:
            continue
        batch_size = entries[i, 18]
        if batch_size < 0:
            table[used, 0] = i
            table[used, 1] = batch_size
            table[used, 16] = 0
            for k in range(of_entry.shape[0]):
                table[used, of_entry[k, 0]] = entries[i, of_entry[k, 1]]
            table[used, 5] = entries[i, 4] - entries[i, 3]
            used += 1
            continue
        first = used
        at = entries[i, 3]
        end = entries[i, 4]
        for k in range(batch_size):
            at = _walk_message(data, at, end, table, used, fields)
            if at < 0:
                entries[i, 0] = 4
                used = first
                break
            table[used, 0] = i
            table[used, 1] = k
            if table[used, 16] == 0:
                used += 1
    return used


@njit(nogil=True, cache=True)
def _walk_message(data, at, end, table, row, fields):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill one row from a message of a batch; return the position behind the message, or -1."""
    for column in range(table.shape[1]):
        table[row, column] = 0
    table[row, 5] = -1
    table[row, 7] = table[row, 10] = table[row, 11] = table[row, 13] = table[row, 14] = table[row, 15] = -(2**63)
    if at + 4 > end:
        return -1
    size = uint32_be(data, at)
    at += 4
    if size > end - at or not walk_fields(data, at, at + size, table, row, fields[0], fields[1], fields[2]):
        return -1
    payload = at + size
    if table[row, 5] < 0 or table[row, 5] > end - payload:
        return -1
    table[row, 2] = at
    table[row, 3] = table[row, 4] = payload
    return payload + table[row, 5]
