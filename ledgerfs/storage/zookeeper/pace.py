"""A bound on how many nodes are asked for in a second, so that reading leaves a ZooKeeper to those that live on it."""

import time

from ledgerfs.storage.fork_lock import ForkLock


class Pace:
    """Turns for all threads of a process, in the order of their asking; without a bound they come at once."""

    __slots__ = ("_free_at", "_lock", "_most_per_second")

    def __init__(self, most_per_second: float | None) -> None:
        self._most_per_second = most_per_second
        self._free_at = 0.0
        self._lock = ForkLock()

    @property
    def most_at_once(self) -> int | None:
        """How many nodes to ask for with one packet, for ten packets in a second; None without a bound."""
        return None if self._most_per_second is None else max(1, int(self._most_per_second / 10))

    def wait(self, nodes: int) -> None:
        """Wait until ``nodes`` more may be asked for."""
        if self._most_per_second is None:
            return
        with self._lock:
            begin = max(time.monotonic(), self._free_at)
            self._free_at = begin + nodes / self._most_per_second
        time.sleep(max(0.0, begin - time.monotonic()))
