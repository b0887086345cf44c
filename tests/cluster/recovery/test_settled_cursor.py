"""A cursor as its node alone: the same messages are acknowledged, as far as they are still there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.errors import CorruptMetadataError
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import (
    IN_THE_NODE,
    CursorInfo,
    build_cursor_info,
    parse_cursor_info,
)
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.recovery.subscriptions import Positions, settled_cursor
from tests.cluster.support.encoders import build_position_info

_ENTRIES = 10


_SAME = Positions([(1, 1, _ENTRIES)], 9)


def _acknowledged(cursor: CursorInfo, positions: list[Position]) -> set[Position]:
    assert cursor.mark_delete is not None
    ranges = list(cursor.acknowledged_ranges())
    return {
        one for one in positions if one <= cursor.mark_delete or any(lower < one <= upper for lower, upper in ranges)
    }


@st.composite
def _states(draw: st.DrawFn) -> tuple[CursorInfo, list[int], list[int]]:
    """A cursor's state, the ledgers of its topic, and those of them that are restored."""
    ledgers = sorted(draw(st.sets(st.integers(1, 9), min_size=1)))
    kept = [one for one in ledgers if draw(st.booleans())]
    at = st.builds(Position, st.sampled_from(ledgers), st.integers(-1, _ENTRIES - 1))
    pairs = draw(st.lists(st.tuples(at, at).filter(lambda pair: pair[0] < pair[1]), max_size=4))
    bits = [(ledger_id, draw(st.binary(min_size=8, max_size=8))) for ledger_id in ledgers if draw(st.booleans())]
    bits = [(ledger_id, (int.from_bytes(one, "little") % 2**_ENTRIES).to_bytes(8, "little")) for ledger_id, one in bits]
    return CursorInfo(IN_THE_NODE, draw(at), tuple(pairs), deleted_bits=tuple(bits)), ledgers, kept


@given(_states(), st.booleans())
def test_what_is_restored_is_acknowledged_as_it_was(
    given_state: tuple[CursorInfo, list[int], list[int]], has_new_ids: bool
) -> None:
    state, ledgers, kept = given_state
    new = {old: (100 + old if has_new_ids else old) for old in kept}
    positions = Positions([(old, new[old], _ENTRIES) for old in kept], 1000)
    node = build_cursor_info(CursorInfo(5, Position(ledgers[0], -1)))
    made = settled_cursor(node, build_position_info(state), positions, key="c")
    found = parse_cursor_info(made, key="c")
    assert found.is_in_the_node
    entries = [Position(old, entry) for old in kept for entry in range(_ENTRIES)]
    moved = [Position(new[one.ledger_id], one.entry_id) for one in entries]
    expected = {Position(new[one.ledger_id], one.entry_id) for one in _acknowledged(state, entries)}
    assert _acknowledged(found, moved) == expected


@given(_states(), st.data())
def test_of_ledgers_whose_batches_were_split_nothing_more_is_acknowledged(
    given_state: tuple[CursorInfo, list[int], list[int]], data: st.DataObject
) -> None:
    """Which messages an entry became is not known. What was acknowledged as a whole is, and what lies in others is as it was."""
    state, _, kept = given_state
    split = {old: _ENTRIES for old in kept if data.draw(st.booleans())}
    grown = {old: data.draw(st.integers(2, 3)) if old in split else 1 for old in kept}
    positions = Positions([(old, old, _ENTRIES * grown[old]) for old in kept], 1000, split)
    node = build_cursor_info(CursorInfo(5, Position(0, -1)))
    found = parse_cursor_info(settled_cursor(node, build_position_info(state), positions, key="c"), key="c")
    former = {old: {at.entry_id for at in _acknowledged(state, _entries(old))} for old in kept}
    for old in kept:
        now = {at.entry_id // grown[old] for at in _acknowledged(found, _entries(old, grown[old]))}
        if old not in split or (state.mark_delete or Position(0, -1)) >= Position(old, _ENTRIES - 1):
            assert now == former[old]
        assert now <= former[old]


def _entries(ledger_id: int, grown: int = 1) -> list[Position]:
    return [Position(ledger_id, entry) for entry in range(_ENTRIES * grown)]


def test_a_state_in_the_node_is_taken_and_what_names_ledgers_of_brokers_is_left_out() -> None:
    reported = CursorInfo(
        IN_THE_NODE, Position(1, 2), ((Position(1, 4), Position(1, 5)),), 77,
        (("CompactedTopicLedger", 12), ("n", 1)), (("#pulsar.internal.delayed.bucket.1", "9"), ("user", "x")),
    )  # fmt: skip
    found = parse_cursor_info(settled_cursor(build_cursor_info(reported), None, _SAME, key="c"), key="c")
    assert (found.mark_delete, found.holes, found.last_active_ms) == (reported.mark_delete, reported.holes, 77)
    assert (found.properties, found.cursor_properties) == ((("n", 1),), (("user", "x"),))


@pytest.mark.parametrize(
    ("node", "newest"),
    [
        (CursorInfo(4, Position(1, 1)), None),
        (CursorInfo(4, Position(1, 1)), b"\xff\xff"),
        (CursorInfo(IN_THE_NODE, None), None),
    ],
)
def test_a_state_that_is_not_known_is_an_error(node: CursorInfo, newest: bytes | None) -> None:
    with pytest.raises(CorruptMetadataError):
        settled_cursor(build_cursor_info(node), newest, _SAME, key="c")
