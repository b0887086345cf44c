"""Byte ranges of objects in memory: an LRU cache with one budget for the process, and shared reads under way.

An object's ranges never overlap. A requested range consists of cached ranges, ranges under way for another reader, and ranges to fetch:
so no byte is fetched twice while it is cached or under way.
"""

import logging
import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from cachetools import LRUCache

from ledgerfs.forked import ForkLock, start_again_in_child
from ledgerfs.formats.buffers import Buffer

MOST_BYTES = 1 << 30
"""Upper limit of the default budget, in bytes, which is a quarter of the memory."""

BYTES_VARIABLE = "LEDGERFS_CACHE_BYTES"

_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_START = attrgetter("start")
_log = logging.getLogger("ledgerfs.cache")


Fetch = Callable[[int, int], "Future[Buffer]"]
"""Begins to read bytes ``start`` to ``end`` of one object."""


@dataclass(slots=True, eq=False)
class _Range:
    """Bytes ``start`` to ``end`` of an object, cached or under way.

    Attributes
    ----------
    data
        Done when the bytes have arrived.
    read
        The read that fetches them, once it has begun.
    readers
        Number of waiting readers; without any, the read is cancelled.
    is_kept
        Whether they stay in the cache after the read.

    """

    start: int
    end: int
    is_kept: bool
    data: "Future[Buffer]" = field(default_factory=Future)
    read: "Future[Buffer] | None" = None
    readers: int = 0


class RangeRead:
    """A requested range: a `Pending` made of pieces."""

    __slots__ = ("_cache", "_end", "_name", "_pieces", "_start", "fetched", "waits")

    def __init__(self, cache: "BlockCache", name: Hashable, start: int, end: int) -> None:
        self._cache = cache
        self._name = name
        self._start = start
        self._end = end
        self._pieces: list[_Range] = []
        self.fetched = 0
        """Bytes fetched for this read."""
        self.waits = 0
        """Pieces that were already under way for another reader."""

    def result(self) -> Buffer:
        """Wait for all pieces; return exactly the requested bytes. Raises the error of a failed piece.

        After `cancel`, or after an error, raises `CancelledError`.
        """
        if not self._pieces and self._start < self._end:
            raise CancelledError
        try:
            pieces = [(piece, piece.data.result()) for piece in self._pieces]
        except CancelledError:
            raise
        except BaseException:
            self.cancel()
            raise
        if len(pieces) == 1:
            piece, data = pieces[0]
            return data[self._start - piece.start : self._end - piece.start]
        views = (
            memoryview(data)[max(0, self._start - piece.start) : self._end - piece.start] for piece, data in pieces
        )
        return b"".join(views)

    def cancel(self) -> None:
        """Stop waiting; cancel pieces without other readers."""
        self._cache._leave(self._name, self._pieces)  # noqa: SLF001  (closely related classes)
        self._pieces = []


class BlockCache:
    """The cached ranges of a process. Thread-safe; a forked child begins with an empty cache.

    Parameters
    ----------
    budget
        Total bytes of cached ranges and of read-ahead (`reserve`).

    """

    _reserved: int

    def __init__(self, budget: int) -> None:
        self._lock = ForkLock()
        self._budget = budget
        self.after_fork()
        start_again_in_child(self)

    @property
    def budget(self) -> int:
        """Bytes that the cache may hold."""
        return self._budget

    @property
    def size(self) -> int:
        """Bytes in the cache."""
        return int(self._kept.currsize)

    def resize(self, budget: int) -> None:
        """Change the budget; drop ranges beyond it."""
        with self._lock:
            self._budget = budget
            self._shrink(0)

    def begin(self, name: Hashable, start: int, end: int, fetch: Fetch, *, keep: bool = True) -> RangeRead:
        """Begin to read bytes ``start`` to ``end`` of the object ``name``, which includes its version; ``fetch`` reads missing ranges."""
        read = RangeRead(self, name, start, end)
        with self._lock:
            ranges = self._objects.setdefault(name, [])
            missing = [_Range(*gap, keep) for gap in _gaps(start, end, _between(ranges, start, end))]
            for piece in missing:
                insort(ranges, piece, key=_START)
            for piece in _between(ranges, start, end):
                piece.readers += 1
                piece.is_kept |= keep
                read._pieces.append(piece)  # noqa: SLF001
                if piece.data.done():
                    self._kept.get((name, piece.start))
            read.fetched = sum(piece.end - piece.start for piece in missing)
            read.waits = sum(not piece.data.done() for piece in read._pieces) - len(missing)  # noqa: SLF001
            if not ranges:
                del self._objects[name]
        for number, piece in enumerate(missing):
            try:
                self._fetch(name, piece, fetch)
            except BaseException as error:
                # Otherwise readers that joined the other pieces would wait forever.
                for lost in missing[number:]:
                    self._fail(name, lost, error)
                raise
        return read

    def clear(self) -> None:
        """Drop all ranges; reads under way continue for their readers."""
        with self._lock:
            for name in list(self._objects):
                self.forget(name)

    def forget(self, name: Hashable) -> None:
        """Drop all ranges of an object; reads under way continue, but their bytes are not cached."""
        with self._lock:
            for piece in self._objects.pop(name, ()):
                piece.is_kept = False
                self._kept.pop((name, piece.start), None)

    def reserve(self, size: int, *, is_needed: bool = False) -> bool:
        """Reserve bytes of the budget for read-ahead, up to half of it; return whether it succeeded, as always with ``is_needed``."""
        with self._lock:
            if not is_needed and self._reserved + size > self._budget // 2:
                return False
            self._reserved += size
            self._shrink(0)
            return True

    def release(self, size: int) -> None:
        """Release reserved bytes."""
        with self._lock:
            self._reserved = max(0, self._reserved - size)

    def _fetch(self, name: Hashable, piece: _Range, fetch: Fetch) -> None:
        read = piece.read = fetch(piece.start, piece.end)
        read.add_done_callback(lambda done: self._arrived(name, piece, done))
        if piece.data.cancelled():
            # All readers left meanwhile.
            read.cancel()

    def _arrived(self, name: Hashable, piece: _Range, read: "Future[Buffer]") -> None:
        # Break the reference cycle of future, callback and piece, which would hold the bytes until the next garbage collection.
        piece.read = None
        if read.cancelled():
            self._fail(name, piece, CancelledError())
        elif (error := read.exception()) is not None:
            self._fail(name, piece, error)
        else:
            self._keep(name, piece, read.result())

    def _keep(self, name: Hashable, piece: _Range, data: Buffer) -> None:
        with self._lock:
            if not piece.data.set_running_or_notify_cancel():
                return  # removed meanwhile, without readers
            room = piece.end - piece.start
            if piece.is_kept and room <= self._budget - self._reserved:
                self._shrink(room)
                self._kept[name, piece.start] = piece
            else:
                self._remove(name, piece)
            piece.data.set_result(data)

    def _fail(self, name: Hashable, piece: _Range, error: BaseException) -> None:
        with self._lock:
            self._remove(name, piece)
            if piece.data.set_running_or_notify_cancel():
                piece.data.set_exception(error)

    def _leave(self, name: Hashable, pieces: list[_Range]) -> None:
        abandoned = []
        with self._lock:
            for piece in pieces:
                piece.readers -= 1
                if not piece.readers and piece.data.cancel():
                    self._remove(name, piece)
                    abandoned.append(piece)
        for piece in abandoned:
            if piece.read is not None:
                piece.read.cancel()

    def _remove(self, name: Hashable, piece: _Range) -> None:
        ranges = self._objects.get(name, [])
        at = bisect_left(ranges, piece.start, key=_START)
        if at < len(ranges) and ranges[at] is piece:
            del ranges[at]
            if not ranges:
                del self._objects[name]

    def _shrink(self, room: int) -> None:
        """Drop ranges until ``room`` more bytes fit."""
        while self._kept and self._kept.currsize + room > self._budget - self._reserved:
            (name, _), piece = self._kept.popitem()
            self._remove(name, piece)

    def after_fork(self) -> None:
        """Start empty, since a forked child has neither the parent's threads nor their reads."""
        self._reserved = 0
        self._objects: dict[Hashable, list[_Range]] = {}
        """The ranges of each object, ascending."""
        self._kept: LRUCache[tuple[Hashable, int], _Range] = LRUCache(
            1 << 62, getsizeof=lambda piece: piece.end - piece.start
        )


def _between(ranges: list[_Range], start: int, end: int) -> list[_Range]:
    """Return the ranges that have bytes between ``start`` and ``end``."""
    low = bisect_right(ranges, start, key=_START) - 1
    if low < 0 or ranges[low].end <= start:
        low += 1
    return ranges[low : bisect_left(ranges, end, key=_START)]


def _gaps(start: int, end: int, ranges: list[_Range]) -> Iterator[tuple[int, int]]:
    for one in ranges:
        if one.start > start:
            yield start, one.start
        start = max(start, one.end)
    if start < end:
        yield start, end


def _memory_size() -> int:
    """Return the memory of the machine in bytes, or the limit of the container if that is less."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CONTAINER_LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue  # not in a container
        if text.isdigit():
            sizes.append(int(text))
    return min(sizes)


def default_budget() -> int:
    """Return the budget from `BYTES_VARIABLE`; by default a quarter of the memory, at most `MOST_BYTES`."""
    text = os.environ.get(BYTES_VARIABLE, "").strip()
    if text.isdigit():
        return int(text)
    if text:
        _log.warning("%s=%r is ignored: not a number of bytes", BYTES_VARIABLE, text)
    return min(MOST_BYTES, _memory_size() // 4)


process_cache = BlockCache(default_budget())
"""The cache of this process."""
