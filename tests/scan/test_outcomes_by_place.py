"""Outcomes of transactions whose ids are given again: places decide, as in a slow model."""

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.entry_fields import rows_in_transactions
from ledgerfs.messages.decode.metadata_walk import walk_metadata
from ledgerfs.scan import part_reading, transaction_outcomes
from ledgerfs.scan.report import ScanReport
from ledgerfs.scan.scan import Scan
from ledgerfs.scan.topic_entries import Place, Reach, read_entries
from ledgerfs.scan.transaction_outcomes import TransactionOutcomes
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import offload, put_in_folder
from tests.support.scans import part_of

TOPIC = "persistent://public/default/orders"
COMMIT, ABORT = 21, 22
Entry = tuple[int, int | None]
"""Of which transaction it is, and its marker; None of a message."""

ENTRIES = st.tuples(st.integers(0, 1), st.sampled_from([None, None, None, COMMIT, ABORT]))
LEDGERS = st.lists(
    st.tuples(st.sampled_from(["next", "next", "block"]), st.lists(ENTRIES, min_size=1, max_size=5)),
    min_size=1,
    max_size=7,
)
"""Whether ids go on, or go on in another block; and entries."""


def framed(entry: Entry) -> bytes:
    more = {} if entry[1] is None else {"marker_type": entry[1]}
    return frame(metadata(transaction_most=0, transaction_least=entry[0], **more), b"v")


class Ledgers:
    """Ledgers of one topic, each with its id and entries."""

    def __init__(self, made: list[tuple[str, list[Entry]]]) -> None:
        self.rows: list[tuple[int, list[Entry]]] = []
        last = 0
        for begins, some in made:
            last = last + 1 if begins == "next" else ((last >> 32) + 2) << 32
            self.rows.append((last, some))

    def topic(self, folder: Any) -> Topic:
        made = [offload(list(map(framed, some)), number, uuid=i) for i, (number, some) in enumerate(self.rows, 1)]
        return open_bucket(put_in_folder(folder, *made)).topic(TOPIC)

    def modelled(self) -> list[str]:
        """The first end after a message is its; else the last before it, in its ledger or the one before."""
        flat = [(i, *entry) for i, (_, some) in enumerate(self.rows) for entry in some]
        names = {COMMIT: "committed", ABORT: "aborted"}
        states = []
        for at, (i, transaction, marker) in enumerate(flat):
            if marker is not None:
                continue
            ends = [
                (place, names[kind])
                for place, (k, one, kind) in enumerate(flat)
                if kind is not None and one == transaction and (place > at or i - k < 2)
            ]
            after = [state for place, state in ends if place > at]
            before = [state for place, state in ends if place < at]
            states.append(after[0] if after else before[-1] if before else "open")
        return states


def states(scan: Scan) -> list[str]:
    found: list[str] = scan.to_arrow()["txn_state"].to_pylist()
    return found


@pytest.mark.long
@settings(deadline=None, max_examples=45, suppress_health_check=list(HealthCheck))
@given(made=LEDGERS, seed=st.integers(0, 99))
def test_a_message_has_the_end_that_is_next_to_it(made, seed, tmp_path_factory):
    ledgers = Ledgers(made)
    topic = ledgers.topic(tmp_path_factory.mktemp("tier"))
    scan = topic.scan(["txn_state"], transactions="all")
    expected = ledgers.modelled()
    assert states(scan) == expected
    assert topic.count() == expected.count("committed")
    # However few outcomes are remembered.
    for most in (0, 1, 2):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(transaction_outcomes, "MOST_OUTCOMES", most)
            assert states(part_of(scan, Reach.of(range(len(scan.parts[0].ledgers))))) == expected
            assert topic.count() == expected.count("committed")
    # Whichever parts are read first, and know outcomes that others can use.
    parts: dict[int, list[str]] = {}
    fresh, pieces = part_of(scan, Reach.of(range(len(made)))), len(made)
    for number in random.Random(seed).sample(range(pieces), pieces):
        parts[number] = states(part_of(fresh, Reach.of(range(number, number + 1))))
    assert [state for number in sorted(parts) for state in parts[number]] == expected


@for_each(
    ("ledgers", "expected"),
    [
        # Each has its own end, and one that never ended has the next one's, since nothing tells them apart.
        ([("next", [None]), ("next", [ABORT]), ("next", [None]), ("next", [COMMIT])], ["aborted", "committed"]),
        ([("next", [None]), ("next", [None]), ("next", [COMMIT])], ["committed", "committed"]),
        # Ids go on in another block, since something was restored into the cluster.
        ([("next", [None, None]), ("block", [COMMIT])], ["committed", "committed"]),
        ([("next", [None]), ("block", [None]), ("block", [ABORT])], ["aborted", "aborted"]),
        ([("next", [COMMIT]), ("block", [None])], ["committed"]),
    ],
)
def test_transactions_with_one_id(ledgers, expected, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("case")
    made = Ledgers([(begins, [(0, kind) for kind in some]) for begins, some in ledgers])
    topic = made.topic(tmp_path)
    scan = topic.scan(["txn_state"], transactions="all")
    assert states(scan) == made.modelled() == expected


def test_a_batch_with_a_gap(tmp_path):
    """Bookies that are read past damage leave gaps in batches: outcomes go by the ids of entries."""
    entries = [(0, None), (1, None), (1, None), (0, COMMIT), (0, None), (0, ABORT)]
    scan = Ledgers([("next", entries)]).topic(tmp_path).scan()
    ((place, batch),) = read_entries(scan.parts[0].ledgers, Reach.of(range(1)))
    left = np.array([0, 3, 4, 5])
    gapped = EntryBatch(0, batch.buffer, batch.offsets[left], batch.lengths[left], left)
    walked = walk_metadata(gapped)
    rows = rows_in_transactions(walked, np.ones(left.size, bool))
    outcomes = TransactionOutcomes(scan.parts[0].ledgers, {}, is_damage_skipped=True)
    outcomes.look_ahead(place, gapped, walked, rows)
    assert outcomes.are_visible(place, gapped, walked, rows) == [True, True, False, True]
    assert outcomes.first_open(place, gapped, walked, rows) is None


MANY = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, None, None, COMMIT, ABORT])), min_size=1, max_size=12),
    min_size=1,
    max_size=5,
)


@pytest.mark.long
@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(made=MANY, most=st.integers(0, 3), seed=st.integers(0, 99))
def test_few_remembered_outcomes_change_nothing(made, most, seed, tmp_path_factory):
    """Neither rows nor what they depend on; also for parts that share what they know, and batches of few entries."""
    topic = Ledgers([("next", some) for some in made]).topic(tmp_path_factory.mktemp("tier"))
    columns = ["ledger_id", "entry_id", "txn_id", "txn_state"]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(part_reading, "read_entries", entry_by_entry)
        for transactions in ("all", "committed", "readable"):
            scan = topic.scan(columns, transactions=transactions)
            patched.setattr(transaction_outcomes, "MOST_OUTCOMES", 1000)
            report = ScanReport()
            whole, basis = scan.to_arrow(report), report.basis
            patched.setattr(transaction_outcomes, "MOST_OUTCOMES", most)
            again = part_of(scan, Reach.of(range(len(made))))
            report = ScanReport()
            assert (again.to_arrow(report), report.basis) == (whole, basis)
        scan = topic.scan(columns)
        fresh, numbers = (
            part_of(scan, Reach.of(range(len(made)))),
            random.Random(seed).sample(range(len(made)), len(made)),
        )
        parts = {one: part_of(fresh, Reach.of(range(one, one + 1))).to_arrow() for one in numbers}
        report = ScanReport()
        assert pa.concat_tables(parts[one] for one in range(len(made))) == scan.to_arrow(report)


def entry_by_entry(*arguments):
    for place, batch in read_entries(*arguments):
        for entry_id, _ in batch:
            yield Place(place.number, entry_id), batch.slice(entry_id, entry_id)


def test_what_is_remembered_is_bounded(tmp_path, monkeypatch):
    """Behind an open transaction there are many others, and all entries are read ahead."""
    monkeypatch.setattr(part_reading, "read_entries", entry_by_entry)
    monkeypatch.setattr(transaction_outcomes, "MOST_OUTCOMES", 20)
    others = [(one, kind) for one in range(1, 300) for kind in (None, COMMIT)]
    opens = [(one, None) for one in range(1000, 1010)]
    ledgers = Ledgers([("next", [(0, None), *others[:300]]), ("next", [*opens, *others[300:]])])
    scan = ledgers.topic(tmp_path).scan(["txn_state"], transactions="all")
    assert states(scan) == ledgers.modelled()
    assert len(scan.parts[0].outcomes) <= 2 * 20
