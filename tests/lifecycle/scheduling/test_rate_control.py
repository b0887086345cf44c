"""The rate follows the backlog without oscillating, on a store with a delay: steps, bursts, stops, changed bounds."""

import math

import numpy as np
import pytest

from ledgerfs.lifecycle.scheduling.rate_control import RateControl
from tests.support.simulated_stores import Run, simulated

MIB = 1 << 20
RATE = 20.0 * MIB
T = 120.0
"""The time constant for a delay of 30 s."""
HOUR = 3600.0


def control(floor: float = 0.0, ceiling: float = math.inf) -> RateControl:
    made = RateControl(floor, ceiling)
    assert made.time_s == T
    return made


def require_calm(run: Run, most_turns: int = 2) -> None:
    """A step is answered by one swing over and back: two turns, and no more."""
    assert run.turns <= most_turns


def test_a_step_is_followed_as_the_formula_says_where_there_is_no_delay() -> None:
    run = simulated(control(), lambda _: RATE, 20 * T, delay_s=0.5, step_s=0.5)
    expected = 1 + np.exp(-run.times / (2 * T)) * (run.times / (2 * T) - 1)
    assert np.abs(run.asked / RATE - expected).max() < 0.01
    assert run.asked.max() / RATE == pytest.approx(1 + math.exp(-2), abs=0.01)
    assert run.backlog.max() / (RATE * T) == pytest.approx(2 / math.e, abs=0.01)
    assert run.settled_at(RATE, 0.02) == pytest.approx(11 * T, rel=0.05)


@pytest.mark.parametrize("factor", [0.1, 2.0, 10.0])
def test_a_step_with_the_delay_it_is_made_for_overshoots_little_and_settles(factor: float) -> None:
    run = simulated(control(), lambda t: RATE * (factor if t >= 2 * HOUR else 1.0), 5 * HOUR).after(2 * HOUR)
    assert run.asked.max() <= max(1.0, factor) * RATE * 1.35
    assert run.asked.min() >= min(1.0, factor) * RATE * 0.65
    assert run.settled_at(factor * RATE, 0.05) <= 2 * HOUR + 25 * T
    require_calm(run)


@pytest.mark.parametrize("delay_s", [30.0, 60.0])
def test_with_twice_the_delay_it_still_settles(delay_s: float) -> None:
    run = simulated(control(), lambda _: RATE, 6 * HOUR, delay_s=delay_s)
    assert run.settled_at(RATE, 0.05) < HOUR
    require_calm(run, 4)


def test_a_burst_is_sent_and_the_rate_comes_back() -> None:
    """Ten times as much for a quarter of an hour, behind a ceiling of three times."""
    run = simulated(control(ceiling=3 * RATE), lambda t: RATE * (10 if HOUR <= t < 1.25 * HOUR else 1), 6 * HOUR).after(
        HOUR
    )
    assert run.asked.max() == 3 * RATE
    assert run.asked.min() >= RATE * 0.9
    # 9 * 900 s of the rate are too many; two rates are left for them.
    drained = float(run.times[run.backlog < RATE * T * 0.05][0])
    assert drained <= HOUR + 900 + 9 * 900 / 2 + 12 * T
    assert run.settled_at(RATE, 0.05) <= drained + 12 * T
    require_calm(run)


def test_a_store_that_stops_for_an_hour_winds_nothing_up() -> None:
    stop, end = 2 * HOUR, 3 * HOUR
    run = simulated(
        control(ceiling=4 * RATE),
        lambda _: RATE,
        8 * HOUR,
        capacity=lambda t: 0.0 if stop <= t < end else math.inf,
    ).after(end)
    # An hour of the rate waits, and three rates are left for it: not one more second at the ceiling than that takes.
    at_ceiling = float((run.asked >= 4 * RATE).sum()) * 5
    assert at_ceiling <= HOUR / 3 + 30
    assert run.backlog[run.times > end + HOUR / 3 + 15 * T].max() < RATE * T
    assert run.settled_at(RATE, 0.05) <= end + HOUR / 3 + 30 * T
    assert run.asked.min() >= 0.8 * RATE
    require_calm(run)


def test_a_store_that_gives_less_than_asked_is_not_asked_for_more_and_more_when_it_recovers() -> None:
    """For two hours it gives half of what becomes due."""
    run = simulated(
        control(ceiling=4 * RATE),
        lambda _: RATE,
        9 * HOUR,
        capacity=lambda t: RATE / 2 if HOUR <= t < 3 * HOUR else 4 * RATE,
    ).after(3 * HOUR)
    drained = float(run.times[run.backlog < RATE * T * 0.05][0])
    assert drained <= 3 * HOUR + HOUR / 3 + 20 * T
    assert run.settled_at(RATE, 0.05) <= drained + 15 * T
    require_calm(run)


def test_the_rate_is_between_floor_and_ceiling_and_the_floor_does_not_wind_up() -> None:
    run = simulated(control(RATE / 2, 2 * RATE), lambda t: RATE * (5 if t < HOUR else 0.1), 8 * HOUR)
    assert run.asked.min() >= RATE / 2
    assert run.asked.max() <= 2 * RATE
    assert run.asked[-1] == RATE / 2
    assert run.backlog[-1] <= RATE * 10


def test_after_days_without_work_nothing_is_left_of_what_was_learned() -> None:
    made = control()
    simulated(made, lambda t: RATE if t < HOUR else 0.0, 6 * HOUR)
    assert made.update(7 * HOUR, 0, 0) < RATE / 100


def test_bounds_that_change_make_no_jump() -> None:
    """Behind a ceiling a large backlog waits; a higher one is gone up to, not jumped to, and a lower one holds at once."""
    made = control(ceiling=RATE)
    changes = {HOUR: 8 * RATE, 1.2 * HOUR: 2 * RATE, 1.5 * HOUR: 3 * RATE}
    run = simulated(
        made,
        lambda _: RATE / 2,
        9 * HOUR,
        backlog=RATE * HOUR * 10,
        at=lambda now, one: one.set_bounds(0, changes[now]) if now in changes else None,
    )
    steps = np.diff(run.asked)
    rows = {round(one / 5) - 1 for one in changes}
    ups = [steps[row] for row in rows if steps[row] > 0]
    # In one step of 5 s a rate goes up by what it learns in 5 s, of a backlog of up to 300 times ``T``.
    assert max(ups, default=0.0) <= RATE * HOUR * 10 / (4 * T * T) * 5 * 1.1
    assert run.asked[round(1.2 * HOUR / 5)] <= 2 * RATE
    assert run.settled_at(RATE / 2, 0.1) < 9 * HOUR


def test_a_change_of_bounds_that_leaves_the_rate_alone_changes_nothing() -> None:
    plain = simulated(control(ceiling=9 * RATE), lambda _: RATE, 4 * HOUR)
    changed = simulated(
        control(ceiling=9 * RATE),
        lambda _: RATE,
        4 * HOUR,
        at=lambda now, one: one.set_bounds(0, (9 if now % 600 else 8) * RATE),
    )
    assert np.abs(plain.asked - changed.asked).max() < 0.02 * RATE


def test_what_is_late_is_answered_by_up_to_twice_the_rate() -> None:
    rates = [control().update(0, T * RATE, 0, late) for late in (0, 0.5, 1, 50)]
    assert rates == pytest.approx([RATE, 1.5 * RATE, 2 * RATE, 2 * RATE])


def test_being_late_makes_no_oscillation() -> None:
    """The gain is twice as large; the margins are for that."""
    run = simulated(control(), lambda _: RATE, 4 * HOUR, lateness=1.0)
    assert run.settled_at(RATE, 0.05) < 20 * T
    require_calm(run)


def test_a_clock_that_stands_or_goes_back_does_no_harm() -> None:
    made = control()
    first = made.update(100, T * RATE, 0)
    assert made.update(100, T * RATE, 0) == first
    assert made.update(50, T * RATE, 0) == first
