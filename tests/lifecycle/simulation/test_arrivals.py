"""What was written to topics, found in their ledgers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ledgerfs.clusters.answers import LastEnd
from ledgerfs.clusters.surveying import survey_dump
from ledgerfs.lifecycle.simulation.arrivals import LEAST_S, ROLLOVER_S, Arrivals, arrivals_of
from tests.support.busy_clusters import Busy, heavy_tailed, write_busy_dump
from tests.support.made_surveys import DAY, HOUR, NOW, MadeCluster, current, listed

TOPIC = "t/n/persistent/p"


def found_in(made: MadeCluster, days: float = 14) -> Arrivals:
    return arrivals_of(made.survey(), history_s=days * 86400)


def test_rates_and_sizes_of_ledgers_are_those_that_were_written(tmp_path: Path) -> None:
    topics = heavy_tailed(300, 1e8)
    write_busy_dump(tmp_path / "dump", topics)
    found = arrivals_of(survey_dump(tmp_path / "dump", lambda *_: None))
    # Nobody knows how a topic goes on that has an hour of history.
    old = np.array([one.period_ms * (one.closed + one.open_part) / 1000 > LEAST_S for one in topics])
    rates = np.array([one.rate for one in topics])
    assert old.sum() > 250
    assert found.topics.rates[old] == pytest.approx(rates[old], rel=0.01)
    assert (found.topics.rates[~old] <= rates[~old] * 1.01).all()
    periods = np.array([one.period_ms / 1000 for one in topics])
    assert found.topics.periods_s[old] == pytest.approx(periods[old], rel=0.001)
    to_come = periods * (1 - np.array([one.open_part for one in topics]))
    assert found.topics.next_close_s[old] == pytest.approx(to_come[old], rel=0.01, abs=1)
    assert (found.topics.write_quorums == 2).all()
    assert found.silent == found.unknown == found.one_ledger == found.held_back == 0
    assert found.ledgers.sizes.size == sum(one.closed for one in topics)


def test_only_the_history_counts(tmp_path: Path) -> None:
    write_busy_dump(tmp_path / "dump", [Busy(1000.0, 24 * HOUR, 20)])
    survey = survey_dump(tmp_path / "dump", lambda *_: None)
    for days in (1.25, 5, 100):
        assert arrivals_of(survey, history_s=days * 86400).topics.rates[0] == pytest.approx(1000, rel=0.01)


def test_a_topic_with_long_silence_has_the_mean_of_the_history_and_then_none() -> None:
    made = MadeCluster()
    made.topic(TOPIC, [listed(1, 10 * DAY, size=1000), listed(2, 9 * DAY, size=86400), current(3)])
    assert found_in(made).topics.rates[0] == pytest.approx((1000 + 86400 + 500) / 10 / 86400, rel=0.01)
    silent = found_in(made, days=8)
    # What is open may have been written at any time since it was opened.
    assert silent.topics.rates[0] == pytest.approx(500 / 9 / 86400, rel=0.01)


def test_a_topic_to_which_nothing_is_written_is_silent() -> None:
    made = MadeCluster()
    made.topic(TOPIC, [listed(1, 30 * DAY), current(2)], last=LastEnd.UNKNOWN)
    found = found_in(made)
    assert found.silent == found.unknown == 1
    assert found.topics.rates[0] == 0
    assert np.isinf(found.topics.periods_s[0])
    assert np.isinf(found.topics.next_close_s[0])


def test_a_topic_with_one_ledger_closes_one_as_often_as_brokers_do_at_the_latest() -> None:
    made = MadeCluster()
    made.topic(TOPIC, [current(1)])
    made.ledgers[0] = replace(made.ledgers[0], created_ms=NOW - HOUR // 2)
    found = found_in(made)
    assert found.one_ledger == 1
    # It is half an hour old: what it has counts as an hour's.
    assert found.topics.rates[0] == pytest.approx(500 / LEAST_S)
    assert found.topics.periods_s[0] == ROLLOVER_S


def test_an_open_ledger_of_unknown_size_is_written_to_like_those_before_for_a_while() -> None:
    made = MadeCluster()
    lines = [listed(number, (10 - number) * HOUR, size=3600) for number in range(9)]
    # The first one was opened a day ago; of the last two hours nothing is known.
    made.topic(TOPIC, [*lines, current(9)], last=LastEnd.UNKNOWN)
    assert found_in(made).topics.rates[0] == pytest.approx(9 * 3600 / (22 * 3600))


def test_copies_of_ledgers_and_offloads_are_as_the_list_has_them() -> None:
    made = MadeCluster()
    made.topic(
        TOPIC,
        [
            listed(1, 3 * DAY, offloaded_ms=2 * DAY, is_deleted=True),
            listed(2, 2 * DAY, offloaded_ms=DAY),
            listed(3, DAY, offloaded_ms=DAY, is_complete=False),
            current(4),
        ],
    )
    ledgers = found_in(made).ledgers
    assert ledgers.are_offloaded.tolist() == [True, True, False]
    assert ledgers.are_hot.tolist() == [False, True, True]
    assert ledgers.offloaded_s[:2].tolist() == [-2 * 86400.0, -86400.0]
    assert ledgers.closed_s.tolist() == [-3 * 86400.0, -2 * 86400.0, -86400.0]


def test_a_subscription_that_stands_holds_back_as_much_as_it_does_now() -> None:
    made = MadeCluster()
    lines = [listed(1, 3 * DAY), listed(2, 2 * DAY), current(3)]
    made.topic(TOPIC, lines)
    made.topic("t/n/persistent/q", [listed(11, 3 * DAY), current(12)])
    made.cursor(TOPIC, "slow", (1, 9))
    made.cursor("t/n/persistent/q", "quick", (12, 1))
    found = found_in(made)
    assert found.topics.behind_s.tolist() == [2 * 86400.0, 0.0]
    assert found.held_back == 1


def test_an_empty_cluster_has_no_arrivals() -> None:
    found = found_in(MadeCluster())
    assert found.topics.rates.size == 0
    assert found.ledgers.sizes.size == 0
