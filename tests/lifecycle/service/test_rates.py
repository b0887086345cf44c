"""What goes to the store and what is read back of it share its rate, and who waits for it ends with the service."""

import pytest

from ledgerfs.errors import StoppedError
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.lifecycle.policy.policy_file import ServiceSettings, Via
from ledgerfs.lifecycle.service.rates import Rates
from ledgerfs.lifecycle.service.stopping import Stopping
from tests.support.each import for_each

MIB = 1 << 20


def test_what_is_sent_has_half_of_the_stores_rate() -> None:
    assert Rates(ServiceSettings(), Stopping()).rate is None
    assert Rates(ServiceSettings(store_rate=8 * MIB), Stopping()).rate == 4 * MIB
    bounded = ServiceSettings(store_rate=8 * MIB, floor_rate=6 * MIB, ceiling_rate=7 * MIB)
    assert Rates(bounded, Stopping()).rate == 4 * MIB
    low = ServiceSettings(store_rate=8 * MIB, floor_rate=MIB, ceiling_rate=MIB)
    assert Rates(low, Stopping()).rate == MIB


def test_one_pass_alone_has_the_highest_rate() -> None:
    rates = Rates(ServiceSettings(every_ms=3_600_000, ceiling_rate=8 * MIB), Stopping())
    rates.take_all()
    assert rates.rate == 8 * MIB
    rates = Rates(ServiceSettings(floor_rate=MIB, store_rate=8 * MIB), Stopping())
    rates.take_all()
    assert rates.rate == 4 * MIB
    rates = Rates(ServiceSettings(floor_rate=MIB), Stopping())
    rates.take_all()
    assert rates.rate is None


@for_each("every_ms", [60_000, 3_600_000, 86_400_000])
def test_a_backlog_is_sent_in_a_few_minutes_however_far_passes_are_apart(every_ms: int) -> None:
    rates = Rates(ServiceSettings(every_ms=every_ms, ceiling_rate=1 << 40), Stopping())
    due = Action(ActionKind.OFFLOAD, "t", (1,), 600 * MIB, Via.DIRECT, None, "due")
    rates.follow([due], 0)
    assert rates.rate is not None
    assert 600 * MIB / rates.rate <= 300


@for_each("way", ["pace", "pace_back"])
def test_who_waits_ends_with_the_service(way: str) -> None:
    stopping = Stopping()
    rates = Rates(ServiceSettings(store_rate=1), stopping)
    getattr(rates, way)(1 << 40)
    stopping.set()
    with pytest.raises(StoppedError):
        getattr(rates, way)(1)
