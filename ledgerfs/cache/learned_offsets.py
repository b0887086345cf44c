"""Where some items of an object begin: learned by every pass over it, so that the next visit need not start far before its goal.

An index tells only where blocks of many MiB begin. With about one known position a MiB, finding an item again costs one small read.
"""

from bisect import bisect_left, bisect_right, insort

from ledgerfs.cache.fork_lock import ForkLock

STEP = 1 << 20
"""Bytes between two positions that are kept."""

_AFTER_ALL = 1 << 63


class LearnedOffsets:
    """Known (item, offset) pairs of one object, ascending in both. Safe in threads; never more than one pair for each `STEP` / 2 bytes."""

    __slots__ = ("_known", "_lock")

    def __init__(self) -> None:
        self._known: list[tuple[int, int]] = []
        self._lock = ForkLock()

    def learn(self, item: int, offset: int) -> None:
        """Remember that ``item`` begins at ``offset``, unless a neighbour is known."""
        with self._lock:
            at = bisect_left(self._known, (item, offset))
            neighbours = self._known[max(0, at - 1) : at + 1]
            if all(abs(offset - known) >= STEP // 2 for _, known in neighbours):
                insort(self._known, (item, offset))

    def at_or_before(self, item: int) -> tuple[int, int] | None:
        """Return the last known pair whose item is not behind ``item``."""
        with self._lock:
            at = bisect_right(self._known, (item, _AFTER_ALL))
            return self._known[at - 1] if at else None

    def at_or_after(self, item: int) -> tuple[int, int] | None:
        """Return the first known pair whose item is not before ``item``."""
        with self._lock:
            at = bisect_left(self._known, (item, -1))
            return self._known[at] if at < len(self._known) else None
