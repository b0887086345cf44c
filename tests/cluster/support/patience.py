"""How long readers wait for bookies of tests: minutes, but for those that are expected to fail."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ledgerfs.errors import StoreTimeoutError, StoreUnreachableError
from ledgerfs_cluster.bookies import pool
from ledgerfs_cluster.bookies.connection import BookieConnection, Received
from tests.cluster.support.bookies import BookieServer


class Patience:
    """How long each bookie may say nothing: as long as the options of the bucket say, but for those that are shortened.

    A short time-out of all bookies would fail tests on a busy machine, where a bookie that is alive may be slow to answer, too.

    Attributes
    ----------
    timeouts
        How many waits for replies of each bookie ended with the time-out, by address.
    failed
        How many connections to each bookie could not be made, by address.

    """

    def __init__(self) -> None:
        self.timeouts: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}

    def shorten(self, *bookies: BookieServer, seconds: float = 0.1) -> None:
        """Give up bookies soon that are expected to fail."""
        self._seconds |= {one.address: seconds for one in bookies}

    def seconds(self, address: str, given_s: float) -> float:
        """Return how long a bookie may say nothing, where the options say ``given_s``."""
        return self._seconds.get(address, given_s)

    def forget(self) -> None:
        """Shorten no time-out any more, and have readers know nothing of bookies: no connection, and no failure."""
        self._seconds.clear()
        self.timeouts.clear()
        self.failed.clear()
        for one in pool._pools.values():
            for connection in (idle for of_one in one._idle.values() for idle in of_one):
                connection.close()
        pool._pools.clear()


@contextmanager
def patience_with_bookies() -> Iterator[Patience]:
    """Have connections to bookies that wait as long as the `Patience` says, and share none with what was before."""
    made = Patience()

    class Connection(BookieConnection):
        def __init__(self, address: str, timeout_s: float) -> None:
            self._given_s = timeout_s
            try:
                super().__init__(address, timeout_s)
            except StoreUnreachableError:
                made.failed[address] += 1
                raise

        def send(self, requests: bytes, count: int) -> None:
            self._limit()
            super().send(requests, count)

        def receive(self, wanted: int = 1) -> Received:
            self._limit()
            try:
                return super().receive(wanted)
            except StoreTimeoutError:
                made.timeouts[self.address] += 1
                raise

        def _limit(self) -> None:
            self._timeout_s = made.seconds(self.address, self._given_s)
            self._socket.settimeout(self._timeout_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "BookieConnection", Connection)
        patch.setattr(pool, "_pools", {})
        yield made
        made.forget()
