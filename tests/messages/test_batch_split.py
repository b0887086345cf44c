"""Batches, sound and hostile, taken apart."""

import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import MessageTooLargeError
from ledgerfs.messages.decode.batch_split import MessageField, Messages, split_batches, split_unopened
from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status, walk_metadata
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, Property
from tests.support.each import for_each
from tests.support.entries import batch_of, batched, compress, decode_entries, frame, framed, metadata

SINGLES = [
    (BatchedMetadataRecord(key=b"k", event_time_ms=5), b"one"),
    (BatchedMetadataRecord(property=[Property(key=b"a", value=b"b")], sequence_id=2**40), b""),
    (BatchedMetadataRecord(ordering_key=b"o", value_is_null=True), b"three"),
]
HOSTILE = [-1, -2, -(2**31), 2**31 - 1, 2**30, 100_000, 7]


def split(*entries: bytes) -> tuple[Messages, Int64Table]:
    """Return messages and entries, whose payloads are plain."""
    batch = batch_of(entries)
    table = walk_metadata(batch)
    return split_batches(np.frombuffer(batch.buffer, np.uint8), table), table


def unopened(*entries: bytes) -> tuple[Messages, Int64Table]:
    batch = batch_of(entries)
    table = walk_metadata(batch)
    return split_unopened(np.frombuffer(batch.buffer, np.uint8), table), table


def indexes_of(messages: Messages) -> list[tuple[int, int | None]]:
    pairs = zip(messages[MessageField.ENTRY].tolist(), messages[MessageField.BATCH_INDEX].tolist(), strict=True)
    return [(entry, None if index < 0 else index) for entry, index in pairs]


def test_bytes_behind_the_last_message_are_nobodys():
    messages, _ = split(frame(metadata(messages_in_batch=1), framed(*SINGLES[0]) + b"\xff" * 9))
    assert messages[MessageField.PAYLOAD_SIZE].tolist() == [3]


@for_each("take_apart", [split, unopened])
@for_each("codec", [0, 1, 2])
def test_of_a_compacted_batch_the_kept_messages_have_the_indexes_that_they_had(codec, take_apart):
    """``compacted_batch_indexes``: the payload holds only these; packed or not, a reader of protobuf takes both."""
    plain = b"".join(framed(*single) for single in SINGLES[:2])
    meta = metadata(messages_in_batch=9, kept_index=[3, 7], compression=codec, uncompressed_size=len(plain))
    packed = metadata(messages_in_batch=9, compression=codec, uncompressed_size=len(plain)).SerializeToString()
    entries = [frame(meta, compress(codec, plain)), frame(packed + b"\xfa\x01\x02\x00\x08", compress(codec, plain))]
    if codec == 2:  # not of a kernel, so it is plain before the split
        (table,) = [decode_entries(entries, columns=["batch_index", "value"])]
        assert table["batch_index"].to_pylist() == [3, 7, 0, 8]
        return
    messages, _ = take_apart(*entries)
    assert indexes_of(messages) == [(0, 3), (0, 7), (1, 0), (1, 8)]


@for_each("kept", [[], list(range(100))])
def test_a_compacted_batch_of_more_messages_than_it_has_room_for_is_damage(kept):
    plain = framed(*SINGLES[0])
    messages, table = split(frame(metadata(messages_in_batch=9, kept_index=kept), plain))
    assert len(messages) == 0
    assert table[Meta.STATUS, 0] == Status.BROKEN_BATCH


@for_each("codec", [0, 1])
@for_each(("count", "kept"), [(-5, []), (-5, [0]), (-5, [0] * 9), (9, [3, -1])])
@for_each("take_apart", [split, unopened])
def test_a_compacted_batch_of_fewer_messages_than_none_or_that_keeps_what_no_batch_has_is_damage(
    count, kept, codec, take_apart
):
    """To the kernel a count below none would be no batch but one message, for which there was no room."""
    plain = b"".join(framed(*single) for single in SINGLES * 3)
    head = metadata(messages_in_batch=count, kept_index=kept, compression=codec, uncompressed_size=len(plain))
    packed = head.SerializeToString() + b"\xfa\x01\x00"
    messages, table = take_apart(frame(packed, compress(codec, plain)), frame(metadata()))
    assert indexes_of(messages) == [(1, None)]
    assert table[Meta.STATUS, 0] == Status.BROKEN_BATCH


def test_a_plain_batch_above_the_limit_is_none_that_was_decompressed():
    entry = batched(SINGLES * 9)
    for column in ("entry_id", "value"):
        assert decode_entries([entry], columns=[column], max_message_bytes=9).num_rows == 27


@for_each("claimed", HOSTILE)
@for_each("take_apart", [split, unopened])
def test_hostile_counts_are_damage_and_allocate_nothing(claimed, take_apart):
    payload = b"".join(framed(*single) for single in SINGLES)
    good = frame(metadata(), b"x")
    entries = [good, frame(metadata(messages_in_batch=claimed), payload), good]
    take_apart(*entries)  # compiles
    tracemalloc.start()
    try:
        messages, table = take_apart(*entries)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    if claimed != 7 or take_apart is split:  # 7 of 6 bytes could be
        assert indexes_of(messages) == [(0, None), (2, None)]
        assert table[Meta.STATUS].tolist() == [Status.VALID, Status.BROKEN_BATCH, Status.VALID]


@for_each("claimed", [*HOSTILE, 2**63 - 1, -(2**63) + 1, 2**32, 2**32 + 3])
def test_counts_of_any_width_are_damage_without_a_look_at_a_compressed_payload_too(claimed):
    count = (claimed & (2**64 - 1)).to_bytes(10, "little")
    number = int.from_bytes(count, "little")
    wide = b"\x58" + b"".join(bytes([number >> 7 * i & 0x7F | 0x80]) for i in range(9)) + bytes([number >> 63 & 1])
    meta = metadata(compression=1, uncompressed_size=30).SerializeToString() + wide
    messages, table = unopened(frame(meta, b"x"), frame(metadata()))
    assert indexes_of(messages) == [(1, None)]
    assert table[Meta.STATUS, 0] == Status.BROKEN_BATCH


def test_a_batch_of_more_messages_than_memory_is_given_for_is_too_large_whichever_columns_are_asked_for():
    """Unopened, nothing but its claim bounds what is allocated for its messages: 17 numbers of 8 bytes for each 6 claimed."""
    meta = metadata(compression=1, uncompressed_size=100 << 20, messages_in_batch=1_000_000)
    for column in ("value", "entry_id"):
        with pytest.raises(MessageTooLargeError, match=r"entry 1:0: .* max_message_bytes=256000000 "):
            decode_entries([frame(meta, b"x")], columns=[column], max_message_bytes=200 << 20)
        table = decode_entries([frame(meta, b"x")], columns=[column], max_message_bytes=200 << 20, on_corrupt="skip")
        assert table.num_rows == 0
    # What no column needs is not opened, be it sound or not.
    assert decode_entries([frame(meta, b"x")], columns=["entry_id"]).num_rows == 1_000_000


def test_the_largest_claim_of_all_allocates_nothing():
    meta = metadata(compression=1, messages_in_batch=5_000_000).SerializeToString() + b"\x48" + b"\xff" * 8 + b"\x7f"
    options = {"columns": ["entry_id"], "on_corrupt": "skip"}
    decode_entries([frame(metadata())], **options)  # compiles
    tracemalloc.start()
    try:
        table = decode_entries([frame(meta, b"x")], **options)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()
    assert table.num_rows == 0


def test_a_batch_cut_at_any_byte_is_damage():
    payload = b"".join(framed(*single) for single in SINGLES)
    meta = metadata(messages_in_batch=3)
    good = frame(metadata(), b"x")
    for end in range(len(payload)):
        messages, table = split(good, frame(meta, payload[:end]), good)
        assert indexes_of(messages) == [(0, None), (2, None)], end
        assert table[Meta.STATUS, 1] == Status.BROKEN_BATCH


OF_METADATA = [struct.pack(">I", size) + b"\x18\x00\x00" for size in (4, 5, 100, 2**31 - 1, 2**31, 2**32 - 1)]
OF_PAYLOAD = [{"payload_size": size} for size in (-1, -(2**31), 4, 2**31 - 1)] + [{"key": b"no size"}]


@for_each(
    "payload", OF_METADATA + [framed(BatchedMetadataRecord(**one).SerializeToString(), b"abc") for one in OF_PAYLOAD]
)
def test_a_size_that_does_not_fit_is_damage(payload):
    messages, table = split(frame(metadata(messages_in_batch=1), payload))
    assert len(messages) == 0
    assert table[Meta.STATUS, 0] == Status.BROKEN_BATCH


@settings(deadline=None, max_examples=120)
@given(payload=st.binary(max_size=60), count=st.integers(-2, 12))
def test_any_payload_gives_messages_inside_it(payload, count):
    messages, table = split(frame(metadata(messages_in_batch=count), payload))
    at, size = messages[MessageField.PAYLOAD_AT], messages[MessageField.PAYLOAD_SIZE]
    assert (at >= table[Meta.PAYLOAD_AT, 0]).all()
    assert (size >= 0).all()
    assert (at + size <= table[Meta.PAYLOAD_END, 0]).all()
    assert len(messages) in {0, max(0, count)} or (messages[MessageField.COMPACTED_OUT] == 0).all()
