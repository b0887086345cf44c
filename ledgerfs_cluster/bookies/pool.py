"""Pool of connections to bookies, which remembers the bookies that are away and those that answer no batches."""

import time
from collections.abc import Callable
from typing import Self

from ledgerfs.errors import StoreUnreachableError
from ledgerfs.forked import ForkLock, start_again_in_child
from ledgerfs_cluster.bookies.connection import BookieConnection
from ledgerfs_cluster.errors import StoppedError
from ledgerfs_cluster.token_bucket import Bandwidth

_AWAY_S = 5.0
"""A bookie that could not be reached is asked last for so many seconds."""

_SINGLE_S = 60.0
"""A bookie that did not answer a batch is asked entry by entry for so many seconds: it may only have been stopped."""

_MOST_IDLE = 8
"""Idle connections to one bookie that are kept."""


class BookiePool:
    """Connections, each used by one reader at a time. Thread-safe; after a fork the child opens its own.

    Parameters
    ----------
    timeout_s
        Time-out for an answer of a bookie, s.
    rate
        Most bytes a second that are read from each bookie; None for no limit.

    """

    __slots__ = ("__weakref__", "_away", "_bandwidths", "_idle", "_lock", "_rate", "_single", "_timeout_s")

    def __init__(self, timeout_s: float, rate: float | None) -> None:
        self._timeout_s = timeout_s
        self._rate = rate
        self._lock = ForkLock()
        self.after_fork()
        start_again_in_child(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._timeout_s, self._rate))

    def lease(self, address: str) -> BookieConnection:
        """Return a connection for the caller alone; raises `StoreUnreachableError` and marks the bookie as away."""
        with self._lock:
            idle = self._idle.get(address)
            if idle:
                return idle.pop()
        try:
            return BookieConnection(address, self._timeout_s)
        except StoreUnreachableError:
            self.note_away(address)
            raise

    def give_back(self, connection: BookieConnection) -> None:
        """Take a connection back; close one with outstanding replies or with unrequested bytes."""
        connection.is_used = True
        with self._lock:
            idle = self._idle.setdefault(connection.address, [])
            if connection.is_quiet and not connection.is_inherited and len(idle) < _MOST_IDLE:
                idle.append(connection)
                return
        connection.close()

    def note_away(self, address: str) -> None:
        """Mark a bookie as away, and close its idle connections, which may be broken, too."""
        with self._lock:
            self._away[address] = time.monotonic()
            broken = self._idle.pop(address, [])
        for connection in broken:
            connection.close()

    def is_away(self, address: str) -> bool:
        """Return whether a bookie could not be reached within the last `_AWAY_S`."""
        return _is_since(self._away.get(address), _AWAY_S)

    def note_single(self, address: str) -> None:
        """Note that a bookie did not answer a batch: those before 4.17 hang up."""
        self._single[address] = time.monotonic()

    def answers_batches(self, address: str) -> bool:
        """Return whether a bookie may be asked for batches."""
        return not _is_since(self._single.get(address), _SINGLE_S)

    def pace(self, address: str, size: int, is_stopping: Callable[[], bool] | None = None) -> None:
        """Wait until the rate allows to read ``size`` more bytes from a bookie; raises `StoppedError` once ``is_stopping`` returns True."""
        if self._rate is None:
            return
        with self._lock:
            bandwidth = self._bandwidths.setdefault(address, Bandwidth(self._rate))
        if not bandwidth.wait(size, is_stopping):
            raise StoppedError("the service is stopping: reads that wait for bookie_rate are canceled", key=address)

    def after_fork(self) -> None:
        """Drop all connections without closing them: the parent uses them."""
        self._idle: dict[str, list[BookieConnection]] = {}
        self._away: dict[str, float] = {}
        self._single: dict[str, float] = {}
        self._bandwidths: dict[str, Bandwidth] = {}


def _is_since(time_s: float | None, most_s: float) -> bool:
    return time_s is not None and time.monotonic() - time_s < most_s


class Leases:
    """The connections that one reader has leased, one for each bookie; the end of its ``with`` returns them."""

    __slots__ = ("_leased", "pool")

    def __init__(self, pool: BookiePool) -> None:
        self.pool = pool
        self._leased: dict[str, BookieConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._leased:
            self.pool.give_back(self._leased.popitem()[1])

    def of(self, address: str) -> BookieConnection:
        """Return the connection to a bookie, leased on first use; raises `StoreUnreachableError`."""
        found = self._leased.get(address)
        if found is None:
            found = self._leased[address] = self.pool.lease(address)
        return found

    def get(self, address: str) -> BookieConnection | None:
        """Return the leased connection to a bookie; None if there is none."""
        return self._leased.get(address)

    def drop(self, address: str) -> None:
        """Close the connection to a bookie that failed, and mark the bookie as away."""
        found = self._leased.pop(address, None)
        if found is not None:
            found.close()
        self.pool.note_away(address)


_pools: dict[tuple[float, float | None], BookiePool] = {}
_pools_lock = ForkLock()


def shared_pool(timeout_s: float, rate: float | None) -> BookiePool:
    """Return this process's pool for these settings: all readers of a cluster share its connections and its rate."""
    with _pools_lock:
        return _pools.setdefault((timeout_s, rate), BookiePool(timeout_s, rate))
