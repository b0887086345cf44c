import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptIndexError, CorruptLedgerError, UnsupportedFormatError
from ledgerfs.formats.mapfile.header import (
    FIRST_BYTES,
    MAX_HEADER_BYTES,
    Codec,
    RecordCompression,
    SequenceHeader,
    parse_header,
    read_vint,
)
from ledgerfs.formats.mapfile.window import Role, Window
from tests.support.each import for_each
from tests.support.mapfiles import BYTES, LONG, SYNC, MapFileWriter, header, text, vint, window_of

MORE = b"what follows"
quick = settings(deadline=None, max_examples=120)


def parsed(data, **of_window):
    return parse_header(Window(memoryview(data), 0, len(data), key="data", **of_window))


@for_each(
    ("number", "data"),
    [
        (0, "00"),
        (127, "7f"),
        (-112, "90"),
        (128, "8f80"),
        (-113, "8770"),
        (255, "8fff"),
        (256, "8e0100"),
        (-256, "87ff"),
        (-257, "860100"),
        (2**31 - 1, "8c7fffffff"),
        (2**63 - 1, "887fffffffffffffff"),
        (-(2**63), "807fffffffffffffff"),
    ],
)
def test_vints_are_javas(number, data):
    assert vint(number) == bytes.fromhex(data)
    assert read_vint(bytes.fromhex(data), 0) == (number, len(data) // 2)


@quick
@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_vints_round_trip_and_want_all_their_bytes(number, before, after):
    data = before + vint(number)
    assert read_vint(data + after, len(before)) == (number, len(data))
    for cut in range(len(before), len(data)):
        assert read_vint(data[:cut], len(before)) is None


@for_each("codec", Codec)
@for_each("compression", RecordCompression)
@for_each("metadata", [(), (("a", "b"), ("", "ü" * 200))])
def test_header_has_what_was_written(compression, codec, metadata):
    data = header(MapFileWriter(compression, codec, metadata=metadata))
    is_compressed = compression is not RecordCompression.NONE
    expected = SequenceHeader(LONG, BYTES, compression, codec if is_compressed else None, SYNC, len(data))
    assert parsed(data) == parsed(data + MORE) == expected


@pytest.mark.parametrize("compression", RecordCompression)
def test_more_bytes_are_asked_for_until_all_are_there(compression):
    data = header(MapFileWriter(compression, metadata=[("name", "x" * 300)]))
    for size in range(len(data)):
        assert parse_header(window_of(data + MORE, 0, size)) is None
        with pytest.raises(CorruptLedgerError, match="ends within its header") as caught:
            parsed(data[:size])
        assert (caught.value.key, caught.value.offset) == ("data", size)
    assert parse_header(window_of(data + MORE, 0, len(data))).size == len(data)


def test_headers_are_small():
    assert len(header(MapFileWriter())) < FIRST_BYTES
    longest = [("", "x" * (MAX_HEADER_BYTES - 500))]
    assert parsed(header(MapFileWriter(metadata=longest))).size < MAX_HEADER_BYTES
    endless = header(MapFileWriter(metadata=longest * 2)) + MORE
    assert parse_header(window_of(endless, 0, MAX_HEADER_BYTES - 1)) is None
    with pytest.raises(CorruptLedgerError, match=f"longer than {MAX_HEADER_BYTES}"):
        parse_header(window_of(endless, 0, MAX_HEADER_BYTES))


@for_each("data", [b"PAR1" + bytes(200), b"seq\x06", b"\0" * 200, b"EQS\x06" + bytes(200)])
def test_other_files_are_none(data):
    with pytest.raises(CorruptLedgerError, match="does not begin with SEQ") as caught:
        parsed(data)
    assert caught.value.offset == 0


@for_each("version", [0, 4, 5, 7, 255])
def test_other_versions_are_refused_by_name(version):
    data = header(MapFileWriter())
    with pytest.raises(UnsupportedFormatError, match=f"version {version}; ledgerfs reads version 6") as caught:
        parsed(data[:3] + bytes([version]) + data[4:])
    assert (caught.value.key, caught.value.offset) == ("data", 3)


@for_each(
    ("changes", "says"),
    [
        ({"key_class": "org.apache.hadoop.io.Text"}, r"keys have the class 'org\.apache\.hadoop\.io\.Text'"),
        ({"value_class": LONG}, r"values have the class 'org\.apache\.hadoop\.io\.LongWritable'"),
        ({"value_class": ""}, "values have the class ''"),
        (
            {"codec": "org.apache.hadoop.io.compress.SnappyCodec"},
            r"compressed with '.*SnappyCodec'; ledgerfs reads Def",
        ),
        ({"codec": "com.hadoop.compression.lzo.LzoCodec"}, "LzoCodec"),
    ],
)
def test_other_classes_and_codecs_are_refused_by_name(changes, says):
    data = header(MapFileWriter(), **changes)
    with pytest.raises(UnsupportedFormatError, match=says) as caught:
        parsed(data)
    named = next(iter(changes.values())).encode()
    assert caught.value.offset == data.index(vint(len(named)) + named, 4 if named != LONG.encode() else 30)


def test_index_has_longs():
    data = header(MapFileWriter(), LONG)
    assert parsed(data, role=Role.INDEX).value_class == LONG
    with pytest.raises(UnsupportedFormatError, match="BytesWritable"):
        parsed(header(MapFileWriter()), role=Role.INDEX)
    with pytest.raises(CorruptIndexError, match="truncated"):
        parsed(data[:20], role=Role.INDEX)


@for_each("length", [-1, MAX_HEADER_BYTES + 1, 2**31 - 1, 2**63 - 1, -(2**63)])
def test_lying_lengths_of_texts_are_reported_at_once(length):
    for before in (b"SEQ\x06", b"SEQ\x06" + text(LONG), header(MapFileWriter())[:75]):
        with pytest.raises(CorruptLedgerError, match=f"impossible length of {length} bytes") as caught:
            parse_header(window_of(before + vint(length) + bytes(100) + MORE, 0, len(before) + 10))
        assert caught.value.offset == len(before)


@for_each("pairs", [-1, -(2**31), 2**31 - 1, MAX_HEADER_BYTES])
def test_lying_numbers_of_pairs_are_reported_at_once(pairs):
    data = header(MapFileWriter(RecordCompression.NONE))[: -4 - 16] + struct.pack(">i", pairs) + bytes(1000)
    with pytest.raises(CorruptLedgerError, match=f"impossible number of metadata pairs: {pairs}"):
        parsed(data)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (b"\x02\x00", "has 2, expected 0 or 1"),
        (b"\x01\xff", "has 255, expected 0 or 1"),
        (b"\x00\x01", "blocks without compression"),
    ],
)
def test_impossible_flags_are_reported(flags, says):
    data = header(MapFileWriter())
    at = data.index(b"\x01\x01")
    with pytest.raises(CorruptLedgerError, match=says):
        parsed(data[:at] + flags + data[at + 2 :])


def test_text_that_is_not_utf_8_is_reported():
    data = header(MapFileWriter(metadata=[("a", "ab")]))
    with pytest.raises(CorruptLedgerError, match="UTF-8"):
        parsed(data.replace(b"\x02ab", b"\x02\xff\xff"))
