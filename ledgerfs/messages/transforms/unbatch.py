"""A transform of entries: every message of a batch becomes an entry of its own.

A batch is what our reader takes for one: `messages_in_batch` is there, be it 1. Its messages are split by the reader's own kernel, so they
are what a reader of the batch sees, without those that compaction took out. Each gets the batch's metadata, byte for byte, but for what
only a message of a batch can say (key, properties, ordering key), what it says otherwise (event time, sequence id, null value and key), and
what describes the batch. What the broker put in front stays, with the index that is the message's. What is no batch, or encrypted, or a
marker, keeps its bytes; ids are new. Fields that nobody knows are kept of a batch's metadata; of its messages' there is no place for them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.buffers import Bytes, Int64, Mask
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.codecs.compress import compress
from ledgerfs.messages.codecs.decompression import Compression
from ledgerfs.messages.codecs.native_compression import compressor_functions, most_compressed, native_compressors
from ledgerfs.messages.codecs.size_limits import DEFAULT_MAX_MESSAGE_BYTES
from ledgerfs.messages.decode.batch_split import MessageField, Messages, plain_sizes, split_batches
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status
from ledgerfs.messages.kernels.arrays import empty, spans
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.messages.transforms.entry_opening import (
    are_transparent,
    corrupt_entry,
    opened_payloads,
    sound_entries,
)
from ledgerfs.messages.transforms.unbatch_kernels import Fronts, collect_fronts, read_only_view, write_units

_PORTION = 8 << 20
_PIECE = 16 << 20
_NEW_FIELDS = 128
"""Bytes that all of a message may take at most but for what is counted: record header, frame, and fields of numbers."""
_NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class Unbatch:
    """See the module. ``codec`` is that of the messages; ``max_message_bytes`` the largest batch to decompress."""

    codec: Compression
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES

    @property
    def keeps_ids(self) -> bool:
        """Where there are batches, what follows moves back."""
        return False

    def __call__(self, batch: EntryBatch, first_entry: int) -> Iterator[EntryBatch]:
        """Yield the entries that take the place of those of ``batch``; `CorruptMessageError` for the first that is damaged."""
        entries = sound_entries(batch)
        opens = are_transparent(entries) & (entries[Meta.BATCH_SIZE] != ABSENT)
        if not opens.any() and first_entry == batch.first_entry:
            if len(batch):
                yield batch
            return
        claimed = np.clip(plain_sizes(entries), 0, self.max_message_bytes)
        for start, stop in spans(np.where(opens, claimed, batch.lengths), _PORTION):
            ids = batch.id_of(start), batch.id_of(stop - 1)
            units = self._opened(batch.slice(*ids), entries[:, start:stop], opens[start:stop])
            most_bytes = units.most_bytes()
            for first, last in spans(most_bytes, _PIECE):
                out = empty(int(most_bytes[first:last].sum()), np.uint8)
                yield units.written(first, last, first_entry + first, out)
            first_entry += units.rows.size

    def _opened(self, batch: EntryBatch, entries: Int64Table, opens: Mask) -> "_Units":
        rows = np.flatnonzero(opens)
        payloads = opened_payloads(batch, entries, rows, self.max_message_bytes)
        table, data = payloads.entries, payloads.work.bytes()
        messages = split_batches(data, table)
        for broken in np.flatnonzero(table[Meta.STATUS] != Status.VALID).tolist():
            is_packed = table[Meta.STATUS, broken] == Status.BROKEN_COMPRESSION
            reason = (
                payloads.explain(broken) if is_packed else "its payload is not the batch that its metadata promises"
            )
            raise corrupt_entry(int(payloads.ids[broken]), reason)
        counts = np.ones(opens.size, np.int64)
        counts[rows] = np.bincount(messages[MessageField.ENTRY], minlength=rows.size)
        of_row = np.repeat(np.arange(opens.size), counts)
        of_message = np.full(of_row.size, _NO_BATCH)
        of_message[opens[of_row]] = np.arange(len(messages))
        fronts = collect_fronts(data, batch.offsets[rows], table)
        return _Units(batch, data, table, messages, fronts, of_row, of_message, _payloads(messages, self.codec))


@dataclass(frozen=True, slots=True)
class _Payloads:
    """Payloads of messages: where they are, their sizes when plain, and the codec that is yet to compress them."""

    codec: Compression
    data: Bytes
    at: Int64
    sizes: Int64
    plain: Int64
    compress_by: Compression

    def most_bytes(self) -> Int64:
        """Return what each takes at most when it is compressed."""
        most: Int64 = most_compressed(self.sizes)
        return most


def _payloads(messages: Messages, codec: Compression) -> _Payloads:
    """Return the payloads of messages; compressed, a call each, where no kernel can."""
    at, sizes = np.array(messages[MessageField.PAYLOAD_AT]), np.array(messages[MessageField.PAYLOAD_SIZE])
    if codec in native_compressors():
        return _Payloads(codec, read_only_view(messages.payloads), at, sizes, sizes, codec)
    view = messages.payloads.data
    made = [compress(codec, view[i : i + size]) for i, size in zip(at.tolist(), sizes.tolist(), strict=True)]
    stored = np.array([len(one) for one in made], np.int64)
    data = np.frombuffer(b"".join(made), np.uint8)
    return _Payloads(codec, data, np.cumsum(stored) - stored, stored, sizes, Compression.NONE)


@dataclass(frozen=True, slots=True)
class _Units:
    """What some entries become: of each unit the entry that it is, or the message of a batch."""

    batch: EntryBatch
    data: Bytes
    table: Int64Table
    messages: Messages
    fronts: Fronts
    rows: Int64
    of_message: Int64
    payloads: _Payloads

    def most_bytes(self) -> Int64:
        """Return the bytes that each unit takes at most."""
        of_entry = self.messages[MessageField.ENTRY]
        own = self.messages[MessageField.METADATA_END] - self.messages[MessageField.METADATA_AT]
        most = self.batch.lengths[self.rows] + _NEW_FIELDS
        is_message = self.of_message != _NO_BATCH
        most[is_message] = self.fronts.sizes()[of_entry] + own + self.payloads.most_bytes() + _NEW_FIELDS
        return most

    def written(self, first: int, last: int, first_entry: int, out: Bytes) -> EntryBatch:
        """Return units as entries, written to ``out``, which has room for what they take at most."""
        places = np.empty((2, last - first), np.int64)
        payloads, messages = self.payloads, np.asarray(self.messages.columns)
        with compressor_functions(payloads.compress_by) as makers:
            used, failed = write_units(
                (self.data, read_only_view(self.messages.heads), self.fronts.data, payloads.data),
                (
                    self.rows[first:last],
                    self.of_message[first:last],
                    self.batch.offsets,
                    self.batch.lengths,
                    payloads.at,
                    payloads.sizes,
                    payloads.plain,
                ),
                (self.table, messages, self.fronts.places),
                (out, places),
                makers,
                (int(payloads.codec), int(payloads.compress_by), first_entry),
            )
        if failed != _NO_BATCH:
            entry = self.batch.id_of(int(self.rows[first + failed]))
            raise corrupt_entry(entry, f"a message of it cannot be compressed by {payloads.codec.name}")
        return EntryBatch(first_entry, out.data[:used].toreadonly(), places[0], places[1], is_framed=True)
