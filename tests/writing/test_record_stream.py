"""Files of records, cut anywhere: the same entries, and for what is no such file the byte where it goes wrong."""

import struct
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import RefusedLedgerError
from ledgerfs.writing.record_stream import RecordStream
from tests.support.each import for_each
from tests.support.ledgers import record

NAME = "entries/public/default/orders/1.entries"
ANY_SIZE = 2**31 - 1

quick = settings(deadline=None, max_examples=80)


def records(entries: Sequence[bytes]) -> bytes:
    return b"".join(record(i, entry) for i, entry in enumerate(entries))


def cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(data) + 1) for place in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def fed(pieces: Sequence[bytes | bytearray | memoryview], largest: int = ANY_SIZE) -> list[bytes]:
    """Return the entries of a whole file, after a check that batches are what a writer expects."""
    stream = RecordStream(NAME, largest)
    entries: list[bytes] = []
    for piece in pieces:
        for batch in stream.feed(piece):
            assert batch.first_entry == len(entries)
            assert len(batch)
            start, end = int(batch.offsets[0]) - 12, int(batch.offsets[-1] + batch.lengths[-1])
            found = [bytes(entry) for _, entry in batch]
            expected = b"".join(record(len(entries) + i, entry) for i, entry in enumerate(found))
            assert bytes(batch.buffer[start:end]) == expected
            entries += found
    stream.finish()
    return entries


def refused(pieces: Sequence[bytes], largest: int = ANY_SIZE) -> RefusedLedgerError:
    with pytest.raises(RefusedLedgerError) as caught:
        fed(pieces, largest)
    assert caught.value.key == NAME
    assert caught.value.errno == 22
    return caught.value


@quick
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=30), st.lists(st.integers(0, 2000), max_size=12))
def test_any_cuts_give_the_same_entries(entries: list[bytes], cuts: list[int]) -> None:
    assert fed(cut(records(entries), cuts)) == entries


def test_anything_with_bytes_is_taken() -> None:
    data = records([b"abc", b"", b"def"])
    for one in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8), memoryview(data[:40]).cast("i")):
        assert fed([one, data[len(bytes(one)) :]]) == [b"abc", b"", b"def"]


def test_entries_larger_than_a_piece_and_many_small_ones() -> None:
    large = [b"x" * (9 << 20), b"", b"y" * (8 << 20), b"z"]
    assert fed([records(large)]) == large
    assert fed(cut(records(large), [5, 9 << 20, (9 << 20) + 13, (9 << 20) + 30, (17 << 20) + 1])) == large
    assert len(fed([records([b"e"] * 700_000)])) == 700_000


WHOLE = records([b"a" * 10, b"", b"b" * 20])
"""Records at bytes 0, 22, 34; 66 bytes."""


@for_each(
    ("data", "offset", "says"),
    [
        (b"", 0, "the ledger has no entries"),
        (record(1, b"a"), 0, "found entry 1, expected entry 0"),
        (record(-1, b"a"), 0, "found entry -1, expected entry 0"),
        (WHOLE + record(4, b"c"), 66, "found entry 4, expected entry 3"),
        (WHOLE + record(2, b"c"), 66, "found entry 2, expected entry 3"),
        (WHOLE + WHOLE, 66, "found entry 0, expected entry 3"),
        (WHOLE + struct.pack(">iq", -1, 3), 66, "entry 3 has the impossible length -1"),
        (WHOLE + struct.pack(">iq", -(2**31), 3) + b"xyz", 66, "has the impossible length -2147483648"),
        (bytes.fromhex("fedcdead") * 5, 0, "has the impossible length"),
        (WHOLE + b"\0", 66, "ends within entry 3: only 1 bytes"),
        (WHOLE + record(3, b"abc")[:-1], 66, "ends within entry 3: only 14 bytes"),
        (WHOLE[:-1], 34, "ends within entry 2: only 31 bytes"),
        (WHOLE[:11], 0, "ends within entry 0: only 11 bytes"),
        (WHOLE[:12], 0, "ends within entry 0: only 12 bytes"),
        (WHOLE + record(3, b"c" * 51), 66, "entry 3 has 51 bytes, but an entry in a block has at most 50"),
        (record(0, b"c" * 51) + WHOLE, 0, "entry 0 has 51 bytes"),
        (WHOLE + record(3, b"c" * 51) + record(4, b""), 66, "entry 3 has 51 bytes"),
        (WHOLE + struct.pack(">iq", 2**31 - 1, 3), 66, "entry 3 has 2147483647 bytes"),
    ],
)
def test_what_is_no_file_of_records_is_refused_by_byte(data: bytes, offset: int, says: str) -> None:
    for pieces in (
        [data],
        [data[i : i + 1] for i in range(len(data))],
        cut(data, [3, 25, 40]),
        cut(data, [12, 22, 66]),
    ):
        error = refused(pieces, largest=50)
        assert says in error.reason
        assert error.offset == offset


@for_each("cuts", [[], [3], [12], [50], [4, 12, 13]])
def test_a_length_that_lies_takes_no_memory(cuts: list[int]) -> None:
    data = struct.pack(">iq", 2**31 - 1, 0) + b"x" * 88
    refused([data])  # so that nothing is imported or compiled below
    tracemalloc.start()
    try:
        error = refused(cut(data, cuts))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "ends within entry 0: only 100 bytes" in error.reason
    assert peak < 1 << 20


def test_no_more_than_one_record_is_held() -> None:
    data = record(0, b"x" * (20 << 20)) + record(1, b"y")
    stream = RecordStream(NAME, ANY_SIZE)
    list(stream.feed(data[:100]))
    tracemalloc.start()
    try:
        for start in range(100, len(data), 1 << 20):
            list(stream.feed(data[start : start + (1 << 20)]))
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Growing in place may copy, and scanning a piece allocates for the records that it could hold.
    assert peak < 50 << 20
    assert held < 1 << 20
    stream.finish()
