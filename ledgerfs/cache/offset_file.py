"""Learned offsets, kept from one process to the next.

The file is read when the offsets of the first object are asked for. New offsets are merged into it, with those that other processes wrote
meanwhile, every few seconds at most, and at the end of the process. A killed process loses those that it had not written yet.
"""

import os
import time
from dataclasses import dataclass
from hashlib import blake2b
from struct import Struct
from weakref import WeakSet, finalize

import numpy as np
from cachetools import LRUCache

from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.kept_file import KeptFile, read_array, write_array
from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.cache.offset_table import GROUP, ObjectDigests, OffsetTable
from ledgerfs.cache.sealed_file import SealedWriter
from ledgerfs.storage.fork_lock import ForkLock

MAX_BYTES = 32 << 20
"""Most bytes of a file, enough for the pairs of 2 TiB; the oldest pairs are dropped first."""

SAVE_SECONDS = 10.0
"""Least seconds between two merges."""

_SHARE = 50
"""Merging takes at most one part in this many of the time."""

_LAST_PATIENCE = 1.0
_HANDED_OUT = 2048
_SHARED_FILES = 16
_HEADER = Struct("<QQ")
_LAYOUT = (2, GROUP.descr)
"""Files of layout 1 may hold guessed offsets."""


@dataclass(slots=True)
class _HandedOut:
    """The offsets of one object, which a reader has, and their counts when they were written to the file."""

    offsets: LearnedOffsets
    learned: int = 0
    cleared: int = 0

    @property
    def has_news(self) -> bool:
        return self.offsets.learned > self.learned or self.is_disproved

    @property
    def is_disproved(self) -> bool:
        return self.offsets.cleared > self.cleared

    def settle(self, learned: int, cleared: int) -> None:
        self.learned, self.cleared = learned, cleared


class _State:
    """The known offsets, and those that are not in the file yet. Separate from `OffsetFile`, so that it outlives that."""

    __slots__ = ("__weakref__", "_due", "_file", "_handed_out", "_lock", "_table")

    def __init__(self, file: KeptFile) -> None:
        self._file = file
        self._table: OffsetTable | None = None
        self._handed_out: dict[ObjectDigests, _HandedOut] = {}
        self._due = time.monotonic() + SAVE_SECONDS
        self._lock = ForkLock()
        _states.add(self)

    def offsets_of(self, origin: ObjectDigests) -> LearnedOffsets:
        with self._lock:
            handed = self._handed_out.pop(origin, None)
            if handed is None:
                if self._table is None:
                    self._table = self._file.load(_parse) or OffsetTable.empty()
                handed = _HandedOut(self._table.offsets_of(origin))
            self._handed_out[origin] = handed
            if len(self._handed_out) > 2 * _HANDED_OUT:
                self.save()
            return handed.offsets

    def save_if_due(self) -> None:
        if time.monotonic() >= self._due:
            self.save()

    def save(self, patience: float = 0.0) -> None:
        """Merge new offsets into the file; if other processes hold it for more than ``patience`` seconds, they wait for the next time."""
        with self._lock:
            began = time.monotonic()
            self._merge(patience)
            ended = time.monotonic()
            self._due = ended + max(SAVE_SECONDS, _SHARE * (ended - began))
            for origin in list(self._handed_out)[:-_HANDED_OUT]:
                del self._handed_out[origin]

    def disown(self) -> None:
        """Leave the offsets learned so far to the parent process."""
        for handed in self._handed_out.values():
            handed.settle(handed.offsets.learned, handed.offsets.cleared)

    def _merge(self, patience: float) -> None:
        news = {origin: handed for origin, handed in self._handed_out.items() if handed.has_news}
        counts = {origin: (handed.offsets.learned, handed.offsets.cleared) for origin, handed in news.items()}
        disproved = {origin for origin, handed in news.items() if handed.is_disproved}
        learned = {origin: handed.offsets for origin, handed in news.items()}

        def write(sink: SealedWriter) -> None:
            found = self._file.load(_parse) or OffsetTable.empty()
            self._table = found.merged(learned, MAX_BYTES, disproved)
            _write(sink, self._table)

        if news and self._file.save(write, patience):
            for origin, handed in news.items():
                handed.settle(*counts[origin])


class OffsetFile:
    """The learned offsets of the objects of one bucket. Safe in threads, processes, and after a fork.

    Parameters
    ----------
    folder
        The folder of the file.
    identity
        Identity of the bucket.

    """

    __slots__ = ("__weakref__", "_state")

    def __init__(self, folder: CacheFolder, identity: str) -> None:
        self._state = _State(KeptFile(folder, "offsets", identity, _LAYOUT))
        finalize(self, self._state.save, _LAST_PATIENCE)

    def save_if_due(self) -> None:
        """Write new offsets, unless that was done some seconds ago."""
        self._state.save_if_due()

    def save(self) -> None:
        """Write new offsets now."""
        self._state.save()

    def offsets_of(self, key: bytes, version: bytes) -> LearnedOffsets:
        """Return the offsets of an object in this version; those that the caller adds are kept, too."""
        return self._state.offsets_of(ObjectDigests(_digest(key), _digest(version)))


def shared_offset_file(folder: CacheFolder, identity: str) -> OffsetFile:
    """Return the file, the same one for all callers in this process.

    It is held here, since a reader may outlive its bucket, and the offsets that it learns then are kept, too.
    """
    name = (str(folder.path), identity)
    with _shared_lock:
        file = _shared.get(name)
        if file is None:
            file = _shared[name] = OffsetFile(folder, identity)
        return file


_shared: "LRUCache[tuple[str, str], OffsetFile]" = LRUCache(_SHARED_FILES)
_shared_lock = ForkLock()


def _digest(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")


def _write(sink: SealedWriter, table: OffsetTable) -> None:
    sink.write(_HEADER.pack(len(table.groups), len(table.pairs)))
    write_array(sink, table.groups)
    write_array(sink, table.pairs)


def _parse(descriptor: int, size: int) -> OffsetTable:
    groups_count, pairs_count = _HEADER.unpack(os.pread(descriptor, _HEADER.size, 0))
    if size != _HEADER.size + GROUP.itemsize * groups_count + 16 * pairs_count:
        raise ValueError("its size and its counts differ")
    groups, pairs = np.empty(groups_count, GROUP), np.empty((pairs_count, 2), np.int64)
    read_array(descriptor, read_array(descriptor, _HEADER.size, groups), pairs)
    return OffsetTable.of(groups, pairs)


_states: "WeakSet[_State]" = WeakSet()


def _disown_all() -> None:
    for state in list(_states):
        state.disown()


os.register_at_fork(after_in_child=_disown_all)
