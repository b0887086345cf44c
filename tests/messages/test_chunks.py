"""Parts of chunked messages, in every order that a topic can have them."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import MessageTooLargeError
from ledgerfs.messages.codecs import claimed_sizes
from ledgerfs.messages.decode import chunks as module
from ledgerfs.messages.decode.chunks import ChunkJoiner, Incomplete, Joined
from tests.support.each import for_each
from tests.support.entries import LZ4, NONE, SNAPPY, ZLIB, ZSTD, compress, decode_entries, frame, metadata, varint


def add(
    joiner: ChunkJoiner, entry: int, chunk: int, chunks: int = 3, identity: bytes = b"a", data: bytes | None = None
):
    return put(joiner, (1, entry), identity, chunk, chunks, b"%d" % chunk if data is None else data)


def put(joiner: ChunkJoiner, position: tuple[int, int], identity: bytes, chunk: int, chunks: int, data: bytes | None):
    """Add a part; return the message's payload if it is whole now."""
    joined = joiner.add(position, identity, chunk, chunks, data)
    assert joined is None or not joined.is_sealed
    return None if joined is None else joined.payload


@for_each(
    ("parts", "chunks", "whole", "incomplete"),
    [
        # Sent twice, it comes twice; a part once more is left out, also the last one.
        ([0, 1, 2, 0, 1, 2], 3, [2, 5], []),
        ([0, 1, 1, 2, 2], 3, [3], []),
        # A first part begins again.
        ([0, 1, 0, 1, 2], 3, [4], [Incomplete(1, 0, 2, 3)]),
        ([0, 2, 3, 4, 5], 6, [], [Incomplete(1, 0, 1, 6)]),
        ([1, 2, 3], 4, [], [Incomplete(1, 0, 1, 4)]),
        ([0], 9, [], [Incomplete(1, 0, 1, 9)]),
    ],
)
def test_parts_become_the_message_and_what_is_incomplete_is_reported_once(parts, chunks, whole, incomplete):
    joiner = ChunkJoiner()
    found = [add(joiner, i, chunk, chunks) for i, chunk in enumerate(parts)]
    assert found == [b"012" if i in whole else None for i in range(len(parts))]
    assert joiner.finish() == incomplete


def test_a_message_goes_on_in_the_next_ledger_and_between_others():
    joiner = ChunkJoiner()
    assert put(joiner, (1, 8), b"a", 0, 2, b"x") is None
    assert put(joiner, (1, 9), b"b", 0, 2, b"y") is None
    assert put(joiner, (7, 0), b"a", 1, 2, b"z") == b"xz"
    assert put(joiner, (7, 1), b"b", 1, 2, b"") == b"y"
    assert joiner.finish() == []


def test_numbers_of_parts_that_cannot_be_are_no_message():
    joiner = ChunkJoiner()
    assert add(joiner, 0, -1) is None
    assert add(joiner, 1, 0) is None
    assert add(joiner, 2, -5) is None
    assert add(joiner, 3, 2**31 - 1) is None
    assert len(joiner.finish()) == 2


def test_no_more_bytes_wait_than_are_allowed_and_what_was_dropped_is_too_large_not_incomplete(monkeypatch):
    monkeypatch.setattr(module, "LEAST_WAITING_BYTES", 100)
    monkeypatch.setattr(module, "_COST_OF_PART", 0)
    joiner = ChunkJoiner(max_message_bytes=50)
    for i in range(5):
        assert add(joiner, i, 0, 2, b"%d" % i, bytes(40)) is None
        assert joiner.waiting_bytes <= 100
    assert joiner.incomplete == []
    assert add(joiner, 5, 1, 2, b"4", b"end") == bytes(40) + b"end"
    with pytest.raises(MessageTooLargeError, match=r"203 bytes .* begins at 1:0, .* max_message_bytes=203 "):
        add(joiner, 6, 1, 2, b"0", b"end")
    assert joiner.finish() == [Incomplete(1, i, 1, 2) for i in (1, 2, 3)]
    assert joiner.waiting_bytes == 0
    # With as much as it names, all of them are read.
    joiner = ChunkJoiner(max_message_bytes=203)
    assert [add(joiner, i, 0, 2, b"%d" % i, bytes(40)) for i in range(5)] == [None] * 5
    assert [add(joiner, 5 + i, 1, 2, b"%d" % i, b"end") for i in range(5)] == [bytes(40) + b"end"] * 5


def test_a_message_above_the_limit_is_too_large_once_it_is_whole_and_else_incomplete(monkeypatch):
    monkeypatch.setattr(module, "LEAST_WAITING_BYTES", 10_000)
    joiner = ChunkJoiner(max_message_bytes=100)
    for identity in (b"a", b"b", b"c"):
        assert add(joiner, 0, 0, identity=identity, data=bytes(60)) is None
        assert add(joiner, 1, 1, identity=identity, data=bytes(60)) is None
    assert joiner.waiting_bytes == 0
    with pytest.raises(MessageTooLargeError, match=r"begins at 1:0 has 123 bytes.*max_message_bytes=123 "):
        add(joiner, 2, 2, identity=b"a", data=b"end")
    assert add(joiner, 3, 2, identity=b"a") is None
    assert add(joiner, 4, 3, 3, identity=b"b") is None
    assert joiner.finish() == [Incomplete(1, 0, 2, 3), Incomplete(1, 0, 2, 3)]


def test_a_message_that_no_column_holds_is_too_large_whatever_the_limit(monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 100)
    monkeypatch.setattr(claimed_sizes, "LARGEST", 100)
    joiner = ChunkJoiner(max_message_bytes=1 << 40)
    add(joiner, 0, 0, 2, data=bytes(60))
    with pytest.raises(MessageTooLargeError, match="120 bytes, more than the 100 that a column can hold"):
        add(joiner, 1, 1, 2, data=bytes(60))


def test_empty_parts_without_end_take_no_memory(monkeypatch):
    monkeypatch.setattr(module, "LEAST_WAITING_BYTES", 10_000)
    joiner = ChunkJoiner(max_message_bytes=10_000)
    for i in range(1000):
        add(joiner, i, i, 2**31 - 1, data=b"")
        assert joiner.waiting_bytes <= 10_000
    assert joiner.finish() == [Incomplete(1, 0, 1000, 2**31 - 1)]


def test_a_message_with_a_part_that_nobody_can_decrypt_is_sealed():
    for unreadable in range(3):
        joiner = ChunkJoiner()
        got = [joiner.add((1, i), b"a", i, 3, None if i == unreadable else b"x") for i in range(3)]
        assert got == [None, None, Joined(b"", is_sealed=True)]
        assert joiner.finish() == []


def test_of_ids_of_any_length_little_is_remembered():
    joiner = ChunkJoiner()
    identities = [bytes([i]) * 100_000 for i in range(50)]
    tracemalloc.start()
    try:
        for i, identity in enumerate(identities):
            add(joiner, i, i % 2, identity=bytes(bytearray(identity)))
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
    assert [add(joiner, 100 + i, i, identity=identities[0]) for i in (1, 2)] == [None, b"012"]


def test_any_number_of_messages_may_wait():
    joiner = ChunkJoiner()
    for i in range(3000):
        assert add(joiner, i, 0, 2, b"%d" % i) is None
    assert [add(joiner, 3000 + i, 1, 2, b"%d" % i) for i in range(3000)] == [b"01"] * 3000
    assert joiner.finish() == []


def test_an_earlier_ledger_is_asked_once_and_only_when_a_first_part_is_missing():
    before, joiner, asked = ChunkJoiner(), ChunkJoiner(), []
    before.add((1, 7), b"a", 0, 3, b"x")

    def earlier() -> bool:
        asked.append(1)
        if len(asked) == 1:
            joiner.recall(before)
        return len(asked) == 1

    joiner.earlier = earlier
    assert put(joiner, (2, 0), b"b", 0, 2, b"") is None
    assert asked == []
    assert put(joiner, (2, 1), b"a", 1, 3, b"y") is None
    assert put(joiner, (2, 2), b"a", 2, 3, b"z") == b"xyz"
    assert len(asked) == 1
    assert joiner.finish() == [Incomplete(2, 0, 1, 2)]


@settings(deadline=None, max_examples=120)
@given(
    parts=st.lists(
        st.tuples(st.sampled_from([b"a", b"b"]), st.integers(-1, 4), st.integers(2, 4), st.binary(max_size=3)),
        max_size=25,
    )
)
def test_any_parts_in_any_order(parts):
    joiner = ChunkJoiner()
    waiting: dict[bytes, tuple[int, list[bytes]]] = {}
    for i, (identity, chunk, chunks, data) in enumerate(parts):
        if chunk == 0:
            waiting[identity] = (chunks, [])
        expected = None
        if identity in waiting:
            count, got = waiting[identity]
            if chunk == len(got):
                got.append(data)
                if len(got) == count:
                    expected = b"".join(waiting.pop(identity)[1])
            elif chunk > len(got):
                del waiting[identity]
        assert put(joiner, (1, i), identity, chunk, chunks, data) == expected
    assert joiner.waiting_bytes == sum(len(one) + module._COST_OF_PART for _, got in waiting.values() for one in got)
    joiner.finish()
    assert joiner.waiting_bytes == 0


def part(chunk: int, chunks: int, payload: bytes, codec: int = NONE, size: int = 0) -> bytes:
    meta = metadata(chunked_id=b"a", chunk=chunk, chunks=chunks, compression=codec, uncompressed_size=size)
    return frame(meta, payload)


def test_the_limit_is_that_of_the_joined_message():
    plain = bytes(range(256)) * 10
    stored = compress(SNAPPY, plain)
    half = len(stored) // 2
    entries = [part(0, 2, stored[:half], SNAPPY, len(plain)), part(1, 2, stored[half:], SNAPPY, len(plain))]
    table = decode_entries(entries, columns=["entry_id", "value"], max_message_bytes=len(plain))
    assert table.to_pydict() == {"entry_id": [1], "value": [plain]}
    with pytest.raises(MessageTooLargeError, match="entry 1:1: the message has 2560 bytes"):
        decode_entries(entries, max_message_bytes=len(plain) - 1)


@for_each("size", [100 << 20, 2**31, 2**32 - 1, 2**63 - 1])
@for_each("codec", [LZ4, ZLIB, ZSTD, SNAPPY])
def test_a_last_part_that_claims_to_be_of_many_does_not_raise_the_limit(codec, size):
    stored = compress(codec, bytes(1000))
    first = metadata(chunked_id=b"a", chunks=2, chunk=0, compression=codec)
    last = metadata(chunked_id=b"a", chunks=2**31 - 1, chunk=1, compression=codec)
    claim = b"\x48" + varint(size)  # wider than protobuf's classes would write
    parts = ((first, stored[:5]), (last, stored[5:]))
    entries = [frame(one.SerializeToString() + claim, payload) for one, payload in parts]
    decode_entries(entries, columns=["value"], on_corrupt="skip")  # compiles
    tracemalloc.start()
    try:
        table = decode_entries(entries, columns=["value"], on_corrupt="skip")
        assert tracemalloc.get_traced_memory()[1] < 15 << 20
    finally:
        tracemalloc.stop()
    assert table.num_rows == 0
