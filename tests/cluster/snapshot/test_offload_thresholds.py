"""Which ledgers thresholds choose, against a slow rule written from what brokers were seen to do."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs_cluster.rules.offload_thresholds import chosen_of
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.policies import NamespacePolicies, OffloadThresholds
from ledgerfs_cluster.snapshot.survey import TopicLedgers

NOW = 1_700_000_000_000
OFF = OffloadThresholds()

Row = tuple[int, int, bool]
"""Size, time of closing, and whether it is offloaded."""


def columns(rows: list[Row]) -> TopicLedgers:
    ids = np.arange(len(rows), dtype=np.int64) + 100
    sizes, closed = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    return TopicLedgers(
        ids, np.ones_like(ids), sizes, closed, np.array([row[2] for row in rows], np.bool_), LastEnd.OPEN
    )


def reference(rows: list[Row], thresholds: OffloadThresholds, now: int) -> list[int]:
    total, chosen = 0, []
    for number, (size, closed, is_complete) in reversed(list(enumerate(rows))):
        if closed == 0:
            continue
        total += size
        by_size = thresholds.size >= 0 and total > thresholds.size
        by_time = thresholds.time_ms >= 0 and now - closed >= thresholds.time_ms
        if not is_complete and (by_size or by_time):
            chosen.insert(0, number)
    return chosen


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[Row], OffloadThresholds]:
    ages = sorted(draw(st.lists(st.integers(0, 5), max_size=8)), reverse=True)
    rows = [(draw(st.integers(0, 3)), NOW - age * 1000, draw(st.booleans())) for age in ages]
    if draw(st.booleans()):
        rows.append((draw(st.integers(0, 3)), 0, False))
    time = draw(st.integers(-1, 5))
    return rows, OffloadThresholds(draw(st.integers(-1, 12)), -1 if time < 0 else time * 1000)


@given(topics())
def test_what_is_chosen_is_what_the_slow_rule_says(topic: tuple[list[Row], OffloadThresholds]) -> None:
    rows, thresholds = topic
    found = chosen_of(columns(rows), thresholds, NOW)
    assert list(found.rows) == reference(rows, thresholds, NOW)
    assert (found.since_ms is None) == (not found.rows)
    waiting = [i for i, row in enumerate(rows) if row[1] and not row[2] and i not in found.rows]
    assert found.next_row == (None if thresholds == OFF or not waiting else waiting[0])


@given(topics())
def test_what_is_left_is_what_makes_the_next_one_due(topic: tuple[list[Row], OffloadThresholds]) -> None:
    rows, thresholds = topic
    found = chosen_of(columns(rows), thresholds, NOW)
    if found.next_row is None:
        return
    if found.ms_left >= 0:
        for later, is_due in ((found.ms_left - 1, False), (found.ms_left, True)):
            assert (found.next_row in chosen_of(columns(rows), thresholds, NOW + later).rows) == is_due
    if found.bytes_left >= 0:
        for more, is_due in ((found.bytes_left - 1, False), (found.bytes_left, True)):
            grown = [*rows, (more, NOW + 1, True)]
            assert (found.next_row in chosen_of(columns(grown), thresholds, NOW).rows) == is_due


@given(topics())
def test_since_is_the_first_moment_at_which_the_oldest_was_due(topic: tuple[list[Row], OffloadThresholds]) -> None:
    rows, thresholds = topic
    found = chosen_of(columns(rows), thresholds, NOW)
    if not found.rows:
        return
    moments = [
        now for now in sorted({NOW - 1000 * age for age in range(-6, 12)})
        if now <= NOW and found.rows[0] in reference([row if 0 < row[1] <= now else (0, 0, row[2]) for row in rows], thresholds, now)
    ]  # fmt: skip
    assert found.since_ms == moments[0]


def test_a_namespace_sets_each_threshold_for_itself() -> None:
    broker = OffloadThresholds(10, 20)
    assert NamespacePolicies().offload(broker) == broker
    assert NamespacePolicies(offload_size=-1).offload(broker) == OffloadThresholds(-1, 20)
    assert NamespacePolicies(offload_time_ms=5).offload(broker) == OffloadThresholds(10, 5)
