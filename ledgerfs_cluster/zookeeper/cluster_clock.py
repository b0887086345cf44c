"""What time it is by two clocks, this machine's and ZooKeeper's, so that neither has anything deleted before its time, fast or slow.

Whether the time has come is decided by the earlier one; the time from which on something waits is noted by the later one.
"""

import time

from ledgerfs_cluster.errors import LockLostError
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH, ClusterLock


class ClusterClock:
    """Knows the time of the ZooKeeper servers from nodes that were just written, and goes on from it by the monotonic clock.

    So this machine's clock moves the time by which is decided only to an earlier one, whenever it is set. `compare` is for one thread.
    """

    __slots__ = ("_server_ms", "_since_ns")

    def __init__(self, lock: ClusterLock) -> None:
        """Take the time of the lock's node, which was just made.

        A server that is behind does not know that node, and without its time this machine's would be believed. Raises `LockLostError`, and
        the errors of ZooKeeper.
        """
        node = lock.node(LOCK_PATH)
        if node is None:
            raise LockLostError.of("the lock of this process is gone", LOCK_PATH, is_uncertain=False)
        self._server_ms = node.created_ms
        # Behind the write: the time is rather a little early.
        self._since_ns = time.monotonic_ns()

    def compare(self, written_ms: int, sent_ns: int) -> None:
        """Take the time by a server's clock at which a node was written, if it is before what was thought when that was sent.

        ``sent_ns`` is of `time.monotonic_ns`, before the write was sent: however long it took, the time is then not put back for that.
        """
        if written_ms < self._server_ms_at(sent_ns):
            self._server_ms, self._since_ns = written_ms, time.monotonic_ns()

    def now_ms(self) -> int:
        """Return the earlier time, ms since 1970 UTC, by which is decided."""
        return min(time.time_ns() // 1_000_000, self._server_ms_at(time.monotonic_ns()))

    def later_ms(self) -> int:
        """Return the later time, ms since 1970 UTC, which is noted."""
        return max(time.time_ns() // 1_000_000, self._server_ms_at(time.monotonic_ns()))

    def _server_ms_at(self, monotonic_ns: int) -> int:
        return self._server_ms + (monotonic_ns - self._since_ns) // 1_000_000
