"""How fast this program offloads: a rate that follows the backlog between a floor and a ceiling, never more than the store may take."""

import math
import time
from collections.abc import Sequence
from threading import Lock

from ledgerfs.errors import StoppedError
from ledgerfs.lifecycle.planning.actions import Action
from ledgerfs.lifecycle.policy.policy_file import WAYS, ServiceSettings
from ledgerfs.lifecycle.scheduling.rate_control import RateControl
from ledgerfs.lifecycle.service.stopping import Stopping
from ledgerfs.storage.token_bucket import Bandwidth

_LEAST_DELAY_S, _MOST_DELAY_S = 5.0, 60.0
"""After how long a rate shows in the backlog: ledgers are completed when they are whole. With passes that are hours apart it is sent in a
few minutes all the same, and nothing of it comes back before the next pass."""


class Rates:
    """Lets bytes pass, for all threads that offload or compare, until the service is to end.

    What goes to the store and what is read back of it share its rate. So what is sent has half of it at most.
    """

    __slots__ = ("_bandwidth", "_control", "_highest", "_lock", "_sent", "_stopping", "_store")

    def __init__(self, settings: ServiceSettings, stopping: Stopping) -> None:
        self._control: RateControl | None = None
        self._store = Bandwidth(settings.store_rate)
        self._highest = settings.highest_rate
        first: float | None = None
        if settings.floor_rate is not None or settings.ceiling_rate is not None:
            ceiling = self._highest
            floor = min(settings.floor_rate or 0, ceiling)
            self._control = RateControl(
                floor, ceiling, min(max(_LEAST_DELAY_S, settings.every_ms / 1000), _MOST_DELAY_S)
            )
            first = self._control.rate
        self._bandwidth = Bandwidth(first)
        self._lock = Lock()
        self._sent = 0
        self._stopping = stopping

    @property
    def rate(self) -> float | None:
        """Bytes a second that may be sent now; None without a bound."""
        told = [self._bandwidth.rate, None if self._store.rate is None else self._store.rate / WAYS]
        return min((one for one in told if one is not None), default=None)

    def follow(self, due: Sequence[Action], now_ms: int) -> None:
        """Have the rate follow what is due now."""
        if self._control is None:
            return
        with self._lock:
            sent, self._sent = self._sent, 0
        rate = self._control.update(time.monotonic(), sum(one.size for one in due), sent, _lateness(due, now_ms))
        self._bandwidth.rate = None if math.isinf(rate) else rate

    def take_all(self) -> None:
        """Have the highest rate that there may be: for one pass alone there is nothing to follow."""
        if self._control is not None:
            self._bandwidth.rate = None if math.isinf(self._highest) else self._highest

    def pace(self, count: int) -> None:
        """Wait until so many bytes may be sent; raises `StoppedError` once the service is ending."""
        self._wait(self._bandwidth, count)
        self._wait(self._store, count)
        with self._lock:
            self._sent += count

    def pace_back(self, count: int) -> None:
        """Wait until the store may have given so many bytes back; raises `StoppedError` once the service is ending."""
        self._wait(self._store, count)

    def _wait(self, bandwidth: Bandwidth, count: int) -> None:
        if not bandwidth.wait(count, self._stopping.is_set):
            raise StoppedError("the service is ending: what was to be sent, or read back, is given up")


def _lateness(due: Sequence[Action], now_ms: int) -> float:
    """Return for how long the oldest of it has been due, as a part of the age at which it should be offloaded; 0 where size decides."""
    late = 0.0
    for one in due:
        after_ms = 0 if one.rule is None else one.rule.thresholds.time_ms
        if one.since_ms is not None and after_ms > 0:
            late = max(late, (now_ms - one.since_ms) / after_ms)
    return late
