"""Envelopes around values of ZooKeeper: every codec; cut, lying and hostile ones."""

import contextlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.decompression import Compression
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import CursorInfo, build_cursor_info, parse_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    Position,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.stored_values import compressed, uncompressed
from ledgerfs_cluster.formats.proto.metadata_pb2 import EnvelopeRecord
from tests.support.each import for_each
from tests.support.entries import compress

KEY = "/managed-ledgers/public/default/persistent/orders"
REAL = [one for one in Compression if one is not Compression.NONE]
PLAIN = build_managed_ledger_info(
    ManagedLedgerInfo(tuple(LedgerInfo(one, 5, 300, 1_700_000_000_000 + one) for one in range(100)))
)


def envelope(codec: int, plain: bytes) -> bytes:
    return compressed(plain, codec, compress(codec, plain))


def with_size(codec: int, stored: bytes, size: int) -> bytes:
    reported = EnvelopeRecord(compression=codec, uncompressed_size=size).SerializeToString()
    return b"\x47\x78" + len(reported).to_bytes(4, "big") + reported + stored


@for_each("codec", list(Compression))
@settings(deadline=None, max_examples=50)
@given(plain=st.one_of(st.binary(max_size=300), st.binary(min_size=1, max_size=9).map(lambda data: data * 500)))
def test_what_was_compressed_comes_back(codec: Compression, plain: bytes) -> None:
    assert uncompressed(envelope(codec, plain), key=KEY) == plain


@for_each("codec", list(Compression))
def test_both_kinds_of_nodes_may_be_compressed(codec: Compression) -> None:
    assert parse_managed_ledger_info(envelope(codec, PLAIN), key=KEY) == parse_managed_ledger_info(PLAIN, key=KEY)
    cursor = CursorInfo(-1, Position(5, 3), holes=((Position(5, 4), Position(5, 9)),))
    assert parse_cursor_info(envelope(codec, build_cursor_info(cursor)), key=KEY) == cursor


def test_the_envelope_has_the_bytes_of_pulsar() -> None:
    assert (
        uncompressed(bytes.fromhex("4778 00000004 0802 1005") + compress(Compression.ZLIB, b"12345"), key=KEY)
        == b"12345"
    )


@given(st.binary(max_size=50).filter(lambda data: data[:2] != b"\x47\x78"))
def test_plain_values_are_as_they_are(data: bytes) -> None:
    assert uncompressed(data, key=KEY) == data


@for_each("codec", REAL)
def test_an_envelope_that_is_cut_anywhere_is_corrupt_or_whole(codec: Compression) -> None:
    data = envelope(codec, PLAIN)
    for end in range(2, len(data)):
        found = None
        with contextlib.suppress(CorruptMetadataError):
            found = uncompressed(data[:end], key=KEY)
        assert found is None or (found == PLAIN and codec is Compression.ZLIB)  # without its checksum


@for_each(
    ("data", "offset"),
    [
        ("4778", 0),
        ("4778 0000", 0),
        ("4778 00000005 0802 1005", 2),
        ("4778 FFFFFFFF 0802 1005", 2),
        ("4778 7FFFFFFF 0802 1005", 2),
        ("4778 00000001 08", 6),
        ("4778 00000000", 6),
        ("4778 00000002 1005", 8),
        ("4778 00000002 0801", 8),
        ("4778 00000004 0805 1005 00", 10),
        ("4778 00000004 0803 1005", 10),
    ],
)
def test_a_broken_envelope_is_corrupt(data: str, offset: int) -> None:
    with pytest.raises(CorruptMetadataError) as caught:
        uncompressed(bytes.fromhex(data), key=KEY)
    assert (caught.value.key, caught.value.offset) == (KEY, offset)


@for_each("codec", REAL)
@for_each("size", [-(2**31), -1, 0, len(PLAIN) - 1, len(PLAIN) + 1, 100 << 20, 256 << 20, 2**31 - 1])
def test_a_size_that_lies_is_corrupt_and_takes_no_memory(codec: Compression, size: int) -> None:
    data = with_size(codec, compress(codec, PLAIN)[:200], size)
    whole = with_size(codec, compress(codec, PLAIN), size)
    tracemalloc.start()
    try:
        for one in (data, whole):
            with pytest.raises(CorruptMetadataError):
                uncompressed(one, key=KEY)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1 << 20


@settings(deadline=None, max_examples=120)
@given(st.binary(max_size=60), st.sampled_from(REAL), st.integers(0, 40), st.integers(0, 40))
def test_arbitrary_bytes_raise_nothing_else(data: bytes, codec: Compression, at: int, end: int) -> None:
    valid = envelope(codec, PLAIN)
    for attempt in (b"\x47\x78" + data, valid[:at] + data + valid[end:]):
        refused = found = None
        try:
            found = uncompressed(attempt, key=KEY)
        except CorruptMetadataError as error:
            refused = error
        assert (found is None) != (refused is None)
        assert len(found or b"") <= 1 << 20
        assert refused is None or refused.key == KEY
