"""Entry logs: those of real bookies, and ones that are cut, padded, flipped, or full of what is no record."""

import lzma
import tarfile
from collections.abc import Iterator
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledgerfs.formats.array_types import Bytes
from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs_cluster.errors import CorruptLogError
from ledgerfs_cluster.formats.bookkeeper.digests import Digest
from ledgerfs_cluster.formats.bookkeeper.entry_log_header import (
    LOG_HEADER_BYTES,
    EntryLogHeader,
    LedgersMap,
    parse_ledgers_map,
    parse_log_header,
)
from ledgerfs_cluster.formats.bookkeeper.log_records import (
    MOST_ENTRY_BYTES,
    LogRecords,
    least_window_bytes,
    scan_records,
)
from ledgerfs_cluster.formats.bookkeeper.stored_entries import Fault, check_entries
from tests.cluster.support.encoders import build_ledgers_map, build_log_header
from tests.cluster.support.log_windows import LEAST_BYTES, MOST_BYTES, at_once, in_windows, logs, record
from tests.support.each import for_each

GOLDEN = Path(__file__).parent.parent.parent / "data" / "golden" / "bookie-dbledger.tar.xz"
_CRC32C = Digest()
_FILLER = (3068).to_bytes(4, "big") + (-1).to_bytes(8, "big", signed=True) + bytes(3060)


def golden_logs() -> Iterator[tuple[str, Bytes]]:
    with lzma.open(GOLDEN) as packed, tarfile.open(fileobj=packed) as tar:
        for member in tar:
            if member.name.endswith(".log") and "/current/ledgers" not in member.name.replace("ledgers/current/", ""):
                file = tar.extractfile(member)
                assert file is not None
                yield member.name, np.frombuffer(file.read(), np.uint8)


def scanned(data: bytes, start: int = 0) -> LogRecords:
    return scan_records(np.frombuffer(data, np.uint8), start)


def sound(data: bytes, digest: Digest = _CRC32C) -> dict[tuple[int, int], bytes]:
    """Return {(ledger, entry): stored entry} of what is found in a log and has a digest that fits."""
    found = scanned(data)
    entries: dict[tuple[int, int], bytes] = {}
    for ledger_id in np.unique(found.ledger_ids).tolist():
        rows = np.flatnonzero(found.ledger_ids == ledger_id)
        starts, sizes, entry_ids = found.starts[rows], found.sizes[rows], found.entry_ids[rows]
        checked = check_entries(memoryview(data), starts, sizes, ledger_id, entry_ids, digest)
        for row in np.flatnonzero(checked.wrong == Fault.NONE).tolist():
            entries[ledger_id, int(entry_ids[row])] = data[int(starts[row]) : int(starts[row] + sizes[row])]
    return entries


def ids(found: LogRecords) -> list[tuple[int, int]]:
    return list(zip(found.ledger_ids.tolist(), found.entry_ids.tolist(), strict=True))


def test_all_bytes_of_a_real_log_are_entries_whose_digests_are_right() -> None:
    logs = {Path(name).name: data for name, data in golden_logs() if name.count("/") == 3}
    assert {name: data.size for name, data in logs.items()} == {"0.log": 1_844_932, "1.log": 0}
    data = logs["0.log"]
    assert parse_log_header(memoryview(data), key="0.log") == EntryLogHeader(1, 0, 0)
    found = scan_records(data, LOG_HEADER_BYTES)
    assert (len(found.starts), found.is_whole, found.end) == (2716, True, data.size)
    assert int(found.sizes.sum()) + 4 * 2716 + LOG_HEADER_BYTES == data.size
    for ledger_id in np.unique(found.ledger_ids).tolist():
        rows = found.ledger_ids == ledger_id
        checked = check_entries(
            memoryview(data), found.starts[rows], found.sizes[rows], ledger_id, found.entry_ids[rows], Digest()
        )
        assert checked.are_sound


# Ids that are no sizes of entries: those are taken for such where what they belong to is damaged, and what follows allows it.
entries = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 31), st.binary(max_size=60)), max_size=12)
padding = st.sampled_from([b"", bytes(3), bytes(7), bytes(64)])


@given(entries, st.lists(padding, min_size=13, max_size=13))
def test_records_are_found_whatever_zeros_are_between_them(
    many: list[tuple[int, int, bytes]], zeros: list[bytes]
) -> None:
    parts = [record(*one) + zeros[row] for row, one in enumerate(many)]
    found = scanned(zeros[-1] + b"".join(parts))
    assert ids(found) == [one[:2] for one in many]
    assert found.is_whole


def test_what_the_direct_writer_leaves_is_no_damage() -> None:
    header = build_log_header(EntryLogHeader(1, 0, 0)) + _FILLER
    first = header + record(1, 0, b"a" * 100)
    padded = first.ljust(8192, b"\xf0") + record(1, 1, b"b")
    found = scanned(padded.ljust(16384, b"\0"), LOG_HEADER_BYTES)
    assert (len(header), ids(found), found.is_whole) == (4096, [(1, 0), (1, 1)], True)
    # A stretch of 0xF0 that ends before a multiple of 4096 is none of its.
    found = scanned(first + b"\xf0" * 10 + record(1, 1, b"b") + record(1, 2, b"c"), LOG_HEADER_BYTES)
    assert (ids(found), found.gaps.tolist()) == ([(1, 0), (1, 1), (1, 2)], [[len(first), len(first) + 10]])


@given(entries.filter(len), st.data())
def test_a_log_that_ends_early_has_all_that_is_whole(many: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    parts = [record(*one) for one in many]
    whole = b"".join(parts)
    size = data.draw(st.integers(0, len(whole) - 1))
    found = scanned(whole[:size])
    ends = np.cumsum([len(one) for one in parts])
    kept = int((ends <= size).sum())
    assert ids(found) == [one[:2] for one in many[:kept]]
    last = int(ends[kept - 1]) if kept else 0
    # Zeros at its end may be padding as well.
    assert not found.gaps.size or found.gaps[-1].tolist() == [last, size]
    assert found.gaps.size or not any(whole[last:size])
    # It is gone on with when the rest is there: from its last gap, or its end.
    at = last if found.gaps.size else found.end
    assert ids(scanned(whole, min(at, last))) == [one[:2] for one in many[kept:]]


@given(entries.filter(lambda many: len(many) > 3), st.data())
def test_whatever_byte_is_flipped_entries_are_right_or_said(
    many: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    parts = [record(*one) for one in many]
    flipped = bytearray(b"".join(parts))
    at = data.draw(st.integers(0, len(flipped) - 1))
    flipped[at] ^= data.draw(st.integers(1, 255))
    buffer = bytes(flipped)
    found = scanned(buffer)
    sound = set()
    for row, ledger_id in enumerate(found.ledger_ids.tolist()):
        one = slice(row, row + 1)
        checked = check_entries(
            memoryview(buffer), found.starts[one], found.sizes[one], ledger_id, found.entry_ids[one], Digest()
        )
        if checked.are_sound:
            sound.add(int(found.starts[row]) - 4)
    places = np.cumsum([0, *map(len, parts)]).tolist()
    lost = [row for row in range(len(many)) if places[row] not in sound]
    hit = next(row for row in range(len(many)) if places[row] <= at < places[row + 1])
    is_size = at < places[hit] + 4
    # A size that is wrong is found by the digest, and told.
    assert lost == ([] if is_size else [hit])
    assert not is_size or [places[hit], places[hit] + 4] in found.gaps.tolist()


def test_garbage_is_named_with_its_place_and_searched_over() -> None:
    before, behind = record(1, 0, b"a"), record(1, 1, b"b") + record(2, 0, b"c")
    garbage = bytes(range(1, 200))
    found = scanned(before + garbage + behind)
    assert ids(found) == [(1, 0), (1, 1), (2, 0)]
    assert found.gaps.tolist() == [[len(before), len(before) + len(garbage)]]


SIZES_THAT_LIE = [0, 15, 33, 36, 60, 5000, 5_000_000, -1, 2**31 - 1, 6_000_000]


@for_each("kind", [DigestType.CRC32C, DigestType.CRC32])
def test_a_size_that_lies_hides_nothing(kind: DigestType) -> None:
    parts = [record(3, number, b"%d" % number * (number + 1), Digest(kind)) for number in range(300)]
    places = np.cumsum([0, *map(len, parts)]).tolist()
    expected = {(3, number): parts[number][4:] for number in range(300)}
    for hit, size in product([{0}, {7}, {7, 8}, {3, 5, 299}, {299}], SIZES_THAT_LIE):
        lying = size.to_bytes(4, "big", signed=True)
        data = b"".join(lying + one[4:] if row in hit else one for row, one in enumerate(parts))
        assert sound(data, Digest(kind)) == expected, (hit, size)
        # Each size is told as no record.
        gaps = [[places[row], places[row] + 4] for row in sorted(hit)]
        assert scanned(data).gaps.tolist() == gaps, (hit, size)


def test_a_size_that_lies_of_an_entry_that_holds_entries_finds_none_of_these() -> None:
    inner = b"".join(record(9, number, b"inner") for number in range(50))
    for before, behind in ((b"", b""), (b"x", b"y"), (b"", b"y")):
        payload = before + inner + behind
        data = record(3, 0, b"a") + b"\x7f" * 4 + record(3, 1, payload)[4:] + record(3, 2, b"c")
        found = scanned(data)
        assert ids(found) == [(3, 0), (3, 1), (3, 2)]
        assert sound(data)[3, 1].endswith(payload)


def test_a_length_that_no_digest_reports_stays_unknown() -> None:
    hmac = Digest(DigestType.HMAC, b"secret")
    parts = [record(3, number, b"x" * 50, hmac) for number in range(20)]
    parts[4] = (5000).to_bytes(4, "big") + parts[4][4:]
    found = scanned(b"".join(parts))
    # It hides what is behind it, up to where it would end; the log then ends in the middle of a record, and all else is found.
    assert ids(found) == [(3, number) for number in range(20) if number != 4]
    assert found.gaps.tolist() == [[4 * len(parts[0]), 5 * len(parts[0])]]


def test_garbage_all_over_is_gone_through_in_a_bearable_time() -> None:
    """Nothing that a file can hold has its digests asked again and again, which takes tens of ms each time for what seems to be large.

    What earlier windows have asked counts, too.
    """
    seeming = np.frombuffer((bytes(64) + b"\x01\x01" + bytes(62)) * 8000, np.uint8)
    before = 200 << 20
    found = scan_records(seeming, 0, asked=before)
    assert 256 << 20 <= found.asked < (256 << 20) + 24 * MOST_ENTRY_BYTES
    assert scan_records(seeming[:10_000], 0).asked < before


def test_many_small_gaps_and_more_records_than_at_first_expected() -> None:
    # Each gap has the digests of what is behind it asked, so that they are near the end.
    part = b"".join(record(1, number, b"") for number in range(50))
    found = scanned(part * 1330 + (part + b"\x7f" * 5) * 70 + part)
    assert (len(found.starts), len(found.gaps)) == (70_050, 70)
    assert int((found.gaps[:, 1] - found.gaps[:, 0]).sum()) == 350


def to_4096(data: bytes) -> bytes:
    return data + b"\xf0" * (-len(data) % 4096)


special_records = st.sampled_from(
    [_FILLER[:100], b"\0\0\0\x10" + b"\xff" * 16, b"\0\0\0\x14" + b"\xff" * 8 + bytes(12)]
)


@given(logs(special_records, to_4096), st.lists(st.integers(1, 3 * LEAST_BYTES), min_size=1, max_size=5))
@example(record(1, 0, b"a") + bytes(3 * LEAST_BYTES) + record(1, 1, b"b"), [LEAST_BYTES])
@example(to_4096(record(1, 0, b"a")) + record(1, 1, b"b"), [4000, 70, 1])
@example(record(1, 0, b"a") + bytes(5000) + record(1, 1, b"b"), [len(record(1, 0, b"a")) + 5002])
@example(b"\x7f" * 4200 + record(1, 0, b"a") + b"\x7f" * 9000, [4200])
def test_windows_find_what_one_scan_finds(data: bytes, sizes: list[int]) -> None:
    assert in_windows(scan_records, data, cycle(sizes)) == at_once(scan_records, data)


@for_each("kind", ["entries", "garbage", "zeros", "0xF0", "sizes"])
@for_each("start", [0, 4095])
def test_a_window_of_the_least_size_is_always_gone_on_in(kind: str, start: int) -> None:
    data = {
        "entries": b"x" * start + record(1, 0, bytes(MOST_BYTES - 36)) * 99,
        "garbage": b"\x7f" * 20000,
        "zeros": bytes(20000),
        "0xF0": b"\xf0" * 20000,
        "sizes": (MOST_BYTES.to_bytes(4, "big") + bytes(16)) * 1000,
    }[kind]
    window = np.frombuffer(data[:LEAST_BYTES], np.uint8)
    assert scan_records(window, start, MOST_BYTES, is_end=False).end > start
    assert least_window_bytes(MOST_BYTES) == LEAST_BYTES


def test_a_log_that_was_made_longer_is_gone_on_with_where_its_zeros_begin() -> None:
    one, two = record(1, 0, b"a"), record(1, 1, b"b")
    found = scanned(one + bytes(10000))
    assert (ids(found), found.is_whole, found.filled_to) == ([(1, 0)], True, len(one))
    assert ids(scanned(one + two + bytes(9000), found.filled_to)) == [(1, 1)]


@given(st.dictionaries(st.integers(0, 2**62), st.integers(0, 2**40), max_size=30), st.integers(1, 7))
def test_a_ledgers_map_of_several_parts(sizes: dict[int, int], most: int) -> None:
    made = LedgersMap(np.array([*sizes], np.int64), np.array([*sizes.values()], np.int64))
    data = build_ledgers_map(made, most)
    header = EntryLogHeader(1, 5000, len(sizes))
    parsed = parse_ledgers_map(memoryview(data + b"behind"), header, key="k")
    assert dict(zip(parsed.ledger_ids.tolist(), parsed.sizes.tolist(), strict=True)) == sizes
    assert parsed.ledger_ids.tolist() == sorted(sizes)
    # Records of a map are no entries.
    assert not scanned(data).starts.size
    for cut in range(1, len(data), 7):
        with pytest.raises(CorruptLogError) as raised:
            parse_ledgers_map(memoryview(data[:-cut]), header, key="k")
        assert (raised.value.key, (raised.value.offset or 0) >= 5000) == ("k", True)


@for_each("at", range(24))
def test_a_ledgers_map_whose_numbers_lie_is_an_error(at: int) -> None:
    made = LedgersMap(np.array([3, 5], np.int64), np.array([100, 200], np.int64))
    data = bytearray(build_ledgers_map(made))
    data[at] ^= 0x40
    with pytest.raises(CorruptLogError):
        parse_ledgers_map(memoryview(bytes(data)), EntryLogHeader(1, 5000, 2), key="k")


@for_each(
    ("at", "value", "reason"),
    [
        (0, b"BKLE", "begins with"),
        (4, b"\0\0\0\2", "version 2"),
        (8, b"\xff" * 8, "invalid ledgers map"),
        (16, b"\xff" * 4, "invalid ledgers map"),
    ],
)
def test_a_header_that_lies_is_an_error(at: int, value: bytes, reason: str) -> None:
    data = bytearray(build_log_header(EntryLogHeader(1, 4000, 2)))
    data[at : at + len(value)] = value
    with pytest.raises(CorruptLogError, match=reason):
        parse_log_header(memoryview(bytes(data)), key="k")
    with pytest.raises(CorruptLogError, match="less than the header"):
        parse_log_header(memoryview(bytes(data[:-1])), key="k")
