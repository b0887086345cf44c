"""Journals: a part of a real one, and ones that are cut, padded, flipped, or full of what is no record."""

import struct
from functools import partial
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledgerfs_cluster.errors import CorruptLogError
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.entry_log_header import parse_journal_header
from ledgerfs_cluster.formats.bookkeeper.log_records import LogRecords, scan_records
from ledgerfs_cluster.formats.bookkeeper.stored_entries import check_entries
from tests.cluster.support.log_windows import LEAST_BYTES, MOST_BYTES, at_once, in_windows, logs, record
from tests.support.each import for_each

REAL = (Path(__file__).parent.parent.parent / "data" / "journal" / "1a2180a842f.txn").read_bytes()
scan_journal = partial(scan_records, is_journal=True)
_KEY, _FENCE, _FORCE, _CONFIRMED = -0x1000, -0x2000, -0x4000, -0x8000


def special(entry_id: int, content: bytes | None = None) -> bytes:
    body = struct.pack(">qq", 5, entry_id) + (b"" if content is None else len(content).to_bytes(4, "big") + content)
    return len(body).to_bytes(4, "big") + body


def padding(size: int) -> bytes:
    return struct.pack(">ii", -0x100, size) + bytes(size)


def to_512(data: bytes) -> bytes:
    """Return a journal padded as its writer does it, by eight bytes at least."""
    return data + padding((-len(data) - 8) % 512) if len(data) % 512 else data


def scanned(data: bytes, start: int = 0) -> LogRecords:
    return scan_journal(np.frombuffer(data, np.uint8), start)


def ids(found: LogRecords) -> list[tuple[int, int]]:
    return list(zip(found.ledger_ids.tolist(), found.entry_ids.tolist(), strict=True))


def sound_entries(data: bytes, found: LogRecords) -> dict[tuple[int, int], bytes]:
    """Return {(ledger, entry): bytes} of those whose digest is right."""
    sound = {}
    for row, one in enumerate(ids(found)):
        at, size = int(found.starts[row]), int(found.sizes[row])
        part = slice(row, row + 1)
        checked = check_entries(
            memoryview(data), found.starts[part], found.sizes[part], one[0], found.entry_ids[part], Digest()
        )
        if checked.are_sound:
            sound[one] = data[at : at + size]
    return sound


def test_all_bytes_of_a_real_journal_are_records_or_padding() -> None:
    assert parse_journal_header(memoryview(REAL), key="k") == 512
    found = scanned(REAL, 512)
    assert (found.is_whole, found.end, found.filled_to) == (True, len(REAL), len(REAL))
    expected = [(38600, 16), (38600, 17), (38600, 19), (38595, 51), (38595, 52), (38595, 54), (38312, 513)]
    expected += [(38297, 148), (38231, 152), (38605, 0), (38598, 40), (38598, 41)]
    assert ids(found) == expected
    assert found.sizes.tolist() == [599, 599, 599, 599, 599, 599, 42, 61, 61, 599, 599, 599]
    assert list(sound_entries(REAL, found)) == expected


def test_a_real_journal_of_which_some_is_not_written_yet() -> None:
    found = scanned(REAL + bytes(100_000), 512)
    assert (len(found.starts), found.is_whole, found.end, found.filled_to) == (12, True, len(REAL), len(REAL))
    behind = record(1, 0, b"x")
    again = scanned(REAL + bytes(100_000) + behind, 512)
    assert (len(again.starts), again.is_whole, ids(again)[-1]) == (13, True, (1, 0))
    lost = scanned(REAL + bytes(100_000) + b"\x7f" * 30 + behind, 512)
    assert (lost.gaps.tolist(), ids(lost)[-1]) == ([[len(REAL) + 100_000, len(REAL) + 100_030]], (1, 0))


@given(st.integers(0, len(REAL)))
def test_a_real_journal_that_ends_early_has_all_that_is_whole(size: int) -> None:
    whole = scanned(REAL, 512)
    found = scanned(REAL[:size], 512)
    kept = int((whole.starts + whole.sizes <= size).sum())
    # What is left of the last one may have bytes that look like an entry, but for the digest.
    assert ids(found)[:kept] == ids(whole)[:kept]
    assert list(sound_entries(REAL[:size], found)) == ids(whole)[:kept]
    assert len(found.gaps) <= 1 + len(found.starts) - kept
    # The rest is found from its gap on, or from where it is filled to.
    at = int(found.gaps[0, 0]) if found.gaps.size else found.filled_to
    assert ids(scanned(REAL, at)) == ids(whole)[kept:]


@given(st.integers(512, len(REAL) - 1), st.integers(1, 255))
def test_whatever_byte_of_a_real_journal_is_flipped_entries_are_right_or_said(at: int, bits: int) -> None:
    flipped = bytearray(REAL)
    flipped[at] ^= bits
    whole = scanned(REAL, 512)
    found = scanned(bytes(flipped), 512)
    right, sound = sound_entries(REAL, whole), sound_entries(bytes(flipped), found)
    assert sound.items() <= right.items()
    lost = right.keys() - sound.keys()
    hit = [
        one
        for one, start, size in zip(ids(whole), whole.starts, whole.sizes, strict=True)
        if start <= at < start + size
    ]
    # A size that is wrong is found by the digest. That of a special record, or of padding, may hide what is behind it.
    assert lost >= {*hit}
    assert hit or len(lost) <= 1
    # What is lost is told: by an entry that is wrong, or a gap.
    assert len(found.starts) > len(sound) or found.gaps.size or not lost


@for_each(
    "one",
    [
        special(_KEY, bytes(20)),
        special(_KEY, b""),
        special(_FENCE),
        special(_FORCE),
        special(_CONFIRMED, bytes(36)),
        padding(0),
        padding(500),
        bytes(4),
    ],
)
def test_what_is_no_entry_is_passed_over(one: bytes) -> None:
    found = scanned(one + record(1, 0, b"a") + one + one + record(1, 1, b"b") + one)
    assert (ids(found), found.is_whole) == ([(1, 0), (1, 1)], True)


@for_each(
    "one",
    [
        special(-0x3000),
        special(_FENCE, b"more"),
        special(_KEY),
        special(_KEY, bytes(20))[:20] + struct.pack(">i", 2**31 - 1) + bytes(20),
        special(_KEY, bytes(20))[:20] + struct.pack(">i", -1) + bytes(20),
        struct.pack(">ii", -0x100, -1),
        struct.pack(">ii", -0x100, 2**31 - 1),
        struct.pack(">ii", -0x100, 2000) + bytes(1000) + b"\x7f",
        struct.pack(">i", -1) + bytes(40),
        # What logs have, and journals do not.
        struct.pack(">iqq", 16, -1, 0),
        b"\xf0" * 4096,
    ],
)
def test_what_lies_about_itself_is_a_gap_that_hides_nothing(one: bytes) -> None:
    found = scanned(one + record(1, 0, b"a") + record(1, 1, b"b"))
    assert (ids(found), found.gaps.tolist()) == ([(1, 0), (1, 1)], [[0, len(one)]])


special_records = st.one_of(
    st.sampled_from([special(_KEY, bytes(20)), special(_FENCE), special(_CONFIRMED, bytes(36)), special(-0x3000)]),
    st.integers(0, MOST_BYTES).map(padding),
    st.integers(1, 600).map(lambda size: struct.pack(">ii", -0x100, size) + bytes(size - 1) + b"\x7f"),
)


def to_200(data: bytes) -> bytes:
    return data + padding((-len(data) - 8) % MOST_BYTES)


@given(logs(special_records, to_200), st.lists(st.integers(1, 3 * LEAST_BYTES), min_size=1, max_size=5))
@example(record(1, 0, b"a") + bytes(3 * LEAST_BYTES) + record(1, 1, b"b"), [LEAST_BYTES])
@example(record(1, 0, b"a") + bytes(5000) + record(1, 1, b"b"), [len(record(1, 0, b"a")) + 5002])
@example(b"\x7f" * 4200 + record(1, 0, b"a") + b"\x7f" * 9000, [4200])
def test_windows_find_what_one_scan_finds(data: bytes, sizes: list[int]) -> None:
    assert in_windows(scan_journal, data, cycle(sizes)) == at_once(scan_journal, data)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99), st.binary(max_size=600), st.booleans()), max_size=20))
def test_journals_are_read_as_they_are_written(many: list[tuple[int, int, bytes, bool]]) -> None:
    data = b""
    for ledger_id, entry_id, payload, is_flushed in many:
        data += special(_KEY, bytes(20)) + record(ledger_id, entry_id, payload)
        data = to_512(data) if is_flushed else data
    found = scanned(data + bytes(1000))
    assert (ids(found), found.is_whole, found.filled_to) == ([one[:2] for one in many], True, len(data))


@for_each(("version", "first"), [(2, 8), (3, 8), (4, 8), (5, 512), (6, 512)])
def test_a_header_reports_where_records_begin(version: int, first: int) -> None:
    assert parse_journal_header(memoryview(b"BKLG" + struct.pack(">i", version)), key="k") == first


@for_each(
    ("data", "reason", "offset"),
    [
        (b"", "less than the header", 0),
        (b"BKLG\0\0\0", "less than the header", 0),
        (bytes(512), "begins with", 0),
        (b"BKLO\0\0\0\1", "begins with", 0),
        (b"BKLG\0\0\0\7", "version 7", 4),
        (b"BKLG\0\0\0\1", "version 1", 4),
        (b"BKLG\xff\xff\xff\xff", "version -1", 4),
    ],
)
def test_a_header_that_lies_is_an_error(data: bytes, reason: str, offset: int) -> None:
    with pytest.raises(CorruptLogError, match=reason) as raised:
        parse_journal_header(memoryview(data), key="k")
    assert (raised.value.key, raised.value.offset) == ("k", offset)
