"""Entries whose payloads are compressed by another codec: all else of them stays."""

import random
import struct

import pytest

from ledgerfs.errors import CorruptMessageError, MessageTooLargeError
from ledgerfs.formats.decompression import Compression
from ledgerfs.messages.codecs.size_limits import MOST_SENT_BYTES
from ledgerfs.messages.proto.message_metadata_pb2 import (
    BatchedMetadataRecord,
    EncryptionKey,
    MessageMetadataRecord,
)
from ledgerfs.messages.transforms import recompress as module
from ledgerfs.messages.transforms.entry_transform import recompress
from ledgerfs.messages.transforms.recompress import Recompress
from tests.support.each import for_each
from tests.support.entries import (
    LZ4,
    NONE,
    SNAPPY,
    ZLIB,
    ZSTD,
    batch_of,
    compress,
    frame,
    framed,
    metadata,
    varint,
)
from tests.support.transforms import entries_of, golden_ledgers, rows_of, table_of, transformed

NAMES = [codec.name.lower() for codec in Compression]
PLAIN = b"again and " * 100


def packed(codec: int, plain: bytes = PLAIN, **fields: object) -> bytes:
    return frame(metadata(compression=codec, uncompressed_size=len(plain), **fields), compress(codec, plain))


def parts_of(entry: bytes) -> tuple[bytes, bytes, bytes]:
    """Return what stands before the metadata's size, the metadata, and the payload."""
    at = 0
    if entry[:2] == b"\x0e\x02":
        at = 6 + struct.unpack_from(">I", entry, 2)[0]
    if entry[at : at + 2] == b"\x0e\x01":
        at += 6
    end = at + 4 + struct.unpack_from(">I", entry, at)[0]
    return entry[:at], entry[at + 4 : end], entry[end:]


def codec_of(entry: bytes) -> int:
    return MessageMetadataRecord.FromString(parts_of(entry)[1]).compression


@pytest.mark.parametrize("codec", NAMES[1:])
def test_there_and_back_is_the_metadata_that_a_java_client_wrote(golden_url, codec):
    """The payload need not be: there is more than one way to compress the same bytes."""
    for entries in golden_ledgers(golden_url, f"batched-{codec}") + golden_ledgers(golden_url, f"single-{codec}"):
        table = table_of(entries, without=())
        for other in NAMES:
            made = transformed(recompress(codec), transformed(recompress(other), entries))
            assert [parts_of(one)[1] for one in made] == [parts_of(one)[1] for one in entries], other
            assert table_of(made, without=()).equals(table), other


def test_without_compression_a_batch_is_what_a_java_client_writes(golden_url):
    for entries in golden_ledgers(golden_url, "batched-none"):
        assert transformed(recompress("none"), transformed(recompress("zstd"), entries)) == entries


def fields_of(head: bytes) -> list[bytes]:
    """Return the fields of metadata as they are, except those of compression, by a slow parser of the wire format."""
    fields, at = [], 0

    def number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (head[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if head[at - 1] < 0x80:
                return value, at

    while at < len(head):
        start = at
        tag, at = number(at)
        size = {0: 0, 1: 8, 2: 0, 5: 4}[tag & 7]
        if tag & 7 == 0:
            _, at = number(at)
        elif tag & 7 == 2:
            size, at = number(at)
        at += size
        if tag not in {8 * 8, 8 * 9}:
            fields.append(head[start:at])
    return fields


def test_compression_stands_where_it_does_in_what_clients_write():
    meta = metadata(key=b"k", event_time_ms=9, schema_version=b"v")
    (made,) = transformed(recompress("lz4"), [frame(meta, PLAIN)])
    meta.compression, meta.uncompressed_size = LZ4, len(PLAIN)
    assert made == frame(meta, compress(LZ4, PLAIN))


def test_fields_in_any_order_and_more_than_once_leave_one_compression():
    head = varint(8 * 9) + b"\x05" + metadata(compression=ZSTD, key=b"k").SerializeToString() + varint(8 * 8) + b"\x01"
    head += varint(8 * 9) + varint(len(PLAIN)) + varint(8 * 1000) + b"\x07"
    (made,) = transformed(recompress("none"), [frame(head, compress(LZ4, PLAIN))])
    expected = varint(8 * 9) + varint(len(PLAIN)) + metadata(key=b"k").SerializeToString() + varint(8 * 1000) + b"\x07"
    assert parts_of(made)[1:] == (expected, PLAIN)


def test_without_compression_there_is_no_codec_and_only_a_message_alone_has_a_size():
    single = framed(BatchedMetadataRecord(), b"abc")
    alone, batch = transformed(recompress("none"), [packed(LZ4), packed(LZ4, single, messages_in_batch=1)])
    alone_metadata, batch_metadata = (MessageMetadataRecord.FromString(parts_of(one)[1]) for one in (alone, batch))
    assert not alone_metadata.HasField("compression")
    assert alone_metadata.uncompressed_size == len(PLAIN)
    assert not batch_metadata.HasField("compression")
    assert not batch_metadata.HasField("uncompressed_size")


LEFT_ALONE = {
    "encrypted": frame(metadata(compression=ZSTD, uncompressed_size=9, encryption_key=[EncryptionKey()]), b"secret"),
    "chunk": frame(metadata(compression=ZSTD, uncompressed_size=9, chunks=2, chunk=0, chunked_id=b"a"), b"half"),
    "marker": frame(metadata(marker_type=21), b""),
    "same codec": packed(LZ4),
}


@for_each("kind", LEFT_ALONE)
def test_what_cannot_be_opened_or_need_not_be_is_kept_as_it_is(kind):
    batch = batch_of([LEFT_ALONE[kind]], 7)
    assert list(recompress("lz4")(batch, 7)) == [batch]
    others = [packed(SNAPPY), LEFT_ALONE[kind], packed(NONE)]
    assert transformed(recompress("lz4"), others) == [packed(LZ4), LEFT_ALONE[kind], packed(LZ4)]


def test_ids_are_those_asked_for():
    assert entries_of(recompress("lz4"), batch_of([packed(LZ4)] * 3, 5), 100) == [packed(LZ4)] * 3
    assert entries_of(recompress("lz4"), batch_of([packed(NONE)] * 3, 5), 100) == [packed(LZ4)] * 3


def test_nothing_makes_nothing():
    assert list(recompress("lz4")(batch_of([]), 0)) == []
    assert recompress("lz4").keeps_ids


def damaged() -> dict[str, tuple[bytes, str]]:
    wrong = bytearray(packed(LZ4))
    wrong[-1] ^= 1
    return {
        "checksum": (bytes(wrong), "CRC32C"),
        "checksum of what stays": (bytes(LEFT_ALONE["marker"][:-1] + b"\x63"), "CRC32C"),
        "no frame": (b"\x00", "frame"),
        "no metadata": (frame(b"\xff\xff", b""), "protobuf"),
        "no field": (frame(b"", b""), "lacks"),
        "lz4": (frame(metadata(compression=LZ4, uncompressed_size=99), b"\xff" * 9), "LZ4"),
        "zlib": (frame(metadata(compression=ZLIB, uncompressed_size=99), b"\xff" * 9), "ZLIB"),
        "zstd": (frame(metadata(compression=ZSTD, uncompressed_size=99), b"\xff" * 9), "ZSTD"),
        "snappy": (frame(metadata(compression=SNAPPY, uncompressed_size=99), b"\x63\xff"), "SNAPPY"),
        "no size": (frame(metadata(compression=LZ4), compress(LZ4, PLAIN)), "without its uncompressed size"),
        "smaller": (frame(metadata(compression=LZ4, uncompressed_size=5), compress(LZ4, PLAIN)), "LZ4|5"),
        "huge": (
            frame(metadata(compression=ZSTD, uncompressed_size=2**32 - 1), compress(ZSTD, PLAIN)),
            "hold [0-9]+ at most",
        ),
        "unknown codec": (frame(metadata(compression=9, uncompressed_size=1), b"a"), "unknown compression 9"),
    }


STAYS_AS_IT_IS = {("zstd", "zstd"), ("huge", "zstd"), ("zlib", "zlib")}


@for_each(
    ("kind", "codec"),
    [
        (kind, codec)
        for kind in sorted(damaged())
        for codec in ("none", "zstd", "zlib")
        if (kind, codec) not in STAYS_AS_IT_IS
    ],
)
def test_damage_is_an_error_that_names_the_entry(kind, codec):
    entry, reason = damaged()[kind]
    with pytest.raises(CorruptMessageError, match=f"entry 41: .*({reason})"):
        list(recompress(codec)(batch_of([packed(LZ4), entry], 40), 3))


def test_the_limit_is_for_one_payload():
    batch = batch_of([packed(LZ4, bytes(1000))] * 50)
    assert len(entries_of(Recompress(Compression.NONE, 1000), batch)) == 50
    with pytest.raises(MessageTooLargeError, match="entry 0: the message has 1000 bytes, more than the limit of 999"):
        list(Recompress(Compression.NONE, 999)(batch, 0))


def test_what_becomes_much_larger_comes_in_pieces(monkeypatch):
    monkeypatch.setattr(module, "_PORTION", 5000)
    entries = [packed(ZSTD, bytes(size)) for size in (1000, 20_000, 1000, 1000, 1000, 1000, 0, 9000)]
    made = list(recompress("none")(batch_of(entries), 0))
    assert [len(one) for one in made] == [1, 1, 5, 1]
    assert rows_of(transformed(recompress("none"), entries)) == rows_of(entries)


@for_each("codec", NAMES)
def test_an_entry_that_brokers_would_not_send_stays_as_it_is(codec):
    """A client's limit is of what is stored: a payload of LZ4 may be much larger plain."""
    large = packed(LZ4, b"0123456789abcdef" * (MOST_SENT_BYTES // 16))
    entries = [packed(LZ4), large, packed(LZ4)]
    assert len(large) < MOST_SENT_BYTES // 50
    made = transformed(recompress(codec), entries)
    assert rows_of(made) == rows_of(entries)
    assert all(len(new) <= max(len(old), MOST_SENT_BYTES) for new, old in zip(made, entries, strict=True))
    assert [codec_of(one) for one in made[::2]] == [Compression[codec.upper()]] * 2
    assert (made[1] == large) is (codec in {"none", "lz4"})
    unbound = transformed(recompress(codec, most_grown=None), entries)
    assert codec_of(unbound[1]) == Compression[codec.upper()]


def test_the_bound_is_of_the_whole_entry():
    size = MOST_SENT_BYTES - len(frame(metadata(compression=LZ4, uncompressed_size=MOST_SENT_BYTES), b"")) - 64
    fits = packed(LZ4, b"x" * size)
    (made,) = transformed(recompress("none"), [fits])
    assert len(made) <= MOST_SENT_BYTES
    assert codec_of(made) == NONE
    too_large = packed(LZ4, b"x" * MOST_SENT_BYTES)
    assert transformed(recompress("none"), [too_large]) == [too_large]


def test_what_was_larger_before_may_become_smaller():
    """Brokers may be configured to send more."""
    large = packed(NONE, b"0123456789abcdef" * (2 * MOST_SENT_BYTES // 16))
    assert len(large) > MOST_SENT_BYTES
    (made,) = transformed(recompress("zstd"), [large])
    assert len(made) < MOST_SENT_BYTES
    assert rows_of([made]) == rows_of([large])


@for_each("codec", NAMES)
def test_without_growth_only_what_becomes_smaller_changes(codec):
    noise = random.Random(7).randbytes(3000)
    entries = [packed(of, plain) for of in (NONE, LZ4, ZSTD) for plain in (PLAIN, noise, b"")]
    made = transformed(recompress(codec, most_grown=0), entries)
    assert rows_of(made) == rows_of(entries)
    assert all(len(new) <= len(old) for new, old in zip(made, entries, strict=True))
    whole = transformed(recompress(codec), entries)
    kept = [new if len(new) <= len(old) else old for new, old in zip(whole, entries, strict=True)]
    assert made == kept
