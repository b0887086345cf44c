"""How fast this program offloads: a rate that follows the backlog from a floor on, and never more than the store may take."""

from collections.abc import Sequence

from ledgerfs_cluster.errors import StoppedError
from ledgerfs_cluster.lifecycle.planning.actions import Action
from ledgerfs_cluster.lifecycle.policy.policy_file import ServiceSettings
from ledgerfs_cluster.token_bucket import Bandwidth

_WAYS = 2
"""How often each byte passes between this program and the store: it is sent, and read back."""
_SLOWER = 4
"""In how many passes a backlog is sent. A rate shows in the backlog one pass later; with four times that it never overshoots."""
_LEAST_S, _MOST_S = 20.0, 240.0
"""Within how long a backlog is sent in any case, however far passes are apart: ledgers are completed when they are whole."""


class Stopping:
    """Is set once, from any thread, or by the handler of a signal.

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

    def require_going(self) -> None:
        """Raise `StoppedError` once nothing is to be begun any more."""
        if self._is_set:
            raise StoppedError("the service is ending: nothing more is begun")


class Rates:
    """Lets bytes pass to the store and back, for all threads that offload, until the service is to end."""

    __slots__ = ("_bandwidth", "_floor", "_highest", "_stopping", "_time_s")

    def __init__(self, settings: ServiceSettings, stopping: Stopping) -> None:
        self._floor, self._highest = settings.floor_rate, settings.store_rate
        self._time_s = min(max(_LEAST_S, _SLOWER * settings.every_ms / 1000), _MOST_S)
        self._bandwidth = Bandwidth(self._highest if self._floor is None else self._floor)
        self._stopping = stopping

    @property
    def rate(self) -> float | None:
        """Bytes a second that may be offloaded now; None without a bound."""
        return None if self._bandwidth.rate is None else self._bandwidth.rate / _WAYS

    def follow(self, due: Sequence[Action]) -> None:
        """Have the rate follow what is due now, if there is a floor."""
        if self._floor is not None:
            wanted = max(self._floor, _WAYS * sum(one.size for one in due) / self._time_s)
            self._bandwidth.rate = wanted if self._highest is None else min(wanted, self._highest)

    def take_all(self) -> None:
        """Have the highest rate that there may be: for one pass alone there is nothing to follow."""
        self._bandwidth.rate = self._highest

    def pace(self, count: int) -> None:
        """Wait until so many bytes may pass; raises `StoppedError` once the service is ending."""
        if not self._bandwidth.wait(count, self._stopping.is_set):
            raise StoppedError("the service is ending: what was to be sent, or read back, is given up")
