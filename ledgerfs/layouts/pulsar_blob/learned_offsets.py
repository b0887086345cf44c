"""Remember where some items of an object begin: every read learns offsets, so that the next one can begin near its target.

An index has only the blocks of many MiB. With one known position per MiB, finding an item again costs one small read.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from ledgerfs.forked import ForkLock

STEP = 1 << 20
"""Bytes between two kept positions."""

MAX_PAIRS = 16384
"""Most positions of one object, 256 KiB of memory; in objects of more than about 10 GiB they are farther apart."""


@dataclass(frozen=True, slots=True)
class _Known:
    """Items and their offsets, both ascending. Replaced whole, so that reading it needs no lock."""

    items: "array[int]"
    offsets: "array[int]"


_NOTHING = _Known(array("q"), array("q"))


class LearnedOffsets:
    """Known (item, offset) pairs of one object, ascending in both. Safe in threads and after a fork.

    Has at most one pair for each half of ``step`` bytes, and at most `MAX_PAIRS`.
    """

    __slots__ = ("_known", "_lock", "_near")

    def __init__(self, step: int = STEP) -> None:
        self._known = _NOTHING
        self._near = step // 2
        self._lock = ForkLock()

    def __len__(self) -> int:
        return len(self._known.items)

    def learn(self, item: int, offset: int) -> None:
        """Remember that ``item`` begins at ``offset``, unless a pair close to it is known."""
        with self._lock:
            items, offsets = self._known.items, self._known.offsets
            at = bisect_left(items, item)
            neighbours = offsets[max(0, at - 1) : at + 1]
            if all(abs(offset - known) >= self._near for known in neighbours):
                self._keep(
                    _Known(
                        items[:at] + array("q", [item]) + items[at:], offsets[:at] + array("q", [offset]) + offsets[at:]
                    )
                )

    def clear(self) -> None:
        """Forget all pairs."""
        with self._lock:
            self._known = _NOTHING

    def at_or_before(self, item: int) -> tuple[int, int] | None:
        """Return the last known pair whose item is not after ``item``."""
        known = self._known
        at = bisect_right(known.items, item)
        return (known.items[at - 1], known.offsets[at - 1]) if at else None

    def at_or_after(self, item: int) -> tuple[int, int] | None:
        """Return the first known pair whose item is not before ``item``."""
        known = self._known
        at = bisect_left(known.items, item)
        return (known.items[at], known.offsets[at]) if at < len(known.items) else None

    def _keep(self, known: _Known) -> None:
        while len(known.items) > MAX_PAIRS:
            self._near *= 2
            known = _thinned(zip(known.items, known.offsets, strict=True), self._near)
        self._known = known


def _thinned(pairs: Iterable[tuple[int, int]], near: int) -> _Known:
    """Return the pairs of ascending ones that are at least ``near`` bytes apart."""
    items, offsets = array("q"), array("q")
    for item, offset in pairs:
        if not offsets or offset - offsets[-1] >= near:
            items.append(item)
            offsets.append(offset)
    return _Known(items, offsets)
