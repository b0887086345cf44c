"""What goes to the store and what is read back of it share its rate, and who waits for it ends with the service."""

from collections.abc import Iterable

import pytest

from ledgerfs_cluster.errors import StoppedError
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.lifecycle.policy.policy_file import ServiceSettings, Via
from ledgerfs_cluster.lifecycle.service.rates import Rates, Stopping
from tests.support.each import for_each

MIB = 1 << 20


def test_what_is_sent_has_half_of_the_stores_rate_and_one_pass_alone_the_highest() -> None:
    for settings, rate, highest in (
        (ServiceSettings(), None, None),
        (ServiceSettings(store_rate=8 * MIB), 4 * MIB, 4 * MIB),
        (ServiceSettings(store_rate=8 * MIB, floor_rate=6 * MIB), 3 * MIB, 4 * MIB),
        (ServiceSettings(floor_rate=2 * MIB), MIB, None),
    ):
        rates = Rates(settings, Stopping())
        assert rates.rate == rate
        rates.take_all()
        assert rates.rate == highest


@for_each("every_ms", [60_000, 3_600_000, 86_400_000])
def test_a_backlog_is_sent_in_a_few_minutes_however_far_passes_are_apart(every_ms: int) -> None:
    rates = Rates(ServiceSettings(every_ms=every_ms, floor_rate=1), Stopping())
    due = Action(ActionKind.OFFLOAD, "t", (1,), 600 * MIB, Via.DIRECT, None, "due")
    rates.follow([due])
    assert rates.rate is not None
    assert 600 * MIB / rates.rate <= 300


def followed(settings: ServiceSettings, arrivals: Iterable[float]) -> list[float]:
    """Return the rate of each pass, MiB/s; it shows in the backlog one pass later. ``arrivals`` are MiB/s that become due in each."""
    rates = Rates(settings, Stopping())
    due, found, every_s = 0.0, [0.0], settings.every_ms / 1000
    for arrival in arrivals:
        rates.follow([Action(ActionKind.OFFLOAD, "t", (1,), round(due * MIB), Via.DIRECT, None, "due")])
        due += (arrival - min(found[-1], due / every_s)) * every_s
        assert rates.rate is not None
        found.append(rates.rate / MIB)
    return found[1:]


@for_each("every_ms", [5_000, 20_000, 60_000])
def test_the_rate_follows_what_becomes_due_and_never_overshoots(every_ms: int) -> None:
    found = followed(ServiceSettings(every_ms=every_ms, floor_rate=1), [10.0] * 100 + [100.0] * 100 + [10.0] * 100)
    for begin, end, low, high in ((0, 100, 0, 10), (100, 200, 10, 100), (200, 300, 10, 100)):
        part = found[begin:end]
        assert low - 0.1 <= min(part) <= max(part) <= high + 0.1
        # One pass goes on as before; then the rate goes one way.
        assert part[2:] == sorted(part[2:], reverse=begin == 200)
        assert part[40] == pytest.approx([10, 100, 10][begin // 100], rel=0.01)


def test_a_burst_is_sent_between_floor_and_ceiling_and_nothing_is_left_of_it() -> None:
    settings = ServiceSettings(floor_rate=10 * MIB, store_rate=60 * MIB)
    found = followed(settings, [10.0] * 50 + [100.0] * 15 + [10.0] * 200)
    assert (min(found), max(found)) == (5, 30)
    # 15 * 90 MiB/s are too many; 20 are left for them.
    assert found[65 + 15 * 90 // 20 + 20] == pytest.approx(10, rel=0.05)
    assert found[-1] == pytest.approx(10, rel=0.01)
    assert followed(settings, [100.0] * 50 + [0.0] * 400)[-1] == 5


def test_who_waits_ends_with_the_service() -> None:
    stopping = Stopping()
    rates = Rates(ServiceSettings(store_rate=1), stopping)
    rates.pace(1 << 40)
    stopping.set()
    with pytest.raises(StoppedError):
        rates.pace(1)
