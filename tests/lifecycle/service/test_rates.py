"""What goes to the store and what is read back of it share its rate, and who waits for it ends with the service."""

import numpy as np
import pytest

from ledgerfs.errors import StoppedError
from ledgerfs.lifecycle.policy.policy_file import ServiceSettings
from ledgerfs.lifecycle.service.rates import Rates
from ledgerfs.lifecycle.service.stopping import Stopping
from ledgerfs.lifecycle.simulation.of_cluster import rates_of

MIB = 1 << 20


def test_what_is_sent_has_half_of_the_stores_rate() -> None:
    assert Rates(ServiceSettings(), Stopping()).rate is None
    assert Rates(ServiceSettings(store_rate=8 * MIB), Stopping()).rate == 4 * MIB
    bounded = ServiceSettings(store_rate=8 * MIB, floor_rate=6 * MIB, ceiling_rate=7 * MIB)
    assert Rates(bounded, Stopping()).rate == 4 * MIB
    low = ServiceSettings(store_rate=8 * MIB, floor_rate=MIB, ceiling_rate=MIB)
    assert Rates(low, Stopping()).rate == MIB


def test_a_simulation_has_the_same_bounds() -> None:
    assert rates_of(ServiceSettings(store_rate=8 * MIB, ceiling_rate=7 * MIB), np.array([60.0])).ceiling == 4 * MIB


@pytest.mark.parametrize("way", ["pace", "pace_back"])
def test_who_waits_ends_with_the_service(way: str) -> None:
    stopping = Stopping()
    rates = Rates(ServiceSettings(store_rate=1), stopping)
    getattr(rates, way)(1 << 40)
    stopping.set()
    with pytest.raises(StoppedError):
        getattr(rates, way)(1)
