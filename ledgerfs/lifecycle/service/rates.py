"""How fast this program offloads: a rate that follows the backlog between a floor and a ceiling, never more than the store may take."""

import math
from collections.abc import Sequence

from ledgerfs.errors import StoppedError
from ledgerfs.lifecycle.planning.actions import Action
from ledgerfs.lifecycle.policy.policy_file import WAYS, ServiceSettings
from ledgerfs.storage.token_bucket import Bandwidth

_SLOWER = 4
"""In how many passes a backlog is sent. A rate shows in the backlog one pass later; with four times that it never overshoots."""
_LEAST_S, _MOST_S = 20.0, 240.0
"""Within how long a backlog is sent in any case, however far passes are apart: ledgers are completed when they are whole."""


class Stopping:
    """Is told once, from any thread, or by the handler of a signal.

    Without a lock, as `threading.Event` has one: a handler interrupts the main thread anywhere, also where that holds it, and would wait
    for ever.
    """

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Have all that asks begin nothing more."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether nothing is to be begun any more."""
        return self._is_set


class Rates:
    """Lets bytes pass, for all threads that offload or compare, until the service is to end.

    What goes to the store and what is read back of it share its rate. So what is sent has half of it at most.
    """

    __slots__ = ("_bandwidth", "_floor", "_follows", "_highest", "_stopping", "_store", "_time_s")

    def __init__(self, settings: ServiceSettings, stopping: Stopping) -> None:
        self._store = Bandwidth(settings.store_rate)
        self._highest = settings.highest_rate
        self._floor = min(settings.floor_rate or 0, self._highest)
        self._follows = settings.floor_rate is not None or settings.ceiling_rate is not None
        self._time_s = min(max(_LEAST_S, _SLOWER * settings.every_ms / 1000), _MOST_S)
        self._bandwidth = Bandwidth(self._floor if self._follows else None)
        self._stopping = stopping

    @property
    def rate(self) -> float | None:
        """Bytes a second that may be sent now; None without a bound."""
        told = [self._bandwidth.rate, None if self._store.rate is None else self._store.rate / WAYS]
        return min((one for one in told if one is not None), default=None)

    def follow(self, due: Sequence[Action]) -> None:
        """Have the rate follow what is due now."""
        if self._follows:
            wanted = sum(one.size for one in due) / self._time_s
            self._bandwidth.rate = min(max(wanted, self._floor), self._highest)

    def take_all(self) -> None:
        """Have the highest rate that there may be: for one pass alone there is nothing to follow."""
        if self._follows:
            self._bandwidth.rate = None if math.isinf(self._highest) else self._highest

    def pace(self, count: int) -> None:
        """Wait until so many bytes may be sent; raises `StoppedError` once the service is ending."""
        self._wait(self._bandwidth, count)
        self._wait(self._store, count)

    def pace_back(self, count: int) -> None:
        """Wait until the store may have given so many bytes back; raises `StoppedError` once the service is ending."""
        self._wait(self._store, count)

    def _wait(self, bandwidth: Bandwidth, count: int) -> None:
        if not bandwidth.wait(count, self._stopping.is_set):
            raise StoppedError("the service is ending: what was to be sent, or read back, is given up")
