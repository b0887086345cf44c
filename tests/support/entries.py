"""Made-up entries: frames, metadata, batches and compressed payloads as Pulsar's clients and brokers write them."""

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import cramjam
import google_crc32c
import lz4.block
import pyarrow as pa
import zstandard
from google.protobuf.internal.encoder import _VarintBytes

from ledgerfs.formats.records import EntryBatch, scan_records
from ledgerfs.messages.decode.entries import DecodeOptions, TopicDecoder
from ledgerfs.messages.proto.message_metadata_pb2 import (
    BatchedMetadataRecord,
    BrokerMetadataRecord,
    MessageMetadataRecord,
)
from tests.support.ledgers import record

NONE, LZ4, ZLIB, ZSTD, SNAPPY = range(5)
TOPIC = "persistent://public/default/orders"


def metadata(**fields: object) -> MessageMetadataRecord:
    """Return the metadata of a message, with what every message has."""
    return MessageMetadataRecord(**{"producer_name": b"p", "sequence_id": 1, "publish_time_ms": 2, **fields})


def varint(value: int) -> bytes:
    """Return a varint of 64 bits; negative numbers take ten bytes, as in protobuf."""
    return _VarintBytes(value & 2**64 - 1)


def frame(
    meta: MessageMetadataRecord | bytes,
    payload: bytes = b"",
    *,
    broker: BrokerMetadataRecord | bytes | None = None,
    checksum: bool = True,
) -> bytes:
    """Return an entry."""
    head = meta if isinstance(meta, bytes) else meta.SerializeToString()
    entry = struct.pack(">I", len(head)) + head + payload
    if checksum:
        entry = b"\x0e\x01" + struct.pack(">I", google_crc32c.value(entry)) + entry
    if broker is not None:
        front = broker if isinstance(broker, bytes) else broker.SerializeToString()
        entry = b"\x0e\x02" + struct.pack(">I", len(front)) + front + entry
    return entry


def framed(single: BatchedMetadataRecord | bytes, payload: bytes = b"") -> bytes:
    """Return one message of a batch; fills in its payload's size."""
    if not isinstance(single, bytes):
        full = BatchedMetadataRecord()
        full.CopyFrom(single)
        full.payload_size = len(payload)
        single = full.SerializeToString()
    return struct.pack(">I", len(single)) + single + payload


def batched(messages: Sequence[tuple[BatchedMetadataRecord, bytes]], **fields: object) -> bytes:
    """Return an entry that is an uncompressed batch."""
    payload = b"".join(framed(*message) for message in messages)
    return frame(metadata(messages_in_batch=len(messages), **fields), payload)


def compress(codec: int, plain: bytes, *, finish: bool = True) -> bytes:
    """Compress; zlib's stream is only flushed, as Java's client does it, unless it is to be finished."""
    if codec == LZ4:
        return lz4.block.compress(plain, store_size=False)
    if codec == ZLIB:
        stream = zlib.compressobj()
        return stream.compress(plain) + stream.flush(zlib.Z_FINISH if finish else zlib.Z_SYNC_FLUSH)
    if codec == ZSTD:
        return zstandard.ZstdCompressor(level=3).compress(plain)
    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(plain))
    return plain


def sent(value: str, number: int = 0, **fields: Any) -> bytes:
    """Return a message, of a transaction of coordinator 7 unless its number is 0."""
    of_transaction = {"transaction_most": 7, "transaction_least": number} if number else {}
    return frame(metadata(**of_transaction, **fields), value.encode())


def batch_of(entries: Iterable[bytes], first: int = 0) -> EntryBatch:
    """Return entries as a ledger's reader hands them on."""
    made = list(entries)
    buffer = memoryview(b"".join(record(first + i, entry) for i, entry in enumerate(made)))
    return scan_records(buffer, 0, first, len(made)).batch


def decode(decoder: TopicDecoder, batch: EntryBatch, ledger_id: int = 1) -> pa.RecordBatch:
    """Do for one batch what a scan does."""
    return decoder.decode(batch, ledger_id, *decoder.walk(batch, ledger_id))


def decode_entries(entries: Iterable[bytes], **options: object) -> pa.RecordBatch:
    """Decode the entries of one ledger."""
    return decode(TopicDecoder(TOPIC, DecodeOptions(**options)), batch_of(entries))
