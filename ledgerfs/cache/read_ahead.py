"""Read parts in the order of a plan, and fetch the next ones ahead.

A reader of only the beginning fetches one small part. Each further part multiplies the parts under way by four, up to the store's limit.
They count in the process's memory budget (`ledgerfs.cache.block_cache`), which all readers share; each always gets one part.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Self

from ledgerfs.cache.block_cache import BlockCache, process_cache
from ledgerfs.forked import start_again_in_child
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.objects import Pending, ReadRequest

MIB = 1 << 20
PART_BYTES = 8 * MIB
"""Size in bytes of parts after the first small ones. Parts end at its multiples, so that readers of one object request the same parts."""

_GROWTH = 4

_FIRST_PARTS = (MIB, MIB, 2 * MIB, 4 * MIB)


def cut_parts(start: int, end: int, *, is_known: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the parts of a range: small ones first, unless all of it will be read (``is_known``)."""
    if not is_known:
        for size in _FIRST_PARTS:
            if start < end:
                stop = min(end, start + size)
                yield start, stop
                start = stop
    while start < end:
        stop = min(end, (start // PART_BYTES + 1) * PART_BYTES)
        yield start, stop
        start = stop


class ReadAhead:
    """The parts of a plan, in its order. For one thread at a time; close it, or use ``with``.

    Parameters
    ----------
    begin
        Begins to read a part.
    plan
        The parts, evaluated lazily.
    most
        Most parts under way; with 1, each is read when it is taken.
    is_known
        Whether the whole plan will be read: then ``most`` parts are under way from the beginning.

    """

    __slots__ = ("__weakref__", "_begin", "_cache", "_depth", "_flights", "_most", "_plan", "_taken", "_waiting")

    def __init__(
        self,
        begin: Callable[[ReadRequest], Pending],
        plan: Iterable[ReadRequest],
        most: int,
        *,
        is_known: bool = False,
        cache: BlockCache = process_cache,
    ) -> None:
        self._begin = begin
        self._plan = iter(plan)
        self._waiting: ReadRequest | None = None
        self._most = max(1, most)
        self._depth = self._most if is_known else 1
        self._cache = cache
        self._flights: deque[tuple[ReadRequest, Pending]] = deque()
        self._taken = 0
        start_again_in_child(self)

    def after_fork(self) -> None:
        """Return the parts under way to the plan, since the parent's reads never end in a forked child."""
        parts = [part for part, _ in self._flights]
        if self._waiting is not None:
            parts.append(self._waiting)
        self._flights, self._waiting, self._plan = deque(), None, chain(parts, self._plan)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def peek(self) -> ReadRequest | None:
        """Return the next part; None at the end of the plan."""
        self._launch()
        return self._flights[0][0] if self._flights else None

    def take(self) -> Buffer:
        """Wait for the next part; raises the error of its read, `IndexError` at the end of the plan."""
        self._launch()
        data = self._flights[0][1].result()
        self._drop_first()
        self._taken += 1
        self._depth = min(_GROWTH * self._depth, self._most)
        if self._taken > 1 and self._most > 1:
            self._launch()
        return data

    def skip(self) -> None:
        """Skip the next part."""
        self._flights[0][1].cancel()
        self._drop_first()

    def close(self) -> None:
        """Cancel the reads under way."""
        while self._flights:
            self.skip()
        self._plan, self._waiting = iter(()), None

    def __del__(self) -> None:
        self.close()

    def _launch(self) -> None:
        """Begin parts, up to the limits of the reader and of the budget."""
        while len(self._flights) < self._depth:
            if self._waiting is None:
                self._waiting = next(self._plan, None)
            if self._waiting is None or not self._begin_one(self._waiting):
                return
            self._waiting = None

    def _begin_one(self, part: ReadRequest) -> bool:
        if not self._cache.reserve(part.end - part.start, is_needed=not self._flights):
            return False
        try:
            self._flights.append((part, self._begin(part)))
        except BaseException:
            self._cache.release(part.end - part.start)
            raise
        return True

    def _drop_first(self) -> None:
        part, _ = self._flights.popleft()
        self._cache.release(part.end - part.start)
