"""Cursors: those of real brokers, any that can be built, and those that nobody should have written."""

import dataclasses
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import (
    IN_THE_NODE,
    CursorInfo,
    build_cursor_info,
    parse_cursor_info,
    parse_position_info,
)
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_of
from ledgerfs_cluster.formats.proto.metadata_pb2 import CursorPositionRecord
from tests.cluster.support.encoders import build_position_info
from tests.cluster.support.golden_nodes import GoldenNodes
from tests.support.each import for_each

MAX_INT64 = 2**63 - 1
KEY = "/managed-ledgers/public/default/persistent/orders/readers"

int64 = st.integers(-(2**63), MAX_INT64)
ids = st.integers(-1, MAX_INT64)
positions = st.builds(Position, ids, ids)
holes = st.tuples(positions, positions).map(lambda ends: (min(ends), max(ends)))
text = st.text(st.characters(codec="utf-8"), max_size=8)
bitmaps = st.binary(max_size=40).map(lambda data: data[: len(data) // 8 * 8])
cursors = st.builds(
    CursorInfo,
    cursors_ledger=ids,
    mark_delete=st.none() | positions,
    holes=st.lists(holes, max_size=3).map(tuple),
    last_active_ms=st.none() | st.integers(1, MAX_INT64),
    properties=st.lists(st.tuples(text, int64), max_size=3).map(tuple),
    cursor_properties=st.lists(st.tuples(text, text), max_size=3).map(tuple),
)
states = st.builds(
    CursorInfo,
    cursors_ledger=st.just(IN_THE_NODE),
    mark_delete=positions,
    holes=st.lists(holes, max_size=3).map(tuple),
    properties=st.lists(st.tuples(text, int64), max_size=3).map(tuple),
    deleted_bits=st.lists(st.tuples(st.integers(0, MAX_INT64), bitmaps), max_size=3).map(tuple),
)


def parse(data: bytes) -> CursorInfo:
    return parse_cursor_info(data, key=KEY)


def parse_entry(data: bytes) -> CursorInfo:
    return parse_position_info(data, key=KEY)


@pytest.fixture(params=["golden", "golden_mapfiles", "golden_typed", "bookie-dbledger"])
def golden_cursors(request: pytest.FixtureRequest) -> dict[tuple[str, str], bytes]:
    if request.param == "bookie-dbledger":
        nodes = GoldenNodes.of_dbledger()
    else:
        folder: Path = request.getfixturevalue(request.param)
        nodes = GoldenNodes.of(folder)
    return {found: data for path, data in nodes.nodes.items() if (found := cursor_of(path))}


def test_golden_cursors_are_built_again_to_the_byte(golden_cursors: dict[tuple[str, str], bytes]) -> None:
    assert len(golden_cursors) >= 12
    for data in golden_cursors.values():
        cursor = parse(data)
        assert cursor.mark_delete is not None
        assert cursor.last_active_ms is not None
        assert cursor.last_active_ms > 1_700_000_000_000
        assert build_cursor_info(cursor) == data


def test_a_golden_compacted_topic_names_its_ledger(golden: Path) -> None:
    nodes = GoldenNodes.of(golden).nodes
    found = parse(nodes["/managed-ledgers/public/golden/persistent/__transaction_buffer_snapshot/__compaction"])
    assert found == CursorInfo(
        IN_THE_NODE, Position(27, 0), last_active_ms=1795240864687, properties=(("CompactedTopicLedger", 205),)
    )
    assert found.is_in_the_node


@settings(deadline=None, max_examples=80)
@given(cursors)
def test_any_node_round_trips(cursor: CursorInfo) -> None:
    assert parse(build_cursor_info(cursor)) == cursor
    assert cursor.is_in_the_node == (cursor.cursors_ledger == -1)


@settings(deadline=None, max_examples=80)
@given(states)
def test_any_entry_round_trips(cursor: CursorInfo) -> None:
    assert parse_entry(build_position_info(cursor)) == cursor


def test_fields_of_a_node_have_the_numbers_of_pulsar() -> None:
    data = (
        "0807 1003 1804 2210 0A06080310051801 12060803100A1801 2A05 0A0170 1009 3005"
        " 3A0A 0A0408031006 10FF01 42 06 0A0161 120162"
    )
    assert parse(bytes.fromhex(data.replace("3A0A", "3A09"))) == CursorInfo(
        cursors_ledger=7,
        mark_delete=Position(3, 4),
        holes=((Position(3, 5), Position(3, 10)),),
        last_active_ms=5,
        properties=(("p", 9),),
        cursor_properties=(("a", "b"),),
    )


@pytest.mark.parametrize("words", ["100B 10FFFFFFFFFFFFFFFFFF01", "120B 0BFFFFFFFFFFFFFFFFFF01"])
def test_fields_of_an_entry_have_the_numbers_of_pulsar(words: str) -> None:
    """Numbers of a bitmap are packed, or not."""
    bits = bytes.fromhex("0808" + words)
    data = (
        bytes.fromhex("0803 1004 1A0C 0A0408031005 12040803100A 2205 0A0170 1009 2A06 0A0408031006 32")
        + bytes([len(bits)])
        + bits
    )
    found = parse_entry(data)
    assert found == CursorInfo(
        IN_THE_NODE,
        Position(3, 4),
        holes=((Position(3, 5), Position(3, 10)),),
        properties=(("p", 9),),
        deleted_bits=((8, b"\x0b" + bytes(7) + b"\xff" * 8),),
    )
    assert list(found.acknowledged_ranges()) == [
        (Position(3, 5), Position(3, 10)),
        (Position(8, -1), Position(8, 1)),
        (Position(8, 2), Position(8, 3)),
        (Position(8, 63), Position(8, 127)),
    ]


@pytest.mark.long
@given(st.lists(st.integers(0, 2**17 + 100), max_size=200), st.lists(st.integers(0, 2**17), max_size=2))
def test_ranges_of_a_bitmap_are_its_entries(some: list[int], long_runs: list[int]) -> None:
    """Also runs that go on where the bitmap is looked at in pieces."""
    wanted = {*some, *(one for start in long_runs for one in range(start, start + 70_000))}
    bits = np.zeros(2**18, np.uint8)
    bits[list(wanted)] = 1
    cursor = CursorInfo(
        IN_THE_NODE, Position(0, 0), deleted_bits=((9, np.packbits(bits, bitorder="little").tobytes()),)
    )
    found: set[int] = set()
    end = -1
    for lower, upper in cursor.acknowledged_ranges():
        assert lower.ledger_id == upper.ledger_id == 9
        assert end < lower.entry_id < upper.entry_id or (end, lower.entry_id) == (-1, -1)
        end = upper.entry_id
        found.update(range(lower.entry_id + 1, end + 1))
    assert found == wanted


@for_each(
    ("data", "reason"),
    [
        ("", "no valid cursor ledger id"),
        ("1003 1804", "no valid cursor ledger id"),
        ("08FEFFFFFFFFFFFFFFFF01", "no valid cursor ledger id"),
        ("0807 1003", "has an invalid position"),
        ("0807 1804", "has an invalid position"),
        ("0807 1003 18FEFFFFFFFFFFFFFFFF01", "has an invalid position"),
        ("0807 220C 0A040803100A 120408031005", "ends before it begins"),
        ("0807 2206 0A0408031005", "position"),
        ("0807 2200", "position"),
        ("FF", "not a valid protobuf message"),
    ],
)
def test_a_node_that_no_broker_writes_is_corrupt(data: str, reason: str) -> None:
    with pytest.raises(CorruptMetadataError, match=reason) as caught:
        parse(bytes.fromhex(data))
    assert caught.value.key == KEY


@for_each(
    ("data", "reason"),
    [
        ("", "has an invalid position"),
        ("0803", "has an invalid position"),
        ("0803 1004 3200", "without a valid ledger id"),
        ("0803 1004 3202 1001", "without a valid ledger id"),
        ("7B7D", "not a valid protobuf message"),
    ],
)
def test_an_entry_that_no_broker_writes_is_corrupt(data: str, reason: str) -> None:
    with pytest.raises(CorruptMetadataError, match=reason) as caught:
        parse_entry(bytes.fromhex(data))
    assert caught.value.key == KEY


@pytest.mark.parametrize("read", [parse, parse_entry])
@settings(deadline=None, max_examples=120)
@given(data=st.binary(max_size=100), cursor=states, at=st.integers(0, 60), end=st.integers(0, 60))
def test_arbitrary_bytes_raise_nothing_else(
    read: Callable[[bytes], CursorInfo], data: bytes, cursor: CursorInfo, at: int, end: int
) -> None:
    for valid in (build_cursor_info(cursor), build_position_info(cursor)):
        for attempt in (data, valid + data, valid[:at] + data + valid[end:]):
            refused = found = None
            try:
                found = read(attempt)
            except CorruptMetadataError as error:
                refused = error
            assert refused is None or refused.key == KEY
            if found is not None:
                assert all(lower <= upper for lower, upper in found.acknowledged_ranges())
                assert found == dataclasses.replace(found)


@pytest.mark.long
def test_a_bitmap_takes_the_memory_of_a_piece_of_it() -> None:
    """Check the worst of them, every second bit: its ranges, of hundreds of bytes each, are never all in memory."""
    record = CursorPositionRecord(ledger_id=1, entry_id=1)
    record.deleted_bits.add(ledger_id=2, words=[0x5555555555555555] * 6_000)
    data = record.SerializeToString()
    tracemalloc.start()
    try:
        found = parse_entry(data)
        count = sum(1 for _ in found.acknowledged_ranges())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 6_000 * 32
    assert most < 4 << 20 < 24 * count
