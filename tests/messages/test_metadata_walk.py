"""Frames and metadata with every kind of damage: the status tells it, and nothing after the entry is read."""

import struct

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.messages.decode.metadata_walk import Int64Table, Meta, Status, walk_metadata
from ledgerfs.messages.kernels.wire import ABSENT
from ledgerfs.messages.proto.message_metadata_pb2 import (
    BrokerMetadataRecord,
    EncryptionKey,
    MessageMetadataRecord,
    Property,
)
from tests.support.each import for_each
from tests.support.entries import batch_of, frame, metadata, varint

FULL = metadata(
    property=[Property(key=b"a", value=b"b"), Property()],
    replicated_from=b"east",
    key=b"key",
    compression=3,
    uncompressed_size=2**32 - 1,
    messages_in_batch=5,
    event_time_ms=2**64 - 1,
    encryption_key=[EncryptionKey(name=b"k")],
    encryption_iv=bytes(12),
    schema_version=b"",
    key_is_base64=True,
    ordering_key=b"order",
    deliver_at_ms=-5,
    marker_type=-1,
    transaction_least=0,
    transaction_most=2**64 - 1,
    value_is_null=True,
    chunked_id=b"id",
    chunks=3,
    chunked_size=1000,
    chunk=2,
    key_is_null=True,
    kept_index=[1],
)
BROKER = BrokerMetadataRecord(broker_time_ms=7, last_index=9)
REQUIRED = b"\x0a\x01p\x10\x01\x18\x02"


def walk(*entries: bytes) -> Int64Table:
    return walk_metadata(batch_of(entries))


def status_of(entry: bytes) -> int:
    """Return the status of an entry, which may not change its neighbours."""
    good = frame(metadata())
    statuses = walk(good, entry, good)[Meta.STATUS].tolist()
    assert statuses[::2] == [Status.VALID, Status.VALID]
    return statuses[1]


@for_each("checksum", [False, True])
@for_each("broker", [None, BROKER, b""])
def test_an_entry_cut_at_any_byte_of_its_head_is_damage(checksum, broker):
    entry = frame(FULL, b"", checksum=checksum, broker=broker)
    entries = [entry[:end] for end in range(len(entry))]
    # A length of 4 bytes that begins with a cut frame's 0E01 or 0E02 is never one that fits.
    assert walk(*entries)[Meta.STATUS].tolist() == [Status.BROKEN_FRAME] * len(entries)


def test_metadata_cut_at_any_byte_is_damage_or_lacks_a_field_or_is_what_protobuf_reads():
    head = FULL.SerializeToString()
    for end in range(len(head)):
        status = status_of(frame(head[:end], b"payload"))
        try:
            read = MessageMetadataRecord.FromString(head[:end])
        except DecodeError:
            assert status == Status.BROKEN_METADATA, end
        else:
            is_whole = all(read.HasField(name) for name in ("producer_name", "sequence_id", "publish_time_ms"))
            assert status == (Status.VALID if is_whole else Status.MISSING_FIELD), end


@pytest.mark.parametrize("missing", ["producer_name", "sequence_id", "publish_time_ms"])
def test_a_required_field_that_is_missing_is_reported(missing):
    meta = metadata()
    meta.ClearField(missing)
    assert status_of(frame(meta)) == Status.MISSING_FIELD


def test_a_required_field_of_another_wire_type_is_missing():
    for head in (b"\x08\x01\x10\x01\x18\x02", b"\x0a\x01p\x12\x01x\x18\x02", b"\x0a\x01p\x10\x01\x19" + bytes(8)):
        assert status_of(frame(head)) == Status.MISSING_FIELD


@for_each("time", [2**63, 2**63 + 5, 2**63 - 1, 2**60])
def test_a_publish_time_that_no_calendar_holds_is_reported_as_such(time):
    assert status_of(frame(metadata(publish_time_ms=time))) == Status.IMPOSSIBLE_TIME
    assert status_of(frame(metadata(publish_time_ms=time, sequence_id=2**63))) == Status.IMPOSSIBLE_TIME


def test_a_sequence_id_may_be_any_number_of_64_bits():
    for number in (2**63 - 1, 2**63, 2**64 - 1):
        row = walk(frame(metadata(sequence_id=number)))[:, 0]
        assert row[Meta.STATUS] == Status.VALID
        assert row[Meta.SEQUENCE_ID] == np.uint64(number).astype(np.int64)


@for_each("bytes_of_it", range(1, 15))
def test_varints_of_ten_bytes_are_read_and_longer_ones_are_damage(bytes_of_it):
    long = b"\x81" + b"\x80" * (bytes_of_it - 2) + b"\x00" if bytes_of_it > 1 else b"\x01"
    for number in (2, 12, 24, 40, 41, 99):
        head = REQUIRED + varint(number << 3) + long
        assert status_of(frame(head)) == (Status.VALID if bytes_of_it <= 10 else Status.BROKEN_METADATA), number
    if bytes_of_it <= 10:
        row = walk(frame(REQUIRED + b"\x10" + long))[:, 0]
        assert row[Meta.SEQUENCE_ID] == 1
    assert status_of(frame(REQUIRED + b"\x10" + b"\xff" * bytes_of_it)) == Status.BROKEN_METADATA


def test_bits_beyond_the_64th_are_dropped():
    row = walk(frame(REQUIRED + b"\x10" + b"\xff" * 9 + b"\x7f"))[:, 0]
    assert row[Meta.SEQUENCE_ID] == -1


@for_each("kind", range(8))
@for_each("number", [7, 10, 14, 21, 24, 33, 40, 41, 100, 2**29 - 1])
def test_unknown_fields_are_skipped_but_for_groups_and_types_that_are_none(number, kind):
    body = {0: b"\xff\x01", 1: bytes(8), 2: b"\x03abc", 5: bytes(4)}
    field = varint(number << 3 | kind) + body.get(kind, b"")
    expected = Status.VALID if kind in body else Status.BROKEN_METADATA
    assert status_of(frame(field + REQUIRED)) == expected
    assert status_of(frame(REQUIRED + field)) == expected
    if kind in body:
        assert status_of(frame(REQUIRED + field[:-1])) == Status.BROKEN_METADATA


@for_each("tag", [0, 1, 2, 5, 7, 2**63, 2**64 - 1, 2**64 - 6])
def test_tags_that_are_no_field_are_damage(tag):
    assert status_of(frame(REQUIRED + varint(tag) + bytes(9))) == Status.BROKEN_METADATA


@for_each("over", [1, 2, 1000, 2**31, 2**32, 2**63 - 10, 2**63, 2**64 - 10])
@for_each("number", [1, 4, 6, 13, 26, 33, 99])
def test_lengths_beyond_the_metadata_are_damage_although_the_payload_has_the_bytes(number, over):
    field = varint(number << 3 | 2) + varint(5 + over) + b"abcde"
    assert status_of(frame(REQUIRED + field, bytes(2000))) == Status.BROKEN_METADATA
    assert status_of(frame(REQUIRED + field[:-5], bytes(2000))) == Status.BROKEN_METADATA


@for_each("size", [1, 2, 100, 2**31 - 1, 2**31, 2**32 - 1])
def test_frames_that_claim_more_than_the_entry_has_are_damage(size):
    head = metadata().SerializeToString()
    claim = struct.pack(">I", min(2**32 - 1, len(head) + size))
    assert status_of(claim + head) == Status.BROKEN_FRAME
    assert status_of(b"\x0e\x01abcd" + claim + head) == Status.BROKEN_FRAME
    rest = struct.pack(">I", len(head)) + head
    claim = struct.pack(">I", min(2**32 - 1, len(rest) + size))
    assert status_of(b"\x0e\x02" + claim + rest) == Status.BROKEN_FRAME


@for_each("broker", [b"\x08", b"\x12\x05ab", b"\x0b", b"\x00\x00", b"\x08" + b"\xff" * 11])
def test_broker_metadata_that_is_no_message_is_damage(broker):
    assert status_of(frame(metadata(), broker=broker)) == Status.BROKEN_FRAME


def test_the_last_of_a_field_that_occurs_twice_counts():
    batch = batch_of([frame(REQUIRED + b"\x32\x01a\x32\x02bc\x10\x07")])
    row = walk_metadata(batch)[:, 0]
    assert row[Meta.SEQUENCE_ID] == 7
    assert bytes(batch.buffer[row[Meta.KEY_AT] :][: row[Meta.KEY_SIZE]]) == b"bc"


@for_each(("number", "column"), [(4, Meta.PROPERTIES), (13, Meta.ENCRYPTION_KEYS)])
@for_each("field", [(0, b"\x01"), (1, bytes(8)), (5, bytes(4))])
def test_only_fields_of_bytes_are_counted_as_properties_and_keys(number, column, field):
    """What is counted is looked for later, as bytes: one that is not there must not be missed."""
    kind, body = field
    row = walk(frame(REQUIRED + varint(number << 3 | kind) + body))[:, 0]
    assert row[column] == 0


@settings(deadline=None, max_examples=150)
@given(
    head=st.one_of(
        st.binary(max_size=40),
        st.binary(max_size=30).map(lambda data: REQUIRED + data),
        st.tuples(st.integers(0, 200), st.integers(0, 7)).map(
            lambda change: (
                FULL.SerializeToString()[: change[0]]
                + bytes([1 << change[1]])
                + FULL.SerializeToString()[change[0] + 1 :]
            )
        ),
    )
)
def test_any_metadata_is_damage_or_inside_its_bounds(head):
    batch = batch_of([frame(head, b"payload")])
    row = walk_metadata(batch)[:, 0]
    if row[Meta.STATUS] != Status.VALID:
        return
    low, high = row[Meta.METADATA_AT], row[Meta.METADATA_END]
    assert high - low == len(head)
    for place in (Meta.PRODUCER_AT, Meta.KEY_AT, Meta.SCHEMA_AT, Meta.CHUNKED_ID_AT, Meta.IV_AT, Meta.ORDERING_KEY_AT):
        if row[place] != ABSENT:
            assert low <= row[place] <= row[place] + row[place + 1] <= high
