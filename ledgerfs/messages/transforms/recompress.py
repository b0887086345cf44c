"""A transform of entries: payloads compressed by another codec.

An entry stays the same entry: compression (field 8), size of the plain payload (9), payload and checksum are new. The rest of the metadata,
unknown fields included, is kept byte for byte in its order, and so is the broker's metadata. An entry stays as it is if it is encrypted, a
chunk (the whole message was compressed before it was cut), a broker's marker, or in Kafka's format; if it has the codec already; or if it
would grow beyond what is let.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ledgerfs.errors import DecompressionError
from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.decompression import LARGEST, Compression, decompress
from ledgerfs.formats.kernel import inlined_kernel, kernel
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.codecs.compress import compress
from ledgerfs.messages.codecs.native_compression import (
    compressor_functions,
    most_compressed,
    native_compressors,
    put_compressed,
)
from ledgerfs.messages.codecs.native_decompression import decompress_into, native_functions
from ledgerfs.messages.codecs.size_limits import DEFAULT_MAX_MESSAGE_BYTES
from ledgerfs.messages.decode.batch_split import plain_sizes
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta
from ledgerfs.messages.decode.payloads import PlainPayloads
from ledgerfs.messages.kernels.arrays import borrowed, empty, spans
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.messages.transforms.entry_opening import (
    are_transparent,
    corrupt_entry,
    opened_payloads,
    sound_entries,
)
from ledgerfs.messages.transforms.entry_writing import (
    after_broker_metadata,
    finish_record,
    next_field,
    put_as_it_is,
    put_number,
    put_stretch,
)

_PORTION = 16 << 20
_NEW_HEAD = 32
"""Most bytes of the record header and the two new fields."""
_DONE, _NOT_DECOMPRESSED = 0, 1


@dataclass(frozen=True, slots=True)
class Recompress:
    """See the module.

    Attributes
    ----------
    max_message_bytes
        The largest payload to decompress.
    most_grown
        Bytes that an entry may grow to; one that would have more, and more than it has, stays as it is. None for no bound.

    """

    codec: Compression
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    most_grown: int | None = None

    @property
    def keeps_ids(self) -> bool:
        """Each entry stays one."""
        return True

    def __call__(self, batch: EntryBatch, first_entry: int) -> Iterator[EntryBatch]:
        """Yield the entries that replace those of ``batch``; raises `CorruptMessageError` for the first that is damaged."""
        entries = sound_entries(batch)
        changes = are_transparent(entries) & (entries[Meta.COMPRESSION] != self.codec)
        if not changes.any() and first_entry == batch.first_entry:
            if len(batch):
                yield batch
            return
        claimed = np.clip(plain_sizes(entries), 0, self.max_message_bytes)
        for start, stop in spans(batch.lengths + np.where(changes, claimed, 0), _PORTION):
            ids = batch.id_of(start), batch.id_of(stop - 1)
            portion = _Portion(batch.slice(*ids), entries[:, start:stop], changes[start:stop])
            yield self._made(portion, first_entry + start)

    def _made(self, portion: "_Portion", first_entry: int) -> EntryBatch:
        made = portion.recompressed(self.codec, self.max_message_bytes, first_entry)
        if self.most_grown is not None:
            is_too_large = made.lengths > np.maximum(portion.batch.lengths, self.most_grown)
            if is_too_large.any():
                smaller = replace(portion, changes=portion.changes & ~is_too_large)
                return smaller.recompressed(self.codec, self.max_message_bytes, first_entry)
        return made


@dataclass(frozen=True, slots=True)
class _Portion:
    """Some of the entries of a batch, and which of them change."""

    batch: EntryBatch
    entries: Int64Table
    changes: Mask

    def recompressed(self, codec: Compression, limit: int, first_entry: int) -> EntryBatch:
        rows = np.flatnonzero(self.changes)
        payloads = opened_payloads(self.batch, self.entries, rows, limit)
        payloads.entries[Meta.UNCOMPRESSED_SIZE] = plain_sizes(payloads.entries)
        made_by = codec
        if codec not in native_compressors():
            _compress_all(payloads, codec)
            made_by = Compression.NONE  # the payloads are compressed already: the kernel copies them
        table, size = payloads.entries, self._most_bytes(payloads.entries)
        is_zstd = table[Meta.COMPRESSION] == Compression.ZSTD
        is_packed = table[Meta.COMPRESSION] != 0
        scratch = empty(int(table[Meta.UNCOMPRESSED_SIZE, is_packed].max(initial=0)), np.uint8)
        out, places = empty(size, np.uint8), np.empty((2, self.changes.size), np.int64)
        with native_functions(with_zstd=bool(is_zstd.any())) as openers, compressor_functions(made_by) as makers:
            used, row, failure = _write(
                payloads.work.bytes(),
                (self.batch.offsets, self.batch.lengths, self.changes),
                table,
                (out, places, scratch),
                (openers, makers),
                (int(codec), int(made_by), first_entry),
            )
        if failure != _DONE:
            reason = payloads.explain(row) if failure == _NOT_DECOMPRESSED else f"cannot be compressed by {codec.name}"
            raise corrupt_entry(int(payloads.ids[row]), reason)
        return EntryBatch(first_entry, out.data[:used].toreadonly(), places[0], places[1], is_framed=True)

    def _most_bytes(self, table: Int64Table) -> int:
        """Return the most bytes that the entries take: with new heads, and for those that change with compressed payloads."""
        stored = table[Meta.PAYLOAD_END] - table[Meta.PAYLOAD_AT]
        # A payload that is compressed already may be larger than the plain one.
        payloads = np.maximum(most_compressed_sizes(table[Meta.UNCOMPRESSED_SIZE]), stored)
        return int((self.batch.lengths + _NEW_HEAD).sum() + payloads.sum())


def most_compressed_sizes(sizes: Int64) -> Int64:
    """Return `most_compressed` for many."""
    most: Int64 = most_compressed(sizes)
    return most


def _compress_all(payloads: PlainPayloads, codec: Compression) -> None:
    """Compress payloads by a codec that no kernel knows, with a call for each."""
    table = payloads.entries
    for row in range(payloads.ids.size):
        packed, at, end, size = table[
            [Meta.COMPRESSION, Meta.PAYLOAD_AT, Meta.PAYLOAD_END, Meta.UNCOMPRESSED_SIZE], row
        ]
        plain: bytes | memoryview = payloads.work.view(int(at), int(end))
        if packed:
            try:
                plain = decompress(int(packed), memoryview(plain), int(size), LARGEST)
            except DecompressionError as error:
                raise corrupt_entry(int(payloads.ids[row]), str(error)) from error
        table[[Meta.PAYLOAD_AT, Meta.PAYLOAD_END], row] = payloads.work.add(compress(codec, plain))
        table[Meta.COMPRESSION, row] = 0


@kernel
def _write(data, source, table, buffers, functions, wanted):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Write all entries as records; return the bytes written, and row and reason of the one that failed."""
    data, table = borrowed(data), borrowed(table)  # type: ignore[call-arg]
    offsets, lengths, changes = borrowed(source[0]), borrowed(source[1]), borrowed(source[2])
    out, places, scratch = borrowed(buffers[0]), borrowed(buffers[1]), borrowed(buffers[2])
    openers, makers = borrowed(functions[0]), borrowed(functions[1])
    codec, made_by, first = wanted
    to = row = 0
    for i in range(offsets.size):
        start = to
        if not changes[i]:
            to = put_as_it_is(out, to, data, offsets[i], lengths[i], first + i)
        else:
            has_checksum = after_broker_metadata(data, offsets[i]) < table[1, row] - 4
            metadata_at = put_stretch(out, to + 12, data, offsets[i], table[1, row])
            # Java's client adds no size to a batch without compression.
            size = table[17, row] if codec != 0 or table[18, row] == ABSENT else -1
            payload_at = _put_metadata(out, metadata_at, data, table[1, row], table[2, row], codec, size)
            if table[16, row] == 0:
                at, end = table[3, row], table[4, row]
                to = put_compressed(makers, made_by, data, at, end - at, out, payload_at)
            else:
                if not decompress_into(
                    openers, table[16, row], data, table[3, row], table[4, row], scratch, 0, table[17, row]
                ):
                    return to, row, 1
                to = put_compressed(makers, made_by, scratch, 0, table[17, row], out, payload_at)
            if to < 0:
                return to, row, 2
            finish_record(out, start, metadata_at, payload_at, to, has_checksum, first + i)
            row += 1
        places[0, i] = start + 12
        places[1, i] = to - start - 12
    return to, row, 0


@kernel
def _put_metadata(out, to, data, at, end, codec, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    """Copy metadata with other compression, in the place where Java's client has it: after the fields of lower numbers."""
    kept_from = at
    is_said = False
    while at < end:
        tag, _, after = next_field(data, at, end)
        if after < 0:
            break
        if not is_said and tag >= 64:
            to = _put_compression(out, put_stretch(out, to, data, kept_from, at), codec, size)
            kept_from = at
            is_said = True
        if tag in (64, 72):
            to = put_stretch(out, to, data, kept_from, at)
            kept_from = after
        at = after
    to = put_stretch(out, to, data, kept_from, at)
    return to if is_said else _put_compression(out, to, codec, size)


@inlined_kernel
def _put_compression(out, to, codec, size):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    if codec != 0:
        to = put_number(out, to, 8, codec)
    return put_number(out, to, 9, size) if size >= 0 else to
