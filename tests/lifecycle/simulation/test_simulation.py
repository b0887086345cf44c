"""Where arrival is constant the answers are formulas: the simulation has to find them."""

import numpy as np
import pytest

from ledgerfs.lifecycle.simulation.columns import ClosedLedgers, Rules, Topics
from ledgerfs.lifecycle.simulation.prices import GIB, MONTH_S, Prices, parse_prices
from ledgerfs.lifecycle.simulation.simulated_rule import SimulatedRule
from ledgerfs.lifecycle.simulation.simulation import DAY_S, STEP_S, Simulated, simulated
from ledgerfs.lifecycle.simulation.uploads import Rates

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
RATE = 1000.0
QUORUM = 2
UNBOUNDED = Rates(1e15)
FOREVER = {"retention_ms": -1, "retention_bytes": -1}


def topics(count: int = 1, period_s: float = STEP_S, rate: float = RATE, behind_s: float = 0.0) -> Topics:
    """Topics that are new: nothing is written yet, and a ledger is closed each ``period_s``."""
    one = np.ones(count)
    return Topics(one * rate, one * period_s, one * period_s, one * 0, one * QUORUM, one * behind_s)


def no_ledgers() -> ClosedLedgers:
    return ledgers([])


def ledgers(
    rows: list[tuple[float, float]], offloaded_s: float | None = None, *, are_hot: bool = True
) -> ClosedLedgers:
    """Ledgers of topic 0 by size and time of closing."""
    made = np.array(rows, np.float64).reshape(-1, 2)
    count = made.shape[0]
    return ClosedLedgers(
        np.zeros(count, np.int64),
        made[:, 0],
        made[:, 1],
        np.full(count, offloaded_s is not None),
        np.full(count, are_hot),
        np.full(count, 0.0 if offloaded_s is None else offloaded_s),
    )


def played(
    rule: SimulatedRule, days: float = 10, of: Topics | None = None, rates: Rates = UNBOUNDED, **more
) -> Simulated:
    chosen = topics() if of is None else of
    known = more.get("ledgers", no_ledgers())
    return simulated(chosen, known, Rules.of([rule] * chosen.rates.size), days, rates)


@pytest.mark.parametrize("count", [1, 1000])
@pytest.mark.parametrize("period_h", [1, 4])
def test_hot_is_rate_times_age_and_lag_times_quorum_and_cold_is_the_rest(count: int, period_h: int) -> None:
    rule = SimulatedRule(offload_after_ms=DAY_MS, deletion_lag_ms=4 * HOUR_MS, **FOREVER)
    found = played(rule, of=topics(count, period_h * STEP_S))
    # At the moment at which ledgers are closed, and a minute before others are deleted or sent.
    rows = np.arange(48 * period_h, found.times.size, period_h)
    kept_s = DAY_S + 4 * STEP_S
    late = count * RATE * QUORUM * period_h * STEP_S
    assert np.abs(found.hot[rows] - count * RATE * QUORUM * kept_s).max() <= late * 1.01
    cold = count * RATE * (found.times[rows] - DAY_S)
    assert np.abs(found.cold[rows] - cold).max() <= late * 1.01
    assert found.hot_without == pytest.approx(count * RATE * QUORUM * found.times)
    assert found.written == pytest.approx(count * RATE * found.times)
    assert np.diff(found.sent)[rows[10] :].mean() == pytest.approx(count * RATE * STEP_S, rel=0.1)


def test_without_a_threshold_nothing_is_offloaded() -> None:
    found = played(SimulatedRule(**FOREVER))
    assert found.hot == pytest.approx(QUORUM * RATE * found.times)
    assert not found.cold.any()
    assert not found.requests.any()


def test_above_a_size_the_oldest_go() -> None:
    """Ledgers of 3.6 MB; over 20 of them are more than 72 MB: one waits until 20 more are closed."""
    above = int(20 * RATE * STEP_S)
    found = played(SimulatedRule(offload_above_bytes=above, deletion_lag_ms=0, **FOREVER))
    rows = np.arange(48, found.times.size)
    assert np.abs(found.hot[rows] / QUORUM - above).max() <= RATE * STEP_S * 1.01


def test_copies_that_are_never_deleted_stay() -> None:
    found = played(SimulatedRule(offload_after_ms=DAY_MS, deletion_lag_ms=None, **FOREVER))
    assert found.hot == pytest.approx(found.hot_without)
    assert found.cold[-1] > 0


@pytest.mark.parametrize(
    ("retention", "kept_s"),
    [
        ({"retention_ms": 3 * DAY_MS, "retention_bytes": -1}, 3 * DAY_S),
        ({"retention_ms": -1, "retention_bytes": int(2 * DAY_S * RATE)}, 2 * DAY_S),
        ({"retention_ms": 3 * DAY_MS, "retention_bytes": int(2 * DAY_S * RATE)}, 2 * DAY_S),
        ({"retention_ms": 0, "retention_bytes": 0}, 0.0),
    ],
)
def test_retention_ends_what_is_kept_hot_and_cold(retention: dict[str, int], kept_s: float) -> None:
    rule = SimulatedRule(offload_after_ms=DAY_MS, deletion_lag_ms=0, **retention)
    found = played(rule)
    a_ledger = RATE * STEP_S
    assert found.hot_without[-1] / QUORUM == pytest.approx(RATE * kept_s, abs=a_ledger * 1.01)
    assert found.hot[-1] / QUORUM == pytest.approx(RATE * min(kept_s, DAY_S), abs=a_ledger * 1.01)
    assert found.cold[-1] == pytest.approx(RATE * max(0, kept_s - DAY_S), abs=a_ledger * 1.01)
    assert bool(found.sent[-1]) == (kept_s > DAY_S)


def test_what_subscriptions_need_stays() -> None:
    found = played(SimulatedRule(), of=topics(behind_s=2 * DAY_S))
    assert found.hot[-1] / QUORUM == pytest.approx(RATE * 2 * DAY_S, abs=RATE * STEP_S * 1.01)


def test_requests_are_parts_and_three_for_each_ledger() -> None:
    """Each ledger has 3.6 MB: four blocks of 1,000,000 bytes."""
    rule = SimulatedRule(offload_after_ms=0, deletion_lag_ms=0, block_bytes=1_000_000, **FOREVER)
    found = played(rule, days=10)
    assert found.requests[-1] == pytest.approx(240 * 7, abs=7)


def test_ledgers_that_are_closed_more_often_than_once_in_a_step_count_each() -> None:
    rule = SimulatedRule(offload_after_ms=0, deletion_lag_ms=0, **FOREVER)
    found = played(rule, of=topics(period_s=600.0))
    assert found.requests[-1] == pytest.approx(240 * 6 * 4, rel=0.01)
    assert found.sent[-1] == pytest.approx(RATE * 10 * DAY_S, rel=0.01)


def test_ledgers_of_the_dump_are_offloaded_when_they_are_due_and_those_of_silent_topics_too() -> None:
    silent = topics(rate=0.0)
    silent.periods_s[:] = silent.next_close_s[:] = np.inf
    silent.open_bytes[:] = 50
    rows = [(100.0, -3 * DAY_S), (200.0, -0.5 * DAY_S)]
    rule = SimulatedRule(offload_after_ms=DAY_MS, deletion_lag_ms=0, **FOREVER)
    found = played(rule, 2, silent, ledgers=ledgers(rows))
    assert found.hot[0] == QUORUM * 350
    assert found.due[0] == 100
    assert found.hot[1] == pytest.approx(QUORUM * 250)
    assert found.hot[13] == pytest.approx(QUORUM * 50)
    assert found.cold[-1] == pytest.approx(300)


def test_copies_of_offloaded_ledgers_go_after_what_is_left_of_the_lag() -> None:
    silent = topics(rate=0.0)
    silent.periods_s[:] = silent.next_close_s[:] = np.inf
    rule = SimulatedRule(offload_after_ms=DAY_MS, deletion_lag_ms=4 * HOUR_MS, **FOREVER)
    found = played(rule, 1, silent, ledgers=ledgers([(100.0, -3 * DAY_S)], -2 * STEP_S))
    assert found.cold.tolist() == [100.0] * 25
    assert found.hot[1] == QUORUM * 100
    assert found.hot[2:].tolist() == [0.0] * 23
    gone = played(rule, 1, silent, ledgers=ledgers([(100.0, -3 * DAY_S)], -2 * STEP_S, are_hot=False))
    assert not gone.hot.any()
    assert not gone.requests.any()


def test_a_ceiling_below_what_is_written_leaves_a_backlog_that_grows() -> None:
    rule = SimulatedRule(offload_after_ms=0, deletion_lag_ms=0, **FOREVER)
    found = played(rule, rates=Rates(0.0, RATE / 2))
    assert found.highest_rates.max() == pytest.approx(RATE / 2)
    assert found.backlog[-1] == pytest.approx(RATE / 2 * 10 * DAY_S, rel=0.02)
    assert found.cold[-1] == pytest.approx(RATE / 2 * 10 * DAY_S, rel=0.02)
    assert found.hot[-1] == pytest.approx(QUORUM * RATE / 2 * 10 * DAY_S, rel=0.02)


def test_a_backlog_of_before_is_sent_at_the_ceiling() -> None:
    silent = topics(rate=0.0)
    silent.periods_s[:] = silent.next_close_s[:] = np.inf
    rows = [(1e6, -(30 - i) * DAY_S) for i in range(20)]
    rule = SimulatedRule(offload_after_ms=DAY_MS, deletion_lag_ms=0, **FOREVER)
    found = played(rule, 1, silent, Rates(0.0, 1e6 / STEP_S), ledgers=ledgers(rows))
    assert found.cold[:19] == pytest.approx(np.arange(19) * 1e6, abs=1.1e6)
    assert found.backlog[-1] == 0


def test_costs_are_bytes_times_months_and_requests() -> None:
    flat = np.full(3, 10.0 * GIB)
    times = np.array([0.0, MONTH_S / 2, MONTH_S])
    requests = np.array([0.0, 1000.0, 3000.0])
    found = Simulated(times, flat, flat, flat * 2, *(np.zeros(3),) * 3, requests, np.zeros(3))
    assert found.costs(Prices(0.1, 0.02, 0.005)).tolist() == pytest.approx([0, 0.5 + 0.2 + 0.005, 1 + 0.4 + 0.015])
    assert not found.costs(Prices()).any()


def test_prices_are_told_by_name() -> None:
    assert parse_prices(["hot=0.08", "put=0.005"]) == Prices(0.08, 0.0, 0.005)
    for text, named in (("get=1", "get"), ("hot=x", "hot"), ("cold=-1", "cold"), ("hot", "hot"), ("put=nan", "put")):
        with pytest.raises(OSError, match=named):
            parse_prices([text])


def test_many_topics_are_played_in_parts_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(5)
    count = 200
    period = dice.uniform(600, 30_000, count)
    made = Topics(
        dice.pareto(1.2, count) * RATE,
        period,
        period * dice.uniform(0, 1, count),
        dice.uniform(0, 1e6, count),
        np.full(count, 2.0),
        np.zeros(count),
    )
    rule = SimulatedRule(10_000_000, DAY_MS, HOUR_MS, 5 * DAY_MS, -1)
    whole = played(rule, of=made)
    monkeypatch.setattr("ledgerfs.lifecycle.simulation.ledger_lives._AT_ONCE", 500)
    parts = played(rule, of=made)
    for name in ("hot", "cold", "sent", "requests"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name))
    for one in (whole.hot, whole.cold, whole.backlog):
        assert one.min() >= -1e-3
