"""Entries of JSON events, as a producer sends them: one message an entry, or in batches."""

import json
import random
import struct
from collections.abc import Iterator
from typing import cast

import lz4.block
import numpy as np
import zstandard

from ledgerfs.formats.crc import crc32c
from ledgerfs.formats.decompression import Compression
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, MessageMetadataRecord

TOPIC = "persistent://public/default/orders"
_PUBLISHED_MS = 1_700_000_000_000


def events(size: int) -> list[bytes]:
    """Return some JSON events of ``size`` bytes, which compress as such do."""
    rnd = random.Random(size)
    return [_event(rnd, size) for _ in range(4000)]


def messages_in_entry(size: int, *, batched: bool) -> int:
    """Return how many messages of ``size`` bytes an entry has: Java's producer closes a batch at 128 KiB, or at 1,000 messages."""
    return min(1000, (128 << 10) // size) if batched else 1


def entries(size: int, *, batched: bool, codec: Compression = Compression.NONE) -> Iterator[bytes]:
    """Yield entries of messages of ``size`` bytes without end, each with a key."""
    pool = events(size)
    in_batch = messages_in_entry(size, batched=batched)
    sequence = 0
    while True:
        metadata = MessageMetadataRecord(
            producer_name=b"standalone-0-17", sequence_id=sequence, publish_time_ms=_PUBLISHED_MS + sequence // 100
        )
        if batched:
            metadata.messages_in_batch = in_batch
            plain = b"".join(_in_batch(i, pool[i % len(pool)]) for i in range(sequence, sequence + in_batch))
        else:
            metadata.key = _key(sequence)
            plain = pool[sequence % len(pool)]
        if codec != Compression.NONE:
            metadata.compression = codec
            metadata.uncompressed_size = len(plain)
        yield _framed(metadata, _compressed(codec, plain))
        sequence += in_batch


def _event(rnd: random.Random, size: int) -> bytes:
    items: list[dict[str, object]] = []
    event = {"id": f"{rnd.getrandbits(48):012x}", "at": _PUBLISHED_MS + rnd.randrange(10**7), "items": items}
    while len(text := json.dumps(event, separators=(",", ":"))) < size:
        name = rnd.choice(("apple", "bread", "cheese", "dates", "eggs", "flour"))
        items.append({"sku": rnd.randrange(10**6), "name": name, "price": rnd.randrange(10**4) / 100, "count": 1})
    return text.encode()[:size]


def _framed(metadata: MessageMetadataRecord, payload: bytes) -> bytes:
    head = metadata.SerializeToString()
    body = struct.pack(">I", len(head)) + head + payload
    return b"\x0e\x01" + struct.pack(">I", int(crc32c(np.frombuffer(body, np.uint8), 0, len(body)))) + body


def _compressed(codec: Compression, data: bytes) -> bytes:
    if codec == Compression.LZ4:
        return cast("bytes", lz4.block.compress(data, store_size=False))
    return zstandard.ZstdCompressor().compress(data) if codec == Compression.ZSTD else data


def _key(sequence: int) -> bytes:
    return b"customer-%d" % (sequence * 7919 % 5000)


def _in_batch(sequence: int, payload: bytes) -> bytes:
    head = BatchedMetadataRecord(
        key=_key(sequence), payload_size=len(payload), sequence_id=sequence
    ).SerializeToString()
    return struct.pack(">I", len(head)) + head + payload
