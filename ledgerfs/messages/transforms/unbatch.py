"""A transform of entries: every message of a batch becomes a separate entry.

An entry is a batch if our reader reads it as one: it has `messages_in_batch`, even if that is 1. The reader's own kernel splits it, so its
messages are those of a reader, without those that compaction removed. Each gets the batch's metadata, byte for byte, except fields
that belong to a message (key, properties, ordering key), that the message sets itself (event time, sequence id, null value and key), or
that describe the batch. The broker's metadata stays, with the message's own index. An entry that is not a batch, or encrypted, or a marker,
or in Kafka's format, keeps its bytes; ids are new. Unknown fields of a batch's metadata are kept; those of its messages have no place in
the new metadata.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs.errors import CorruptMessageError, RefusedLedgerError
from ledgerfs.formats.array_types import Bytes, Int64, Mask
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.codecs.compress import codec_named, compressor_of
from ledgerfs.messages.codecs.size_limits import DEFAULT_MAX_MESSAGE_BYTES, MOST_SENT_BYTES
from ledgerfs.messages.decode.batch_split import MessageField, Messages, plain_sizes, split_batches
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status
from ledgerfs.messages.decode.payloads import PlainPayloads, Workspace
from ledgerfs.messages.kernels.arrays import empty, spans
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.messages.transforms.unbatch_kernels import Fronts, collect_fronts, read_only_view, write_units

_PORTION = 8 << 20
_PIECE = 16 << 20
_NEW_FIELDS = 256
"""Most bytes of a message besides the counted ones: record header, frame, and fields of numbers."""
_NO_BATCH = -1
_NO_LEDGER = 0
"""Id of the ledger of entries, which is unknown here."""


def unbatch(codec: str = "none") -> "Unbatch":
    """Return the transform that splits batches, with payloads compressed by the codec of this name."""
    return Unbatch(codec_named(codec))


@dataclass(frozen=True, slots=True)
class Unbatch:
    """Splits batches as the module describes. Refuses a message whose entry would be larger than brokers send, and than its batch.

    It has no state: each thread may run it on a batch of its own.

    Attributes
    ----------
    codec
        Codec of the new entries.
    max_message_bytes
        The largest batch to decompress.

    """

    codec: Compression
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES

    def __call__(self, batch: EntryBatch, first_entry: int) -> Iterator[EntryBatch]:
        """Yield the entries that replace those of ``batch``, with ids from ``first_entry`` on: perhaps none, or ``batch`` itself.

        In both, records are contiguous, each entry after its 12-byte record header. Raises `CorruptMessageError` for the first damaged
        entry, and `RefusedLedgerError` for one with a message that would be too large.
        """
        entries = _sound_entries(batch)
        opens = _are_transparent(entries) & (entries[Meta.BATCH_SIZE] != ABSENT)
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
                made = units.written(first, last, first_entry + first, out)
                units.require_small(first, made)
                yield made
            first_entry += units.rows.size

    def _opened(self, batch: EntryBatch, entries: Int64Table, opens: Mask) -> "_Units":
        rows = np.flatnonzero(opens)
        payloads = _opened_payloads(batch, entries, rows, self.max_message_bytes)
        table, data = payloads.entries, payloads.work.bytes()
        messages = split_batches(data, table)
        for broken in np.flatnonzero(table[Meta.STATUS] != Status.VALID).tolist():
            is_packed = table[Meta.STATUS, broken] == Status.BROKEN_COMPRESSION
            reason = payloads.explain(broken) if is_packed else "its payload does not match the batch in its metadata"
            raise _corrupt_entry(int(payloads.ids[broken]), reason)
        counts = np.ones(opens.size, np.int64)
        counts[rows] = np.bincount(messages[MessageField.ENTRY], minlength=rows.size)
        of_row = np.repeat(np.arange(opens.size), counts)
        of_message = np.full(of_row.size, _NO_BATCH)
        of_message[opens[of_row]] = np.arange(len(messages))
        fronts = collect_fronts(data, batch.offsets[rows], table)
        return _Units(batch, data, table, messages, fronts, of_row, of_message, _payloads(messages, self.codec))


@dataclass(frozen=True, slots=True)
class _Payloads:
    """Payloads of messages as they will be stored: their positions, and their plain sizes."""

    codec: Compression
    data: Bytes
    at: Int64
    sizes: Int64
    plain: Int64


def _payloads(messages: Messages, codec: Compression) -> _Payloads:
    """Return the payloads of messages, compressed."""
    at, sizes = np.array(messages[MessageField.PAYLOAD_AT]), np.array(messages[MessageField.PAYLOAD_SIZE])
    if codec == Compression.NONE:
        return _Payloads(codec, read_only_view(messages.payloads), at, sizes, sizes)
    compressed, view = compressor_of(codec), messages.payloads.data
    made = [compressed(view[i : i + size]) for i, size in zip(at.tolist(), sizes.tolist(), strict=True)]
    stored = np.array([len(one) for one in made], np.int64)
    data = np.frombuffer(b"".join(made), np.uint8)
    return _Payloads(codec, data, np.cumsum(stored) - stored, stored, sizes)


@dataclass(frozen=True, slots=True)
class _Units:
    """The new entries of some entries: each unit is an unchanged entry, or one message of a batch."""

    batch: EntryBatch
    data: Bytes
    table: Int64Table
    messages: Messages
    fronts: Fronts
    rows: Int64
    of_message: Int64
    payloads: _Payloads

    def most_bytes(self) -> Int64:
        """Return the most bytes that each unit takes."""
        of_entry = self.messages[MessageField.ENTRY]
        own = self.messages[MessageField.METADATA_END] - self.messages[MessageField.METADATA_AT]
        most = self.batch.lengths[self.rows] + _NEW_FIELDS
        is_message = self.of_message != _NO_BATCH
        most[is_message] = self.fronts.sizes()[of_entry] + own + self.payloads.sizes + _NEW_FIELDS
        return most

    def require_small(self, first: int, made: EntryBatch) -> None:
        """Raise `RefusedLedgerError` for a message of a batch that is now larger than an entry may be, and than its batch was."""
        rows = self.rows[first : first + len(made)]
        is_message = self.of_message[first : first + len(made)] != _NO_BATCH
        too_large = np.flatnonzero(is_message & (made.lengths > np.maximum(self.batch.lengths[rows], MOST_SENT_BYTES)))
        if too_large.size:
            one = int(too_large[0])
            reason = (
                f"a message of entry {self.batch.id_of(int(rows[one]))} would be an entry of {int(made.lengths[one]):,} bytes by "
                f"itself, but brokers send at most {MOST_SENT_BYTES:,}: the batches of this ledger cannot be split"
            )
            raise RefusedLedgerError(reason)

    def written(self, first: int, last: int, first_entry: int, out: Bytes) -> EntryBatch:
        """Return units as entries, written to ``out``, which has room for their `most_bytes`."""
        places = np.empty((2, last - first), np.int64)
        payloads, messages = self.payloads, np.asarray(self.messages.columns)
        used = write_units(
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
            (int(payloads.codec), first_entry),
        )
        return EntryBatch(first_entry, out.data[:used].toreadonly(), places[0], places[1], is_framed=True)


def _sound_entries(batch: EntryBatch) -> Int64Table:
    """Return the metadata of the entries; raise `CorruptMessageError` for the first damaged one, also by its checksum."""
    reader = TopicDecoder("", DecodeOptions(include_markers=True, on_corrupt="skip"))
    entries, _ = reader.walk(batch, _NO_LEDGER)
    for skipped in reader.skipped:
        raise _corrupt_entry(skipped.first_entry, skipped.reason)
    return entries


def _corrupt_entry(entry_id: int, reason: str) -> CorruptMessageError:
    """Return the error for an entry; the caller may add its ledger."""
    return CorruptMessageError(reason, key=f"entry {entry_id}")


def _are_transparent(entries: Int64Table) -> Mask:
    """Return which entries are whole messages or batches of a user, neither encrypted nor Kafka's; they may be compressed."""
    is_whole = (entries[Meta.CHUNKS] <= 1) & (entries[Meta.STATUS] == Status.VALID)
    transparent: Mask = (entries[Meta.ENCRYPTION_KEYS] == 0) & (entries[Meta.MARKER] == ABSENT) & is_whole
    return transparent


def _opened_payloads(batch: EntryBatch, entries: Int64Table, rows: Int64, limit: int) -> PlainPayloads:
    """Return the payloads of some entries, plain except those that a kernel decompresses; raise for the first that cannot be read.

    Compressed ones claim at most ``limit`` bytes, and large claims are checked.
    """
    table = np.ascontiguousarray(entries[:, rows])
    payloads = PlainPayloads(Workspace(batch.buffer), table, batch.ids_of(rows), _NO_LEDGER)
    payloads.decompress(limit)
    for row, reason, kind in payloads.failures:
        raise kind(reason, key=f"entry {payloads.ids[row]}")
    return payloads
