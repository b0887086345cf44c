import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptLedgerError, UnsupportedFormatError
from ledgerfs.formats.pulsar_blob.block import (
    BlockHeader,
    build_block_header,
    build_padding,
    first_wrong_padding,
    parse_block_header,
    trailing_padding,
)
from tests.support.each import for_each

GOLDEN = bytes.fromhex("FBDBABCB 0000000000000080 00000000000000CD 0000000000000000") + bytes(100)
MAX_INT64 = 2**63 - 1
FIELDS = ("header_length", "block_length", "first_entry")

quick = settings(deadline=None, max_examples=120)
padding_like_bytes = st.lists(st.sampled_from(b"\xfe\xdc\xde\xad\x00\xfb"), max_size=40).map(bytes)
padding_like_pieces = st.lists(
    st.one_of(padding_like_bytes, st.integers(0, 13).map(build_padding), st.binary(max_size=5)), max_size=6
).map(b"".join)


def slow_trailing_padding(data):
    return next(n for n in range(len(data), -1, -1) if data[len(data) - n :] == build_padding(n))


def test_published_header_is_parsed_and_built_byte_for_byte():
    header = BlockHeader(header_length=128, block_length=205, first_entry=0)
    assert parse_block_header(GOLDEN) == header
    assert build_block_header(header) == GOLDEN


@quick
@given(st.data())
def test_any_possible_header_round_trips(data):
    header_length = data.draw(st.integers(28, 1000))
    header = BlockHeader(
        header_length, data.draw(st.integers(header_length, MAX_INT64)), data.draw(st.integers(0, MAX_INT64))
    )
    built = build_block_header(header)
    assert len(built) == header_length
    assert parse_block_header(built) == header
    assert parse_block_header(memoryview(built)) == header


@for_each("value", [0, -1, 2**31 - 1, MAX_INT64])
@for_each("field", FIELDS)
def test_extreme_field_parses_to_its_value_or_is_refused(field, value):
    fields = {"header_length": 128, "block_length": 205, "first_entry": 0} | {field: value}
    data = struct.pack(">Iqqq", 0xFBDBABCB, *fields.values()) + bytes(100)
    if 28 <= fields["header_length"] <= fields["block_length"] and fields["first_entry"] >= 0:
        assert parse_block_header(data, key="object", offset=640) == BlockHeader(**fields)
    else:
        with pytest.raises(CorruptLedgerError, match=f"{value}") as caught:
            parse_block_header(data, key="object", offset=640)
        assert (caught.value.key, caught.value.offset) == ("object", 640)


@for_each("magic", [0, 0xFFFFFFFF, 2**31 - 1, 0xDE47DE47, 0xFBDBABCA])
def test_other_magic_is_corrupt_and_named(magic):
    with pytest.raises(CorruptLedgerError, match=f"{magic:#010x}") as caught:
        parse_block_header(magic.to_bytes(4, "big") + GOLDEN[4:], key="object", offset=7)
    assert (caught.value.key, caught.value.offset) == ("object", 7)


def test_streaming_magic_is_unsupported_by_name():
    with pytest.raises(UnsupportedFormatError, match="PIP-76") as caught:
        parse_block_header(bytes.fromhex("26A66D32") + GOLDEN[4:], key="object", offset=7)
    assert (caught.value.key, caught.value.offset) == ("object", 7)


@for_each("length", range(28))
def test_header_cut_anywhere_is_corrupt(length):
    with pytest.raises(CorruptLedgerError, match="truncated") as caught:
        parse_block_header(GOLDEN[:length], key="object", offset=3)
    assert (caught.value.key, caught.value.offset) == ("object", 3)


@quick
@given(st.binary(max_size=160))
def test_arbitrary_bytes_never_raise_anything_else(data):
    for attempt in (data, GOLDEN[:4] + data, bytes.fromhex("26A66D32") + data):
        try:
            header = parse_block_header(attempt)
        except (CorruptLedgerError, UnsupportedFormatError):
            continue
        assert struct.pack(">qqq", header.header_length, header.block_length, header.first_entry) == attempt[4:28]


@for_each(
    ("length", "padding"),
    [(0, ""), (1, "FE"), (2, "FEDC"), (3, "FEDCDE"), (4, "FEDCDEAD"), (5, "FEDCDEADFE"), (8, "FEDCDEADFEDCDEAD")],
)
def test_padding_repeats_its_pattern_from_the_first_byte(length, padding):
    assert build_padding(length) == bytes.fromhex(padding)


@for_each("leftover", range(9))
def test_padding_before_a_block_reads_as_a_negative_record_length(leftover):
    assert struct.unpack_from(">i", build_padding(leftover) + GOLDEN)[0] < 0


@quick
@given(st.one_of(padding_like_bytes, padding_like_pieces))
@example(b"")
@example(b"\xdc")
@example(b"\xfe\xdc\xde\xad\xfe")
@example(b"\xad\xfe\xdc\xde\xad")
@example(b"\xdc\xde\xad\xfe\xdc")
@example(b"\xfe\xfe\xfe")
def test_trailing_padding_is_the_longest_run_that_starts_with_the_pattern(data):
    assert trailing_padding(data) == slow_trailing_padding(data)
    assert trailing_padding(memoryview(bytearray(data))) == slow_trailing_padding(data)


@quick
@given(st.one_of(padding_like_bytes, padding_like_pieces))
def test_first_wrong_padding_is_the_first_difference(data):
    expected = next((i for i, byte in enumerate(data) if byte != build_padding(len(data))[i]), None)
    assert first_wrong_padding(data) == expected
