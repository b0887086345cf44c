"""Outcomes of transactions whose ids are given again, by one cluster or by several: places decide, as in a slow model."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerfs import copy_ledgers, open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.topic_entries import Reach
from tests.support.entries import frame, metadata
from tests.support.ledgers import offload, put_in_folder

TOPIC = "persistent://public/default/orders"
COMMIT, ABORT = 21, 22
Entry = tuple[int, int | None]
"""Of which transaction it is, and its marker; None of a message."""

ENTRIES = st.tuples(st.integers(0, 1), st.sampled_from([None, None, None, COMMIT, ABORT]))
LEDGERS = st.lists(st.tuples(st.booleans(), st.lists(ENTRIES, min_size=1, max_size=5)), min_size=1, max_size=7)
"""Whether another cluster begins, and entries."""


def framed(entry: Entry) -> bytes:
    more = {} if entry[1] is None else {"marker_type": entry[1]}
    return frame(metadata(transaction_most=0, transaction_least=entry[0], **more), b"v")


def numbered(ledgers: list[tuple[bool, list[Entry]]]) -> dict[int, list[Entry]]:
    """Return {id of a ledger: entries}: those of another cluster in another block of ids."""
    found, last = {}, 0
    for begins, some in ledgers:
        last = ((last >> 32) + 2) << 32 if begins else last + 1
        found[last] = some
    return found


def topic_of(folder: Any, ledgers: dict[int, list[Entry]]) -> Topic:
    made = [offload(list(map(framed, some)), number, uuid=i) for i, (number, some) in enumerate(ledgers.items(), 1)]
    return open_bucket(put_in_folder(folder, *made)).topic(TOPIC)


def modelled(ledgers: dict[int, list[Entry]]) -> list[str]:
    """The first end after a message is its own; else the last one before it, in its ledger or the one before: of its cluster only."""
    flat = [(i, number >> 32, *entry) for i, (number, some) in enumerate(ledgers.items()) for entry in some]
    names = {COMMIT: "committed", ABORT: "aborted"}
    states = []
    for at, (i, cluster, transaction, marker) in enumerate(flat):
        if marker is not None:
            continue
        ends = [
            (place, names[kind])
            for place, (k, whose, one, kind) in enumerate(flat)
            if kind is not None and (whose, one) == (cluster, transaction) and (place > at or i - k < 2)
        ]
        after = [state for place, state in ends if place > at]
        before = [state for place, state in ends if place < at]
        states.append(after[0] if after else before[-1] if before else "open")
    return states


def states(scan: Scan) -> list[str]:
    found: list[str] = scan.to_table()["txn_state"].to_pylist()
    return found


@pytest.mark.long
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(made=LEDGERS, seed=st.integers(0, 99))
def test_a_message_has_the_end_that_is_next_to_it(made, seed, tmp_path_factory):
    ledgers = numbered(made)
    topic = topic_of(tmp_path_factory.mktemp("tier"), ledgers)
    scan = topic.scan(["txn_state"], transactions="all")
    expected = modelled(ledgers)
    assert states(scan) == expected
    assert topic.count() == expected.count("committed")
    # Whichever parts are read first, and know outcomes that others can use.
    parts: dict[int, list[str]] = {}
    fresh = replace(scan, known_outcomes={})
    for number in random.Random(seed).sample(range(len(ledgers)), len(ledgers)):
        parts[number] = states(replace(fresh, part=Reach.of(range(number, number + 1))))
    assert [state for number in sorted(parts) for state in parts[number]] == expected


@pytest.mark.parametrize(
    ("ledgers", "expected"),
    [
        # Of one cluster: each has its own end, and one that never ended has the next one's, since nothing tells them apart.
        ({1: [None], 2: [ABORT], 3: [None], 4: [COMMIT]}, ["aborted", "committed"]),
        ({1: [None], 2: [None], 3: [COMMIT]}, ["committed", "committed"]),
        # Of two.
        ({1: [None], 2**33: [None, COMMIT]}, ["open", "committed"]),
        ({1: [None, COMMIT], 2**33: [None]}, ["committed", "open"]),
        ({1: [None], 2**33: [ABORT], 2**34: [None], 2**34 + 1: [COMMIT]}, ["open", "committed"]),
    ],
)
def test_transactions_with_one_id(ledgers, expected, tmp_path):
    made = {number: [(0, kind) for kind in some] for number, some in ledgers.items()}
    topic = topic_of(tmp_path, made)
    scan = topic.scan(["txn_state"], transactions="all")
    assert states(scan) == modelled(made) == expected
    assert not (scan.is_final and "open" in expected)
    if expected[0] == "open":
        assert topic.scan(["txn_state"], transactions="readable").to_table().num_rows == 0


def test_what_was_made_of_a_ledger_is_of_its_cluster(tmp_path):
    """`offload --unbatch` gives ids in any block of 2³²."""
    target = f"file://{tmp_path / 'target'}"
    for number, name, entries in ((1, 2**40, [None]), (2, 2**52, [COMMIT]), (2**33, 2**52 + 2**34, [None])):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = put_in_folder(folder, offload([framed((0, kind)) for kind in entries], number, uuid=1))
        assert copy_ledgers(source, target, unbatch=True, ledger_id=name, allow_incomplete=True).copied == 1
    scan = open_bucket(target).topic(TOPIC).scan(["txn_state"], transactions="all")
    assert states(scan) == ["committed", "open"]
