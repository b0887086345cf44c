"""Gathered columns against slow slices."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptObjectError
from ledgerfs.messages.kernels import gather as module
from ledgerfs.messages.kernels.gather import gather_bytes, gather_properties, gather_text, masked
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, MessageMetadataRecord, Property
from tests.support.each import for_each
from tests.support.entries import metadata

DATA = st.one_of(st.binary(max_size=80), st.text(max_size=40).map(str.encode))
SETTINGS = settings(deadline=None, max_examples=70)


@st.composite
def ranges(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]], list[bool]]:
    data = draw(DATA)
    places = draw(st.lists(st.tuples(st.integers(0, len(data)), st.integers(0, len(data))), max_size=20))
    pairs = [(min(pair), max(pair)) for pair in places]
    return data, pairs, draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))


def arrays_of(data: bytes, pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return np.frombuffer(data or b"\0", np.uint8), table[:, 0], table[:, 1] - table[:, 0]


@SETTINGS
@given(made=ranges())
def test_bytes(made):
    data, pairs, _ = made
    array = gather_bytes(*arrays_of(data, pairs))
    array.validate(full=True)
    assert array.type == pa.binary()
    assert array.to_pylist() == [data[start:end] for start, end in pairs]
    assert array.null_count == 0


@SETTINGS
@given(made=ranges())
def test_bytes_with_nulls_whose_places_mean_nothing(made):
    data, pairs, valid = made
    source, at, size = arrays_of(data, pairs)
    mask = np.array(valid, bool)
    array = gather_bytes(source, np.where(mask, at, -(2**63)), np.where(mask, size, 2**62), mask)
    array.validate(full=True)
    expected = [data[start:end] if good else None for (start, end), good in zip(pairs, valid, strict=True)]
    assert array.to_pylist() == expected
    assert array.null_count == valid.count(False)


@SETTINGS
@given(made=ranges())
def test_text(made):
    data, pairs, valid = made
    array = gather_text(*arrays_of(data, pairs), np.array(valid, bool))
    array.validate(full=True)
    assert array.type == pa.string()
    assert array.to_pylist() == [
        data[start:end].decode("utf-8", "replace") if good else None
        for (start, end), good in zip(pairs, valid, strict=True)
    ]


def test_what_is_not_utf_8_becomes_the_replacement_character_and_its_neighbours_stay():
    pieces = [b"plain", b"\xff", "grün".encode(), b"a\xc3", b"\xed\xa0\x80", b"", b"\xf0\x9f\x98\x80"]
    source = np.frombuffer(b"".join(pieces), np.uint8)
    size = np.array([len(piece) for piece in pieces])
    array = gather_text(source, np.cumsum(size) - size, size)
    assert array.to_pylist() == ["plain", "\ufffd", "grün", "a\ufffd", "\ufffd" * 3, "", "😀"]


def test_texts_that_are_utf_8_only_together_are_judged_one_by_one():
    source = np.frombuffer("ü".encode(), np.uint8)
    array = gather_text(source, np.array([0, 1]), np.array([1, 1]))
    assert array.to_pylist() == ["\ufffd", "\ufffd"]


def test_nothing_at_all():
    none = np.array([], np.int64)
    source = np.frombuffer(b"abc", np.uint8)
    assert gather_bytes(source, none, none).to_pylist() == []
    assert gather_text(source, none, none, np.array([], bool)).to_pylist() == []
    assert gather_properties(source, none, none, none, none).to_pylist() == []


TEXTS = st.one_of(st.text(max_size=6).map(str.encode), st.binary(max_size=4))
PAIRS = st.lists(
    st.builds(lambda fields: Property(**fields), st.fixed_dictionaries({}, optional={"key": TEXTS, "value": TEXTS})),
    max_size=5,
)


@SETTINGS
@given(lists=st.lists(st.tuples(st.booleans(), PAIRS, st.binary(max_size=5)), max_size=8))
def test_properties_of_messages_and_of_batches(lists):
    data, at, end, fields = b"", [], [], []
    for alone, pairs, key in lists:
        record: MessageMetadataRecord | BatchedMetadataRecord = BatchedMetadataRecord(property=pairs, key=key)
        if alone:
            record = metadata(property=pairs, key=key, ordering_key=key, event_time_ms=2**63)
        at.append(len(data))
        data += record.SerializeToString()
        end.append(len(data))
        fields.append(4 if alone else 1)
        data += b"\xff"
    counts = [len(pairs) for _, pairs, _ in lists]
    columns = [np.array(column, np.int64) for column in (at, end, fields, counts)]
    array = gather_properties(np.frombuffer(data or b"\0", np.uint8), *columns)
    array.validate(full=True)
    assert array.null_count == 0
    assert array.to_pylist() == [
        [(pair.key.decode("utf-8", "replace"), pair.value.decode("utf-8", "replace")) for pair in pairs]
        for _, pairs, _ in lists
    ]


def test_properties_that_break_their_bounds_are_cut_short():
    for broken in (b"\x0a\x05abc", b"\x0a", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01abc", b"\xff"):
        head = b"\x22" + bytes([len(broken)]) + broken + metadata().SerializeToString()
        source = np.frombuffer(head + b"secret", np.uint8)
        one = np.array([1], np.int64)
        array = gather_properties(source, one * 0, one * len(head), one * 4, one)
        assert array.to_pylist() == [[("", "")]]


@SETTINGS
@given(values=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.booleans()), max_size=20))
def test_masked_numbers(values):
    numbers, mask = np.array([n for n, _ in values], np.int64), np.array([good for _, good in values], bool)
    array = masked(numbers, mask, pa.int64())
    array.validate(full=True)
    assert array.to_pylist() == [n if good else None for n, good in values]
    twice = np.stack([numbers, numbers], axis=1)
    assert masked(twice[:, 1], mask, pa.int64()) == array  # a column of a table is not contiguous


@for_each("counts", [[2**31], [2**30, 2**30], [2**32 + 1], [2**63 - 1, 2**63 - 1, 2]])
def test_more_properties_than_offsets_can_count_are_an_error(counts):
    numbers = np.array(counts, np.int64)
    with pytest.raises(CorruptObjectError):
        gather_properties(np.zeros(1, np.uint8), numbers * 0, numbers * 0, numbers * 0, numbers)


def test_text_that_grows_beyond_what_offsets_can_count_by_its_replacement_is_an_error(monkeypatch):
    monkeypatch.setattr(module, "_LARGEST_COLUMN", 30)
    source = np.frombuffer(b"\xff" * 11, np.uint8)
    zero, one = np.zeros(1, np.int64), np.ones(1, np.int64)
    assert gather_text(source, zero, 10 * one).to_pylist() == ["\ufffd" * 10]
    with pytest.raises(CorruptObjectError):
        gather_text(source, zero, 11 * one)
