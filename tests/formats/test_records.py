import struct

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.formats.records import ScanStop, scan_records
from tests.support.each import for_each
from tests.support.ledgers import record

ENTRIES = [b"zero", b"", b"two two", b"3" * 40]

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


def test_bytes_behind_the_buffer_are_not_looked_at():
    data = records(ENTRIES, first=3)
    for low in range(0, len(data), 7):
        for high in range(low, len(data) + 1):
            window = memoryview(data)[low:high]
            assert scanned(window, 0, 3, 4) == slow_scan(data[low:high], 0, 3, 4)


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
