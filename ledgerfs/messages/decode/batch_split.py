"""Second step: from entries to messages (Pulsar's ``SingleMessageMetadata``).

A message is a few integers again: its entry, its index in the batch, and where its metadata, key and payload are. Entries that are
not batches are one message each. If no entry is a batch and none is compressed, nothing is copied: the columns of the messages are those of
the entries. Otherwise the split copies the payloads of all messages one after the other, as their column needs them, while those of one
batch are still in the CPU's cache; it decompresses them on the way.
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
from ledgerfs.messages.codecs.native_decompression import decompress_into, native_functions
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status
from ledgerfs.messages.kernels.arrays import borrowed, copy_bytes, empty, empty_table, read_only
from ledgerfs.messages.kernels.wire import ABSENT, field_map, uint32_be, walk_fields
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

# Columns that a message outside a batch takes from its entry; one of a batch takes the last four if it does not set them itself.
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

    For an entry that is not the batch that its metadata promises, or does not decompress to the size it claims, the status is set and its
    messages are left out. Allocates no more than the payloads hold or claim; without ``with_payloads`` only what metadata and keys take.
    """
    is_batch, codecs = entries[Meta.BATCH_SIZE] != ABSENT, entries[Meta.COMPRESSION]
    kept = _kept_of_batches(data, entries)
    if not (is_batch.any() or codecs.any() or entries[Meta.STATUS].any()):
        return _alone(data, entries)
    plain = plain_sizes(entries)
    counts = _counts(entries, plain // SMALLEST_MESSAGE, is_batch)
    total = int(plain[counts > 0].sum())
    if total > LARGEST:
        raise CorruptObjectError(f"{total} bytes in the payloads of one portion of messages")
    moves_heads = bool((is_batch & (codecs != 0)).any())
    in_heads = int(plain[is_batch & (counts > 0)].sum() + _head_sizes(entries)[~is_batch].sum()) if moves_heads else 0
    heads, payloads = empty(in_heads, np.uint8), empty(total if with_payloads else 0, np.uint8)
    scratch = empty(int(plain[is_batch & (codecs != 0)].max(initial=0)), np.uint8)
    # With a row at least: numpy has an empty one contiguous, for which the kernels would be compiled once more.
    table = empty_table(len(MessageField), max(int(counts.sum()), 1))
    with native_functions(with_zstd=bool((codecs == Compression.ZSTD).any())) as functions:
        wanted = (moves_heads, with_payloads)
        # Decompressed bytes are read as those of the window are: by an array of the same type, so that one kernel serves both.
        buffers = (heads, payloads, scratch, read_only(scratch[:]))
        used = _split(data, entries, table, _MAPS, buffers, wanted, functions)
    messages = Messages(table[:, :used], False, heads if moves_heads else data, payloads, are_packed=True)
    _name_kept(messages, kept)
    return messages


def plain_sizes(entries: Int64Table) -> Int64:
    """Return the bytes of each payload; of a compressed one the uncompressed bytes that it claims."""
    stored = entries[Meta.PAYLOAD_END] - entries[Meta.PAYLOAD_AT]
    sizes: Int64 = np.where(entries[Meta.COMPRESSION] == 0, stored, entries[Meta.UNCOMPRESSED_SIZE])
    return sizes


def _head_sizes(entries: Int64Table) -> Int64:
    sizes: Int64 = entries[Meta.METADATA_END] - entries[Meta.METADATA_AT]
    return sizes


def split_unopened(data: Bytes, entries: Int64Table) -> Messages:
    """Return the messages without reading the payloads, which may still be compressed: entry and batch index only.

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
    """Return {row of the batch: indexes of the messages that compaction kept}, and set how many messages the batch has now."""
    kept = {}
    for row in np.flatnonzero(entries[Meta.KEPT_OF_BATCH] != ABSENT).tolist():
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
    """Return how many messages each entry has; sets the status of batches that are too short for theirs."""
    claimed, kept = entries[Meta.BATCH_SIZE], entries[Meta.KEPT_OF_BATCH]
    batch_size = np.where(kept == ABSENT, claimed, kept)
    is_valid = entries[Meta.STATUS] == Status.VALID
    # A negative claim is wrong for compacted batches, too: the kernel takes such an entry for one message.
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
def _split(data, entries, table, maps, buffers, wanted, functions):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill the columns of all messages, heads and payloads; return the number of messages."""
    data, entries, functions = borrowed(data), borrowed(entries), borrowed(functions)  # type: ignore[call-arg]
    maps = (borrowed(maps[0]), borrowed(maps[1]), borrowed(maps[2]))
    heads, payloads, scratch = borrowed(buffers[0]), borrowed(buffers[1]), borrowed(buffers[2])
    plain = borrowed(buffers[3])
    made = (borrowed(table), heads, payloads)
    # A literal 0 would be a type of its own, for which all that gets it is compiled once more.
    zero = np.int64(0)
    used = (zero, zero, zero)
    for i in range(entries.shape[1]):
        if entries[0, i] != 0:
            continue
        is_batch = entries[18, i] >= 0
        codec, at, end = entries[16, i], entries[3, i], entries[4, i]
        size = entries[17, i] if codec != 0 else end - at
        if codec != 0 and (is_batch or wanted[1]):
            target, to = (scratch, 0) if is_batch else (payloads, used[2])
            if not decompress_into(functions, codec, data, at, end, target, to, size):
                entries[0, i] = 6
                continue
        if not is_batch:
            if codec == 0 and wanted[1]:
                copy_bytes(payloads, used[2], data, at, size)
            used = _take_over(data, size, entries, i, made, used, maps, wanted)
        else:
            source, at, end = (data, at, end) if codec == 0 else (plain, zero, size)
            used = _split_batch(source, at, end, entries, i, made, used, maps, wanted)
    return used[0]


@kernel
def _take_over(data, size, entries, i, made, used, maps, wanted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill one row from an entry that is one message, whose payload of ``size`` bytes is copied already; return the indexes after it."""
    table, heads = made[0], made[1]
    of_entry = maps[0]
    row, head, after = used
    table[:, row] = 0
    for k in range(of_entry.shape[0]):
        table[of_entry[k, 0], row] = entries[of_entry[k, 1], i]
    table[0, row] = i
    table[1, row] = entries[18, i]
    table[4, row] = after
    table[5, row] = size
    if wanted[0]:
        head = _move_head(data, table, row, heads, head)
    return row + 1, head, after + size


@kernel
def _split_batch(source, at, end, entries, i, made, used, maps, wanted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill rows, heads and payloads from the messages of a batch; return the indexes after them.

    For an entry that is not the batch that its metadata promises, returns the given ones.
    """
    table, heads, payloads = made
    row, head, after = used
    count = entries[18, i] if entries[39, i] < 0 else entries[39, i]
    _fill(entries, i, table, row, row + count, maps[0], maps[1])
    for k in range(count):
        at = _walk_message(source, at, end, table, row, maps[2])
        if at < 0:
            entries[0, i] = 4
            return used
        table[1, row] = k
        if table[16, row] != 0:
            _fill(entries, i, table, row, row + 1, maps[0], maps[1])
            continue
        if wanted[1]:
            copy_bytes(payloads, after, source, table[4, row], table[5, row])  # type: ignore[call-arg]
            table[4, row] = after
            after += table[5, row]
        if wanted[0]:
            head = _move_head(source, table, row, heads, head)
        row += 1
    return row, head, after


@inlined_kernel
def _move_head(source, table, row, heads, head):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Copy a message's metadata to ``heads[head:]``, and let its columns point there; return the index after it."""
    at, end = table[2, row], table[3, row]
    copy_bytes(heads, head, source, at, end - at)  # type: ignore[call-arg]
    for column in (2, 3, 7, 11):
        if table[column, row] >= 0:
            table[column, row] += head - at
    return head + end - at


@kernel
def _fill(entries, i, table, start, stop, of_entry, defaults):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Set the columns of some messages of a batch to their defaults, and to the fields of their entry."""
    for k in range(defaults.shape[0]):
        table[defaults[k, 0], start:stop] = defaults[k, 1]
    for k in range(of_entry.shape[0] - 4, of_entry.shape[0]):
        table[of_entry[k, 0], start:stop] = entries[of_entry[k, 1], i]
    table[0, start:stop] = i


@inlined_kernel
def _walk_message(data, at, end, table, row, fields):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Fill one row from a message of a batch; return the index after the message, or -1."""
    if at + 4 > end:
        return -1
    size = uint32_be(data, at)
    at += 4
    if size > end - at or not walk_fields(data, at, at + size, table, row, fields):
        return -1
    payload = at + size
    if table[5, row] < 0 or table[5, row] > end - payload:
        return -1
    table[2, row] = at
    table[3, row] = table[4, row] = payload
    return payload + table[5, row]
