"""Entries that were sent, compared with stored ones: bytes, what a broker wrote in front, and settled copies."""

import struct

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.messages.decode.same_entries import equal_entries, is_settled
from ledgerfs.messages.proto.message_metadata_pb2 import BrokerMetadataRecord
from tests.support.each import for_each
from tests.support.entries import batch_of, frame, metadata, varint

BROKER = BrokerMetadataRecord(broker_time_ms=5, last_index=9)
ENTRIES = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda data: frame(metadata(), data)),
    st.binary(max_size=40).map(lambda data: frame(metadata(), data, broker=BROKER)),
)


def without_front(entry: bytes) -> bytes:
    if entry[:2] != b"\x0e\x02" or len(entry) < 6:
        return entry
    return entry[6 + int.from_bytes(entry[2:6], "big") :]


@given(st.lists(st.tuples(ENTRIES, ENTRIES, st.sampled_from(["same", "without front", "other"])), max_size=5))
def test_entries_are_equal_as_bytes(pairs: list[tuple[bytes, bytes, str]]) -> None:
    stored = [one for one, _, _ in pairs]
    sent = [{"same": one, "without front": without_front(one), "other": other}[how] for one, other, how in pairs]
    expected = [
        theirs == (ours if theirs[:2] == b"\x0e\x02" and len(theirs) >= 6 else without_front(ours))
        for ours, theirs in zip(stored, sent, strict=True)
    ]
    assert equal_entries(batch_of(stored), batch_of(sent)).tolist() == expected


@given(st.integers(0, 200), st.integers(1, 255), st.integers(0, 10**6))
def test_one_byte_that_differs_is_found(size: int, change: int, at: int) -> None:
    stored = frame(metadata(), bytes(size))
    sent = bytearray(stored)
    sent[at % len(sent)] ^= change
    assert equal_entries(batch_of([stored, stored]), batch_of([sent, stored])).tolist() == [False, True]
    assert not is_settled(stored, bytes(sent))


def settled(
    tags: tuple[int, int], *, most: int = 7, least: int = 300, payload: bytes = b"payload", checksum: bool = True
) -> bytes:
    """Return an entry whose metadata has the id of a transaction under some numbers of fields."""
    head = metadata(messages_in_batch=2).SerializeToString()
    for number, value in zip(tags, (least, most), strict=True):
        head += varint(number << 3) + varint(value)
    return frame(head, payload, checksum=checksum)


STORED = settled((22, 23))


@for_each("tags", [(22, 23), (21, 21), (33, 34), (1000, 2047), (22, 40)])
@for_each("checksum", [True, False])
def test_a_settled_copy_is_the_same(tags: tuple[int, int], checksum: bool) -> None:
    stored, sent = settled((22, 23), checksum=checksum), settled(tags, checksum=checksum)
    assert is_settled(stored, sent)
    assert is_settled(frame_in_front(stored), sent)
    assert is_settled(frame_in_front(stored), frame_in_front(sent))
    assert not is_settled(stored, frame_in_front(sent))


def frame_in_front(entry: bytes) -> bytes:
    front = BROKER.SerializeToString()
    return b"\x0e\x02" + struct.pack(">I", len(front)) + front + entry


@for_each(
    "sent",
    [
        settled((33, 34), most=8),
        settled((33, 34), payload=b"paiload"),
        settled((33, 34), payload=b"payload "),
        settled((20, 34)),  # a marker's
        settled((31, 34)),
        settled((33, 34), checksum=False),
        settled((2**11, 34)),  # of another size
        b"",
        b"\x0e\x01",
        b"\xff" * 60,
    ],
)
def test_other_entries_are_not(sent: bytes) -> None:
    assert not is_settled(STORED, sent)
    assert not is_settled(sent, STORED)


def test_other_fields_keep_their_tags() -> None:
    stored = frame(metadata().SerializeToString() + varint(24 << 3) + varint(3))
    sent = frame(metadata().SerializeToString() + varint(40 << 3) + varint(3))
    assert not is_settled(stored, sent)


def test_the_checksum_of_a_settled_copy_has_to_be_its_own() -> None:
    """Clients refuse any other."""
    sent = settled((33, 34))
    kept = STORED[:6] + sent[6:]
    assert google_crc32c.value(sent[6:]) == int.from_bytes(sent[2:6], "big")
    assert not is_settled(STORED, kept)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_can_be_compared(one: bytes, other: bytes) -> None:
    assert not is_settled(one, other) or len(without_front(one)) == len(without_front(other))
