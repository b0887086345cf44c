"""The time by two clocks, this machine's and ZooKeeper's, so that neither a fast nor a slow one causes an early deletion.

Decisions whether something is due use the earlier time; records of when a delay begins use the later one.
"""

import time

from ledgerfs_cluster.errors import LockLostError
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH, ClusterLock


class ClusterClock:
    """Tracks the ZooKeeper servers' time: from nodes that were just written, continued by the monotonic clock.

    So a changed clock of this machine can only delay decisions. `compare` is for one thread.
    """

    __slots__ = ("_server_ms", "_since_ns")

    def __init__(self, lock: ClusterLock) -> None:
        """Read the creation time of the lock's node, which was just created.

        Reads it from the newest state: a server that is behind does not have that node yet. Raises `LockLostError`, and the errors of
        ZooKeeper.
        """
        node = lock.node(LOCK_PATH)
        if node is None:
            raise LockLostError.of("the lock of this process was deleted", LOCK_PATH, is_uncertain=False)
        self._server_ms = node.created_ms
        # Taken after the write: the estimate is rather a little early.
        self._since_ns = time.monotonic_ns()

    def compare(self, written_ms: int, sent_ns: int) -> None:
        """Accept a node's write time by a server's clock if it is before the estimate for the moment of sending.

        ``sent_ns`` is `time.monotonic_ns` before the write was sent, so a slow write does not set the time back.
        """
        if written_ms < self._server_ms_at(sent_ns):
            self._server_ms, self._since_ns = written_ms, time.monotonic_ns()

    def now_ms(self) -> int:
        """Return the earlier time, ms since 1970 UTC, for decisions."""
        return min(time.time_ns() // 1_000_000, self._server_ms_at(time.monotonic_ns()))

    def later_ms(self) -> int:
        """Return the later time, ms since 1970 UTC, for records."""
        return max(time.time_ns() // 1_000_000, self._server_ms_at(time.monotonic_ns()))

    def _server_ms_at(self, monotonic_ns: int) -> int:
        return self._server_ms + (monotonic_ns - self._since_ns) // 1_000_000
