"""A bound on how many nodes are asked for in a second, so that reading leaves a ZooKeeper to those that live on it."""

from ledgerfs.storage.token_bucket import Bandwidth


class Pace:
    """Turns for all threads of a process, in the order of their asking; without a bound they come at once."""

    __slots__ = ("_bandwidth", "_most_per_second")

    def __init__(self, most_per_second: float | None) -> None:
        self._most_per_second = most_per_second
        self._bandwidth = Bandwidth(most_per_second)

    @property
    def most_at_once(self) -> int | None:
        """How many nodes to ask for with one packet, for ten packets in a second; None without a bound."""
        return None if self._most_per_second is None else max(1, int(self._most_per_second / 10))

    def wait(self, nodes: int) -> None:
        """Wait until ``nodes`` more may be asked for."""
        self._bandwidth.wait(nodes)
