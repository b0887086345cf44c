"""Second step: from entries to messages (Pulsar's ``SingleMessageMetadata``).

A message is a few integers: its entry, its index in the batch, and the positions of its metadata, key and payload. Entries that are
not batches are one message each. If no entry is a batch and none is compressed, nothing is copied: the columns of the messages are those of
the entries. Otherwise the split copies the payloads of all messages one after the other, as their column needs them, while those of one
batch are still in the CPU's cache; it decompresses them at the same time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.formats.decompression import LARGEST, Compression
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.memory_loads import load_uint32
from ledgerfs.messages.codecs.native_decompression import decompress_into, native_functions
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status
from ledgerfs.messages.kernels.arrays import borrowed, copy_bytes, empty, empty_table, read_only
from ledgerfs.messages.kernels.wire import ABSENT, field_map, walk_fields
from ledgerfs.messages.proto.message_metadata_pb2 import MessageMetadataRecord

_NOTHING = np.zeros(0, np.uint8)
SMALLEST_MESSAGE = 6
"""Least bytes of a message in a batch: the size of its metadata, and its payload's size in it."""


class MessageField(IntEnum):
    """Columns of the messages; in brackets the value for a missing field."""

    ENTRY = 0  # position in the table of entries
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
    EVENT_TIME = 13  # (0)
    SEQUENCE_ID = 14
    VALUE_IS_NULL = 15
    COMPACTED_OUT = 16


BATCHED_FIELDS = field_map(
    numbers={
        3: MessageField.PAYLOAD_SIZE,
        4: MessageField.COMPACTED_OUT,
        5: MessageField.EVENT_TIME,
        6: MessageField.KEY_IS_BASE64,
        8: MessageField.SEQUENCE_ID,
        9: MessageField.VALUE_IS_NULL,
        10: MessageField.KEY_IS_NULL,
    },
    places={2: MessageField.KEY_AT, 7: MessageField.ORDERING_KEY_AT},
    counts={1: MessageField.PROPERTIES},
)

# Columns that a message outside a batch copies from its entry; one of a batch copies the last four if it does not set them itself.
_OF_ENTRY = {
    MessageField.METADATA_AT: Meta.METADATA_AT,
    MessageField.METADATA_END: Meta.METADATA_END,
    MessageField.PAYLOAD_AT: Meta.PAYLOAD_AT,
    MessageField.PROPERTIES: Meta.PROPERTIES,
    MessageField.KEY_AT: Meta.KEY_AT,
    MessageField.KEY_SIZE: Meta.KEY_SIZE,
    MessageField.KEY_IS_BASE64: Meta.KEY_IS_BASE64,
    MessageField.ORDERING_KEY_AT: Meta.ORDERING_KEY_AT,
    MessageField.ORDERING_KEY_SIZE: Meta.ORDERING_KEY_SIZE,
    MessageField.EVENT_TIME: Meta.EVENT_TIME,
    MessageField.SEQUENCE_ID: Meta.SEQUENCE_ID,
    MessageField.VALUE_IS_NULL: Meta.VALUE_IS_NULL,
    MessageField.KEY_IS_NULL: Meta.KEY_IS_NULL,
}
_OF_ENTRY_PAIRS = np.array([[int(message), int(meta)] for message, meta in _OF_ENTRY.items()])

_DEFAULTS = {
    MessageField.PAYLOAD_SIZE: -1,
    MessageField.PROPERTIES: 0,
    MessageField.KEY_AT: ABSENT,
    MessageField.KEY_IS_BASE64: 0,
    MessageField.ORDERING_KEY_AT: ABSENT,
    MessageField.COMPACTED_OUT: 0,
}
"""Values of the other columns, if a message of a batch does not set them. Sizes are undefined where the position is `ABSENT`."""
_DEFAULT_PAIRS = np.array([[int(column), value] for column, value in _DEFAULTS.items()])
_MAPS = (_OF_ENTRY_PAIRS, _DEFAULT_PAIRS, BATCHED_FIELDS)


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of some entries.

    Attributes
    ----------
    columns
        Arrays by `MessageField`, one number a message each.
    one_an_entry
        Whether every entry is exactly one message.
    heads
        The bytes that the columns of metadata and keys point into.
    payloads
        The bytes that the column of payloads points into.
    are_packed
        Whether ``payloads`` holds the payloads of the messages one after the other, from its first byte on.

    """

    columns: Sequence[Int64] | Int64Table
    one_an_entry: bool
    heads: Bytes
    payloads: Bytes
    are_packed: bool = False

    def __len__(self) -> int:
        return len(self.columns[MessageField.ENTRY])

    def __getitem__(self, column: MessageField) -> Int64:
        return self.columns[column]


def split_batches(data: Bytes, entries: Int64Table, *, with_payloads: bool = True) -> Messages:
    """Return the messages of the entries in ``entries``, whose payloads are in ``data``, plain or compressed by a native codec.

    An entry that is not the batch that its metadata promises, or does not decompress to the size it claims, gets a status, and its
    messages are left out. Allocates no more than the payloads hold or claim; without ``with_payloads`` only the bytes of metadata and keys.
    """
    is_batch, codecs = entries[Meta.BATCH_SIZE] != ABSENT, entries[Meta.COMPRESSION]
    kept = _kept_of_batches(data, entries)
    if not (is_batch.any() or codecs.any() or entries[Meta.STATUS].any()):
        return _alone(data, entries)
    plain = plain_sizes(entries)
    counts = _counts(entries, plain // SMALLEST_MESSAGE, is_batch)
    total = int(plain[counts > 0].sum())
    if total > LARGEST:
        raise CorruptObjectError(f"the payloads of one portion of messages have {total} bytes, more than {LARGEST}")
    moves_heads = bool((is_batch & (codecs != 0)).any())
    in_heads = int(plain[is_batch & (counts > 0)].sum() + _head_sizes(entries)[~is_batch].sum()) if moves_heads else 0
    heads, payloads = empty(in_heads, np.uint8), empty(total if with_payloads else 0, np.uint8)
    scratch = empty(int(plain[is_batch & (codecs != 0)].max(initial=0)), np.uint8)
    table = empty_table(len(MessageField), int(counts.sum()))
    with native_functions(with_zstd=bool((codecs == int(Compression.ZSTD)).any())) as functions:
        wanted = (moves_heads, with_payloads)
        # Decompressed bytes are in an array of the same type as the window's, so that one kernel serves both.
        buffers = (heads, payloads, scratch, read_only(scratch[:]))
        used = _split(data, entries, table, _MAPS, buffers, wanted, functions)
    messages = Messages(table[:, :used], False, heads if moves_heads else data, payloads, are_packed=True)
    _name_kept(messages, kept)
    return messages


def plain_sizes(entries: Int64Table) -> Int64:
    """Return the bytes of each payload; for a compressed one, its claimed uncompressed bytes."""
    stored = entries[Meta.PAYLOAD_END] - entries[Meta.PAYLOAD_AT]
    sizes: Int64 = np.where(entries[Meta.COMPRESSION] == 0, stored, entries[Meta.UNCOMPRESSED_SIZE])
    return sizes


def _head_sizes(entries: Int64Table) -> Int64:
    sizes: Int64 = entries[Meta.METADATA_END] - entries[Meta.METADATA_AT]
    return sizes


def split_unopened(data: Bytes, entries: Int64Table) -> Messages:
    """Return the messages without reading the payloads, which may still be compressed: only entry and batch index.

    The status is set for a batch that claims more messages than its uncompressed bytes could hold.
    """
    is_batch = entries[Meta.BATCH_SIZE] != ABSENT
    kept = _kept_of_batches(data, entries)
    counts = _counts(entries, plain_sizes(entries) // SMALLEST_MESSAGE, is_batch)
    of_entry = np.repeat(np.arange(counts.size), counts)
    index = np.arange(of_entry.size) - (np.cumsum(counts) - counts)[of_entry]
    unknown = np.zeros(of_entry.size, np.int64)
    columns = [of_entry, np.where(is_batch[of_entry], index, ABSENT), *[unknown] * (len(MessageField) - 2)]
    messages = Messages(columns, bool((counts == 1).all()), _NOTHING, _NOTHING)
    _name_kept(messages, kept)
    return messages


def _kept_of_batches(data: Bytes, entries: Int64Table) -> dict[int, list[int]]:
    """Return {row of the batch: indexes of the messages that compaction kept}, and set the remaining number of messages of each batch."""
    kept = {}
    for row in (entries[Meta.KEPT_OF_BATCH] != ABSENT).nonzero()[0].tolist():
        at, end = entries[[Meta.METADATA_AT, Meta.METADATA_END], row].tolist()
        try:
            kept[row] = list(MessageMetadataRecord.FromString(data[at:end].tobytes()).kept_index)
        except DecodeError:
            entries[Meta.STATUS, row] = Status.BROKEN_METADATA
        else:
            entries[Meta.KEPT_OF_BATCH, row] = len(kept[row])
            if min(kept[row], default=0) < 0:
                entries[Meta.STATUS, row] = Status.BROKEN_BATCH
    return kept


def _name_kept(messages: Messages, kept: Mapping[int, list[int]]) -> None:
    """Give messages of compacted batches the indexes that they had in their whole batch."""
    for row, indexes in kept.items():
        start, stop = np.searchsorted(messages[MessageField.ENTRY], (row, row + 1))
        index = messages[MessageField.BATCH_INDEX][start:stop]
        index[index >= 0] = np.array(indexes, np.int64)[index[index >= 0]]


def _counts(entries: Int64Table, room: Int64, is_batch: npt.NDArray[np.bool_]) -> Int64:
    """Return how many messages each entry has; sets the status of batches that are too short for their messages."""
    claimed, kept = entries[Meta.BATCH_SIZE], entries[Meta.KEPT_OF_BATCH]
    batch_size = np.where(kept == ABSENT, claimed, kept)
    is_valid = entries[Meta.STATUS] == int(Status.VALID)
    # A negative claim is wrong for compacted batches, too: the kernel treats such an entry as one message.
    is_broken = is_valid & is_batch & ((claimed < 0) | (batch_size > room))
    entries[Meta.STATUS][is_broken] = Status.BROKEN_BATCH
    is_valid &= ~is_broken
    return np.where(is_valid, np.where(is_batch, batch_size, 1), 0)


def _alone(data: Bytes, entries: Int64Table) -> Messages:
    count = entries.shape[1]
    columns = [np.zeros(0, np.int64)] * len(MessageField)
    for message, meta in _OF_ENTRY.items():
        columns[message] = entries[meta]
    columns[MessageField.ENTRY] = np.arange(count)
    columns[MessageField.BATCH_INDEX] = entries[Meta.BATCH_SIZE]
    columns[MessageField.PAYLOAD_SIZE] = entries[Meta.PAYLOAD_END] - entries[Meta.PAYLOAD_AT]
    return Messages(columns, True, data, data)


@kernel
def _split(data, entries, table, maps, buffers, wanted, functions):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0912, PLR0917
    """Fill the columns of all messages, heads and payloads; return the number of messages.

    Sets status 4 for an entry that is not the batch that its metadata promises, and 6 for one that does not decompress.
    """
    data, entries, table, functions = borrowed(data), borrowed(entries), borrowed(table), borrowed(functions)  # type: ignore[call-arg]
    of_entry, defaults, fields = borrowed(maps[0]), borrowed(maps[1]), borrowed(maps[2])
    heads, payloads, scratch, plain = (
        borrowed(buffers[0]), borrowed(buffers[1]), borrowed(buffers[2]), borrowed(buffers[3])
    )  # fmt: skip
    row = head = after = np.int64(0)
    for i in range(entries.shape[1]):
        if entries[0, i] != 0:
            continue
        is_batch = entries[18, i] >= 0
        codec, at, end = entries[16, i], entries[3, i], entries[4, i]
        size = entries[17, i] if codec != 0 else end - at
        if codec != 0 and (is_batch or wanted[1]):
            target, to = (scratch, np.int64(0)) if is_batch else (payloads, after)
            if not decompress_into(functions, codec, data, at, end, target, to, size):
                entries[0, i] = 6
                continue
        source, count = data, np.int64(1)
        if is_batch:
            source = plain if codec != 0 else data
            at, end = (np.int64(0), size) if codec != 0 else (at, end)
            count = entries[18, i] if entries[39, i] < 0 else entries[39, i]
        before = row, head, after
        is_filled = False
        for k in range(count):
            if not is_filled:
                # Fill all rows of a batch at once; a message that compaction removed leaves its row to the next.
                stop = row + count if k == 0 else row + 1
                for pair in range(defaults.shape[0]):
                    column, value = defaults[pair, 0], defaults[pair, 1]
                    for other in range(row, stop):
                        table[column, other] = value
                for pair in range(of_entry.shape[0] - 4 if is_batch else 0, of_entry.shape[0]):
                    column, value = of_entry[pair, 0], entries[of_entry[pair, 1], i]
                    for other in range(row, stop):
                        table[column, other] = value
                for other in range(row, stop):
                    table[0, other] = i
            if is_batch:
                at = _walk_message(source, at, end, table, row, fields)
                if at < 0:
                    entries[0, i] = 4
                    row, head, after = before
                    break
                table[1, row] = k
                is_filled = table[16, row] == 0
                if not is_filled:
                    continue
            else:
                table[1, row], table[5, row] = entries[18, i], size
            if wanted[1]:
                size = table[5, row]
                if is_batch or codec == 0:
                    copy_bytes(payloads, after, source, table[4, row], size)
                table[4, row] = after
                after += size
            if wanted[0]:
                head = _move_head(source, table, row, heads, head)
            row += 1
    return row


@inlined_kernel
def _move_head(source, table, row, heads, head):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Copy a message's metadata to ``heads[head:]``, and let its columns point there; return the index after it."""
    at, end = table[2, row], table[3, row]
    copy_bytes(heads, head, source, at, end - at)  # type: ignore[call-arg]
    for column in (2, 3, 7, 11):
        if table[column, row] >= 0:
            table[column, row] += head - at
    return head + end - at


@inlined_kernel
def _walk_message(data, at, end, table, row, fields):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill one row from a message of a batch; return the index after the message, or -1."""
    if at + 4 > end:
        return -1
    size = load_uint32(data, at)  # type: ignore[call-arg, var-annotated]
    at += 4
    if size > end - at or not walk_fields(data, at, at + size, table, row, fields, np.int64(0)):
        return -1
    payload = at + size
    if table[5, row] < 0 or table[5, row] > end - payload:
        return -1
    table[2, row] = at
    table[3, row] = table[4, row] = payload
    return payload + table[5, row]
