"""How fast this program offloads: a rate that follows the backlog between a floor and a ceiling, never more than the store may take."""

import math
import time
from collections.abc import Sequence
from threading import Lock

from ledgerfs.errors import StoppedError
from ledgerfs.lifecycle.planning.actions import Action
from ledgerfs.lifecycle.policy.policy_file import ServiceSettings
from ledgerfs.lifecycle.scheduling.rate_control import RateControl
from ledgerfs.lifecycle.service.stopping import Stopping
from ledgerfs.storage.token_bucket import Bandwidth

_LEAST_DELAY_S = 5.0
"""After how long a rate shows in the backlog at least: ledgers are completed when they are whole."""


class Rates:
    """Lets bytes pass, for all threads that offload, until the service is to end."""

    __slots__ = ("_bandwidth", "_control", "_lock", "_most", "_sent", "_stopping")

    def __init__(self, settings: ServiceSettings, stopping: Stopping) -> None:
        self._most = settings.store_rate
        self._control: RateControl | None = None
        first: float | None = self._most
        if settings.floor_rate is not None or settings.ceiling_rate is not None:
            ceiling = min(settings.ceiling_rate or math.inf, self._most or math.inf)
            floor = min(settings.floor_rate or 0, ceiling)
            self._control = RateControl(floor, ceiling, max(_LEAST_DELAY_S, settings.every_ms / 1000))
            first = self._control.rate
        self._bandwidth = Bandwidth(first)
        self._lock = Lock()
        self._sent = 0
        self._stopping = stopping

    @property
    def rate(self) -> float | None:
        """Bytes a second that may pass now; None without a bound."""
        return self._bandwidth.rate

    def follow(self, due: Sequence[Action], now_ms: int) -> None:
        """Have the rate follow what is due now."""
        if self._control is None:
            return
        with self._lock:
            sent, self._sent = self._sent, 0
        rate = self._control.update(time.monotonic(), sum(one.size for one in due), sent, _lateness(due, now_ms))
        self._bandwidth.rate = None if math.isinf(rate) else rate

    def pace(self, count: int) -> None:
        """Wait until so many bytes may pass; raises `StoppedError` once the service is ending."""
        if not self._bandwidth.wait(count, self._stopping.is_set):
            raise StoppedError("the service is ending: the copy is given up")
        with self._lock:
            self._sent += count


def _lateness(due: Sequence[Action], now_ms: int) -> float:
    """Return for how long the oldest of it has been due, as a part of the age at which it should be offloaded; 0 where size decides."""
    late = 0.0
    for one in due:
        after_ms = 0 if one.rule is None else one.rule.thresholds.time_ms
        if one.since_ms is not None and after_ms > 0:
            late = max(late, (now_ms - one.since_ms) / after_ms)
    return late
