import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.pulsar_blob.block import BlockHeader, build_block_header, build_padding
from ledgerfs.formats.records import ScanStop, scan_records
from tests.support.each import for_each
from tests.support.ledgers import record

ENTRIES = [b"zero", b"", b"two two", b"3" * 40]
MIN_INT64 = -(2**63)

quick = settings(deadline=None, max_examples=120)
entry_lists = st.lists(st.binary(max_size=20), max_size=10)


def records(entries, first=0):
    return b"".join(record(first + i, entry) for i, entry in enumerate(entries))


def slow_scan(data, start, first_entry, count):
    """Return what a scan should find, from slices that cannot leave ``data``."""
    at, found = start, []
    while len(found) < count:
        header = data[at : at + 12]
        if len(header) < 12:
            return found, at, ScanStop.MORE_BYTES, None
        length, entry_id = struct.unpack(">iq", header)
        if length < 0:
            return found, at, ScanStop.NEGATIVE_LENGTH, length
        if entry_id != first_entry + len(found):
            return found, at, ScanStop.WRONG_ID, entry_id
        entry = data[at + 12 : at + 12 + length]
        if len(entry) < length:
            return found, at, ScanStop.MORE_BYTES, length
        found.append((entry_id, entry))
        at += 12 + length
    return found, at, ScanStop.COMPLETE, None


def scanned(buffer, start, first_entry, count):
    scan = scan_records(memoryview(buffer), start, first_entry, count)
    return [(i, bytes(entry)) for i, entry in scan.batch], scan.position, scan.stop, scan.found


def assert_like_slow_scan(data, start, first_entry, count):
    expected = slow_scan(data, start, first_entry, count)
    assert scanned(data, start, first_entry, count) == expected
    assert scanned(bytearray(data), start, first_entry, count) == expected


def test_all_records_are_found_with_ids_and_bytes():
    data = records(ENTRIES, first=7)
    scan = scan_records(memoryview(data), 0, 7, 4)
    assert [(i, bytes(entry)) for i, entry in scan.batch] == list(enumerate(ENTRIES, 7))
    assert (scan.position, scan.stop, scan.found) == (len(data), ScanStop.COMPLETE, None)
    assert (scan.batch.first_entry, len(scan.batch)) == (7, 4)
    assert scan.batch.offsets.tolist() == [12, 28, 40, 59]
    assert scan.batch.lengths.tolist() == [4, 0, 7, 40]
    assert scan.batch.offsets.dtype == scan.batch.lengths.dtype == np.int64


@for_each("count", range(5))
def test_no_more_records_are_found_than_asked_for(count):
    data = records(ENTRIES)
    found, position, stop, value = scanned(data, 0, 0, count)
    assert found == list(enumerate(ENTRIES))[:count]
    assert (position, stop, value) == (len(records(ENTRIES[:count])), ScanStop.COMPLETE, None)


def test_asking_for_more_than_there_are_wants_more_bytes():
    data = records(ENTRIES)
    found, position, stop, value = scanned(data, 0, 0, 2**62)
    assert (len(found), position, stop, value) == (4, len(data), ScanStop.MORE_BYTES, None)


def test_scan_begins_at_start():
    skipped = len(records(ENTRIES[:2]))
    assert scanned(records(ENTRIES), skipped, 2, 2)[0] == [(2, ENTRIES[2]), (3, ENTRIES[3])]
    assert scanned(b"garbage" + records(ENTRIES), 7, 0, 4)[0] == list(enumerate(ENTRIES))


@pytest.mark.parametrize("beyond", [0, 1, 1000])
def test_start_at_or_behind_the_end_finds_nothing(beyond):
    data = records(ENTRIES)
    start = len(data) + beyond
    assert scanned(data, start, 0, 4) == ([], start, ScanStop.MORE_BYTES, None)


def test_empty_buffer_finds_nothing():
    assert scanned(b"", 0, 0, 4) == ([], 0, ScanStop.MORE_BYTES, None)
    assert scanned(b"", 0, 0, 0) == ([], 0, ScanStop.COMPLETE, None)


def test_buffer_cut_anywhere_gives_the_complete_records_and_the_claim_of_the_next():
    data = records(ENTRIES)
    for size in range(len(data)):
        found, position, stop, value = scanned(data[:size], 0, 0, 4)
        assert found == [pair for pair in enumerate(ENTRIES) if len(records(ENTRIES[: pair[0] + 1])) <= size]
        assert position == len(records(ENTRIES[: len(found)]))
        assert stop == ScanStop.MORE_BYTES
        assert value == (len(ENTRIES[len(found)]) if size - position >= 12 else None)


def test_bytes_behind_the_buffer_are_not_looked_at():
    data = records(ENTRIES, first=3)
    for low in range(0, len(data), 7):
        for high in range(low, len(data) + 1):
            window = memoryview(data)[low:high]
            assert scanned(window, 0, 3, 4) == slow_scan(data[low:high], 0, 3, 4)


@pytest.mark.parametrize("length", [-1, -2, -(2**31)])
def test_negative_length_stops_the_scan(length):
    data = records(ENTRIES[:2]) + struct.pack(">iq", length, 2) + bytes(50)
    assert scanned(data, 0, 0, 9)[1:] == (28, ScanStop.NEGATIVE_LENGTH, length)


@for_each("tail", [build_padding(12), build_padding(1), build_padding(3), b""])
def test_padding_and_block_headers_stop_the_scan_as_negative_lengths(tail):
    data = records(ENTRIES) + tail + build_block_header(BlockHeader(128, 128, 4))
    found, position, stop, value = scanned(data, 0, 0, 9)
    assert (len(found), position, stop) == (4, len(records(ENTRIES)), ScanStop.NEGATIVE_LENGTH)
    assert value == struct.unpack_from(">i", data, position)[0]


@for_each("wrong", [0, 1, 3, -1, 2 + 2**32, 2**63 - 1, MIN_INT64 + 1])
def test_wrong_id_stops_the_scan(wrong):
    data = records(ENTRIES[:2]) + record(wrong, b"entry")
    assert scanned(data, 0, 0, 9)[1:] == (28, ScanStop.WRONG_ID, wrong)


def test_smallest_wrong_id_is_told_too():
    data = records(ENTRIES[:2]) + record(MIN_INT64, b"entry")
    assert scanned(data, 0, 0, 9)[1:] == (28, ScanStop.WRONG_ID, MIN_INT64)


@pytest.mark.parametrize("length", [6, 2**24, 2**31 - 1])
def test_length_beyond_the_buffer_wants_more_bytes(length):
    data = records(ENTRIES[:2]) + struct.pack(">iq", length, 2) + b"5bytes"[:5]
    assert scanned(data, 0, 0, 9)[1:] == (28, ScanStop.MORE_BYTES, length)


@for_each("first", [0, 1, 2**31, 2**32, 2**40, 2**60])
def test_ids_are_64_bit(first):
    assert scanned(records(ENTRIES, first), 0, first, 4)[0] == list(enumerate(ENTRIES, first))


@for_each(("first", "last"), [(7, 10), (7, 7), (8, 9), (10, 10), (8, 7)])
def test_slice_keeps_entries_from_first_to_last(first, last):
    batch = scan_records(memoryview(records(ENTRIES, first=7)), 0, 7, 4).batch
    part = batch.slice(first, last)
    assert [(i, bytes(entry)) for i, entry in part] == list(enumerate(ENTRIES, 7))[first - 7 : last - 6]
    assert (part.first_entry, len(part)) == (first, last - first + 1)
    assert part.buffer is batch.buffer


def test_iteration_copies_nothing():
    data = bytearray(records([b"entry"]))
    [(_, entry)] = scan_records(memoryview(data), 0, 0, 1).batch
    data[12] = ord("E")
    assert bytes(entry) == b"Entry"


@quick
@given(entry_lists, st.integers(0, 2**60), st.binary(max_size=11))
def test_any_entries_round_trip(entries, first, before):
    data = before + records(entries, first)
    found, position, stop, value = scanned(data, len(before), first, len(entries))
    assert found == list(enumerate(entries, first))
    assert (position, stop, value) == (len(data), ScanStop.COMPLETE, None)


@quick
@given(
    entry_lists,
    st.lists(st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=4)), max_size=3),
    st.integers(0, 3),
    st.integers(0, 30),
    st.integers(0, 12),
)
def test_damaged_records_are_scanned_like_the_slow_reference(entries, patches, first, start, count):
    data = bytearray(records(entries, first))
    for at, patch in patches:
        data[at : at + len(patch)] = patch
    assert_like_slow_scan(bytes(data), 0, first, count)
    assert_like_slow_scan(bytes(data), start, first, count)


@quick
@given(st.lists(st.sampled_from([b"\0", b"\0\0\0\0", b"\0\0\0\x01", b"\xff", b"x", b"\0" * 12]), max_size=30))
def test_arbitrary_bytes_are_scanned_like_the_slow_reference(pieces):
    assert_like_slow_scan(b"".join(pieces), 0, 0, 100)
