"""Which ledgers thresholds choose, against a slow rule written from what brokers were seen to do."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs_cluster.rules.offload_thresholds import chosen_of
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.policies import NamespacePolicies, OffloadThresholds
from ledgerfs_cluster.snapshot.survey import TopicLedgers

NOW = 1_700_000_000_000

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
    assert chosen_of(columns(rows), thresholds, NOW).tolist() == reference(rows, thresholds, NOW)


def test_a_namespace_sets_each_threshold_for_itself() -> None:
    broker = OffloadThresholds(10, 20)
    assert NamespacePolicies().offload(broker) == broker
    assert NamespacePolicies(offload_size=-1).offload(broker) == OffloadThresholds(-1, 20)
    assert NamespacePolicies(offload_time_ms=5).offload(broker) == OffloadThresholds(10, 5)
