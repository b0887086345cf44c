"""Batches whose messages become entries of their own: what a reader sees of each stays."""

import base64
from typing import Any

import pytest

from ledgerfs.errors import CorruptMessageError, MessageTooLargeError, RefusedLedgerError
from ledgerfs.formats.decompression import Compression
from ledgerfs.messages.codecs.size_limits import MOST_SENT_BYTES
from ledgerfs.messages.decode.entry_checksum import EntryState, check_entries
from ledgerfs.messages.proto.message_metadata_pb2 import (
    BatchedMetadataRecord,
    BrokerMetadataRecord,
    EncryptionKey,
    MessageMetadataRecord,
    Property,
)
from ledgerfs.messages.transforms import unbatch as module
from ledgerfs.messages.transforms.unbatch import Unbatch, unbatch
from tests.support.each import for_each
from tests.support.entries import LZ4, NONE, SNAPPY, ZLIB, ZSTD, batch_of, batched, compress, frame, framed, metadata
from tests.support.transforms import entries_of, golden_ledgers, parts_of, rows_of, transformed

NAMES = [codec.name.lower() for codec in Compression]
FOUR = [
    (BatchedMetadataRecord(key=b"a", property=[Property(key=b"n", value=b"0"), Property()], sequence_id=7), b"first"),
    (BatchedMetadataRecord(ordering_key=b"o", event_time_ms=99, value_is_null=True), b""),
    (BatchedMetadataRecord(key=base64.b64encode(b"\xff"), key_is_base64=True, sequence_id=2**63 + 5), b"third"),
    (BatchedMetadataRecord(key=b"", key_is_null=True, event_time_ms=0, value_is_null=False), b"last " * 90),
]


def packed(codec: int, messages: list[tuple[BatchedMetadataRecord, bytes]], **fields: Any) -> bytes:
    plain = b"".join(framed(*message) for message in messages)
    how = {"compression": codec, "uncompressed_size": len(plain)} if codec else {}
    return frame(metadata(messages_in_batch=len(messages), **how, **fields), compress(codec, plain))


def metadata_of(entry: bytes) -> MessageMetadataRecord:
    return MessageMetadataRecord.FromString(parts_of(entry)[1])


def is_batch(entry: bytes) -> bool:
    return metadata_of(entry).HasField("messages_in_batch")


def test_what_was_sent_in_batches_is_what_was_sent_without(golden_url):
    """One topic was sent both ways by Java's client: the entries are the same, except for times and the order of fields."""
    of_client = {"publish_time_ms", "producer_name", "schema_version", "sequence_id"}
    for alone, together in zip(
        golden_ledgers(golden_url, "json"), golden_ledgers(golden_url, "json-batched"), strict=True
    ):
        made = transformed(unbatch(), together)
        assert len(made) == len(alone)
        for one, other in zip(map(metadata_of, made), map(metadata_of, alone), strict=True):
            names = {field.name for field, _ in one.ListFields()}
            assert names == {field.name for field, _ in other.ListFields()}
            assert all(getattr(one, name) == getattr(other, name) for name in names - of_client)
        assert [parts_of(one)[2] for one in made] == [parts_of(one)[2] for one in alone]


@for_each("codec", range(5))
def test_each_message_gets_the_metadata_that_a_message_alone_would_have(codec):
    shared = {
        "replicated_from": b"c",
        "replicate_to": [b"x", b"y"],
        "schema_version": b"v",
        "deliver_at_ms": 5,
        "transaction_least": 1,
        "transaction_most": 2,
        "schema_id": b"s",
    }
    of_batch = {"key": b"x", "ordering_key": b"x", "highest_sequence_id": 9, "event_time_ms": 3}
    entry = packed(codec, FOUR, **shared, **of_batch, property=[Property(key=b"x")], key_is_base64=True)
    names = {record: metadata(uncompressed_size=len(FOUR[record][1]), **shared) for record in range(4)}
    first, second, third, last = names.values()
    first.MergeFrom(MessageMetadataRecord(key=b"a", property=FOUR[0][0].property, sequence_id=7, event_time_ms=3))
    second.MergeFrom(MessageMetadataRecord(ordering_key=b"o", event_time_ms=99, value_is_null=True))
    third.MergeFrom(MessageMetadataRecord(key=b"/w==", key_is_base64=True, sequence_id=2**63 + 5, event_time_ms=3))
    last.MergeFrom(MessageMetadataRecord(key=b"", key_is_null=True))
    made = transformed(unbatch(), [entry])
    assert [metadata_of(one) for one in made] == [first, second, third, last]
    assert [parts_of(one)[2] for one in made] == [payload for _, payload in FOUR]
    assert rows_of(made) == rows_of([entry])


@for_each("codec", NAMES)
@for_each("before", [NONE, LZ4, ZLIB, ZSTD, SNAPPY])
def test_payloads_get_the_codec(before, codec):
    entry = packed(before, FOUR)
    made = transformed(unbatch(codec), [entry])
    assert [metadata_of(one).compression for one in made] == [Compression[codec.upper()]] * 4
    assert [metadata_of(one).uncompressed_size for one in made] == [5, 0, 5, 450]
    assert rows_of(made) == rows_of([entry])


def test_fields_that_nobody_knows_are_kept_of_the_batch():
    unknown = b"\xc8\x3e\x07" + b"\xd2\x3e\x03abc"  # fields 1001 and 1002
    head = unknown + metadata(messages_in_batch=1).SerializeToString() + unknown
    (made,) = transformed(unbatch(), [frame(head, framed(*FOUR[0]))])
    assert parts_of(made)[1].startswith(unknown + b"\x0a\x01p\x18\x02" + unknown)


@for_each("checksum", [True, False])
@for_each("broker", [{}, {"broker_time_ms": 5}, {"last_index": 103}, {"broker_time_ms": 5, "last_index": 103}])
def test_what_the_broker_put_in_front_is_of_each_message(broker, checksum):
    head = metadata(messages_in_batch=4).SerializeToString()
    payload = b"".join(framed(*message) for message in FOUR)
    front = BrokerMetadataRecord(**broker).SerializeToString() + b"\xc8\x3e\x07"
    entry = frame(head, payload, broker=front, checksum=checksum)
    made = transformed(unbatch(), [entry])
    states = {EntryState.VALID if checksum else EntryState.NO_CHECKSUM}
    assert set(check_entries(batch_of(made)).states) == states
    for index, one in enumerate(made):
        size = int.from_bytes(one[2:6], "big")
        found = BrokerMetadataRecord.FromString(one[6 : 6 + size])
        assert b"\xc8\x3e\x07" in one[6 : 6 + size]
        assert found.HasField("last_index") == ("last_index" in broker)
        assert found.last_index == (100 + index if "last_index" in broker else 0)
        assert found.broker_time_ms == broker.get("broker_time_ms", 0)
    assert rows_of(made) == rows_of([entry])


def test_a_batch_of_one_is_opened_and_a_message_alone_is_not():
    one, alone = packed(ZSTD, FOUR[:1]), frame(metadata(compression=LZ4, uncompressed_size=3), compress(LZ4, b"abc"))
    made = transformed(unbatch("snappy"), [alone, one, alone])
    assert made[0] == made[2] == alone
    assert (is_batch(made[1]), metadata_of(made[1]).compression) == (False, SNAPPY)


def test_what_compaction_took_out_is_left_out():
    gone = (BatchedMetadataRecord(compacted_out=True), b"gone")
    entries = [packed(LZ4, [gone, FOUR[0], gone, FOUR[1]]), packed(NONE, [gone, gone]), packed(ZLIB, [])]
    broker = BrokerMetadataRecord(last_index=9)
    left = frame(metadata(messages_in_batch=4, kept_index=[1, 3]), framed(*FOUR[2]) + framed(*FOUR[3]), broker=broker)
    made = transformed(unbatch(), [*entries, left])
    assert len(made) == 4
    assert rows_of(made) == rows_of([*entries, left])
    assert [row["broker_index"] for row in rows_of(made)] == [None, None, 7, 9]
    assert not any(metadata_of(one).kept_index for one in made)
    assert transformed(unbatch(), entries[1:]) == []


@pytest.mark.parametrize(
    "fields", [{"encryption_key": [EncryptionKey()]}, {"marker_type": 21}, {"chunks": 2, "chunked_id": b"a"}]
)
def test_what_cannot_be_opened_is_kept_as_it_is(fields):
    kept = frame(metadata(messages_in_batch=3, **fields), b"anything")
    assert transformed(unbatch(), [kept, batched(FOUR), kept])[::5] == [kept, kept]
    batch = batch_of([kept], 9)
    assert list(unbatch()(batch, 9)) == [batch]


def test_ids_are_consecutive_from_the_one_asked_for():
    """Checked by `entries_of`, over many pieces, too."""
    entries = [frame(metadata(), b"alone"), batched(FOUR), frame(metadata(), b"alone")]
    assert len(entries_of(unbatch(), batch_of(entries, 30), 10)) == 6
    assert entries_of(unbatch(), batch_of(entries[:1], 30), 10) == entries[:1]
    assert list(unbatch()(batch_of([]), 0)) == []


@for_each("codec", NAMES)
def test_what_becomes_much_larger_comes_in_pieces(monkeypatch, codec):
    monkeypatch.setattr(module, "_PORTION", 3000)
    monkeypatch.setattr(module, "_PIECE", 2000)
    entries = [packed(ZSTD, FOUR * 10), frame(metadata(), bytes(5000)), packed(LZ4, FOUR), *[packed(NONE, FOUR)] * 9]
    made = list(unbatch(codec)(batch_of(entries), 0))
    assert len(made) > 10
    assert max(len(one.buffer) for one in made[1:]) < 5200
    assert rows_of(transformed(unbatch(codec), entries)) == rows_of(entries)


def damaged() -> dict[str, tuple[bytes, str]]:
    plain = b"".join(framed(*message) for message in FOUR)
    wrong = bytearray(batched(FOUR))
    wrong[-1] ^= 1
    lz4 = {"compression": LZ4, "messages_in_batch": 4}
    return {
        "checksum": (bytes(wrong), "CRC32C"),
        "too many": (frame(metadata(messages_in_batch=5), plain), "does not match the batch"),
        "far too many": (frame(metadata(messages_in_batch=2**31 - 1), plain), "does not match the batch"),
        "negative": (frame(metadata(messages_in_batch=-1), plain), "does not match the batch"),
        "negative index": (frame(metadata(messages_in_batch=4, kept_index=[-1]), plain), "does not match the batch"),
        "cut": (frame(metadata(messages_in_batch=4), plain[:-1]), "does not match the batch"),
        "negative size": (
            frame(metadata(messages_in_batch=1), framed(BatchedMetadataRecord(payload_size=-1).SerializeToString())),
            "does not match the batch",
        ),
        "lz4": (frame(metadata(uncompressed_size=len(plain), **lz4), b"\xff" * 30), "broken LZ4"),
        "size": (
            frame(metadata(uncompressed_size=len(plain) + 1, **lz4), compress(LZ4, plain)),
            "LZ4|decompresses to 534 bytes, expected 535",
        ),
        "huge": (frame(metadata(uncompressed_size=2**32 - 1, **lz4), compress(LZ4, plain)), "contain at most [0-9]+"),
    }


@for_each("kind", sorted(damaged()))
def test_damage_is_an_error_that_names_the_entry(kind):
    entry, reason = damaged()[kind]
    with pytest.raises(CorruptMessageError, match=f"entry 41: .*({reason})"):
        list(unbatch()(batch_of([batched(FOUR), entry], 40), 3))


def test_the_limit_is_for_one_batch():
    entry = packed(LZ4, [(BatchedMetadataRecord(), bytes(1000))])
    assert len(entries_of(Unbatch(Compression.NONE, 2000), batch_of([entry] * 9))) == 9
    with pytest.raises(MessageTooLargeError, match="more than the limit of 1000"):
        list(Unbatch(Compression.NONE, 1000)(batch_of([entry]), 0))


def test_long_numbers_and_metadata_that_repeats_itself_find_room():
    """The most that each field may take, many times over: what is written is as long as was said before, or shorter."""
    most = 2**64 - 1
    single = BatchedMetadataRecord(
        key=b"k" * 200,
        ordering_key=b"o" * 200,
        property=[Property(key=b"n" * 130)] * 5,
        sequence_id=most,
        event_time_ms=most,
        key_is_base64=True,
        value_is_null=True,
        key_is_null=True,
    )
    head = metadata(messages_in_batch=50, replicate_to=[b"cluster"] * 100).SerializeToString()
    entry = frame(head, framed(single) * 50, broker=BrokerMetadataRecord(last_index=2**62, broker_time_ms=2**40))
    made = transformed(unbatch("zlib"), [entry])
    assert rows_of(made) == rows_of([entry])


def test_a_message_that_brokers_would_not_send_by_itself_is_refused():
    """A batch is bounded by what is stored of it: of LZ4 that may be much less than its messages have."""
    large = b"0123456789abcdef" * (MOST_SENT_BYTES // 16)
    plain = b"".join(
        framed(single, payload)
        for single, payload in ((BatchedMetadataRecord(), b"small"), (BatchedMetadataRecord(), large))
    )
    entry = frame(metadata(compression=LZ4, uncompressed_size=len(plain), messages_in_batch=2), compress(LZ4, plain))
    assert len(entry) < MOST_SENT_BYTES // 50
    others = [batched(FOUR)]
    with pytest.raises(
        RefusedLedgerError, match=r"message of entry 1 would be an entry of 5,24\d,\d{3} bytes.*cannot be split"
    ):
        transformed(unbatch(), [*others, entry])
    # Compressed by itself it is small enough.
    made = transformed(unbatch("zstd"), [*others, entry])
    assert len(made) == len(FOUR) + 2
    assert rows_of(made) == rows_of([*others, entry])


def test_a_message_of_a_batch_that_was_larger_may_stay_large():
    """Brokers may be configured to send more."""
    large = bytes(range(256)) * (MOST_SENT_BYTES // 200)
    entry = batched([(BatchedMetadataRecord(), large), (BatchedMetadataRecord(), b"small")])
    assert len(entry) > len(large) > MOST_SENT_BYTES
    assert rows_of(transformed(unbatch(), [entry])) == rows_of([entry])
