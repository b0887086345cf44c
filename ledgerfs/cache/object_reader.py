"""Reads of one object by one reader: random ranges, and read-ahead while it reads forward."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from ledgerfs.cache.object_window import Parts, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.forked import ForkLock, start_again_in_child
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

_JUMP = 8 << 20
"""Bytes that a forward reader may skip or go back: between two blocks, or for reads out of order."""

_LARGE = 16 << 20
"""A read of at least this many bytes begins with the most parts under way."""

_KEPT = 16 << 20
"""Bytes of a forward read that are cached; more would evict everything else, and are seldom read twice."""

_STRAYS = 2
"""Consecutive reads elsewhere that end a forward read."""


class _Held(NamedTuple):
    """A part that has been read."""

    start: int
    end: int
    data: memoryview


class ObjectReader:
    """Reads of bytes before ``end`` of one version of an object, for one open file; its threads wait for each other.

    A read that begins at the end of the last one, or at ``start``, starts read-ahead; two consecutive reads elsewhere, or an error, end it.
    """

    __slots__ = ("__weakref__", "_ahead", "_end", "_expected", "_held", "_lock", "_object", "_store", "_strays")

    def __init__(self, store: ObjectStore, stat: ObjectStat, start: int, end: int) -> None:
        self._store = store
        self._object = stat
        self._end = end
        self._expected = start
        self._lock = ForkLock()
        self.after_fork()
        start_again_in_child(self)

    def after_fork(self) -> None:
        """Reset the state, since another thread of the parent may have been taking a part."""
        self._ahead: Parts | None = None
        self._held: deque[_Held] = deque()
        self._strays = 0

    def read(self, start: int, end: int) -> list[memoryview]:
        """Return bytes ``start`` to ``end`` in pieces; raises as `ObjectStore.read`."""
        with self._lock:
            if self._goes_on(start):
                try:
                    return self._read_on(start, end)
                except BaseException:
                    self.close()
                    raise
            self._strays += 1
            if self._ahead is None or self._strays >= _STRAYS:
                self.close()
                self._expected = end
        return [memoryview(self._store.read(self._request(start, end)))]

    def expect(self) -> None:
        """Begin read-ahead at ``start``, before the first `read`."""
        with self._lock:
            if self._ahead is None:
                self._open(self._expected, is_known=False).peek()

    def close(self) -> None:
        """Cancel the reads under way."""
        with self._lock:
            if self._ahead is not None:
                self._ahead.close()
            self._ahead = None
            self._held.clear()
            self._strays = 0

    def _goes_on(self, start: int) -> bool:
        if self._ahead is None:
            return start == self._expected
        earliest = self._held[0].start if self._held else self._expected
        return earliest <= start <= self._expected + _JUMP

    def _read_on(self, start: int, end: int) -> list[memoryview]:
        ahead = self._ahead or self._open(start, is_known=end - start >= _LARGE)
        self._strays = 0
        pieces = []
        at = start
        for held in self._held:
            if held.start <= at < min(end, held.end):
                pieces.append(held.data[at - held.start : end - held.start])
                at += len(pieces[-1])
        while at < end and (part := ahead.peek()) is not None:
            if part.end <= at:
                ahead.skip()
                # The held parts must not have a gap, or a read that goes back would return wrong bytes.
                self._held.clear()
                continue
            held = _Held(part.start, part.end, memoryview(ahead.take()))
            self._held.append(held)
            pieces.append(held.data[at - held.start : end - held.start])
            at += len(pieces[-1])
        self._expected = max(self._expected, end)
        while self._held and self._held[0].end <= self._expected - _JUMP:
            self._held.popleft()
        return pieces

    def _open(self, start: int, *, is_known: bool) -> Parts:
        self._ahead = open_parts(self._store, self._plan(start, is_known=is_known), is_known=is_known)
        return self._ahead

    def _plan(self, start: int, *, is_known: bool) -> Iterator[ReadRequest]:
        for part in cut_parts(start, self._end, is_known=is_known):
            yield self._request(*part, is_kept=part[1] <= start + _KEPT)

    def _request(self, start: int, end: int, *, is_kept: bool = True) -> ReadRequest:
        return ReadRequest(self._object.key, start, end, self._object.version, is_kept)
