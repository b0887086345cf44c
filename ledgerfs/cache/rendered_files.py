"""Files that are expensive to make, kept on disk: each is made once for all readers, and the least recently used are removed.

A file gets its name only when it is whole: until then it is ``<key>.part``, on which its maker holds a lock. So other readers of the same
file, in any process, wait for the lock; a part without a lock was left by a killed process, and is taken over or removed.
Open files can be read to their end even if they are removed.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast
from weakref import WeakValueDictionary, finalize

from cachetools import LRUCache

from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.part_file import PartFile, cannot_write, part_file, whole_files
from ledgerfs.cache.sealed_file import ALWAYS, Seal, SealedWriter, is_intact, read_seal
from ledgerfs.cache.untrusted_folders import open_own
from ledgerfs.errors import StaleObjectError
from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs.storage.single_flight import SingleFlight

_LOG = logging.getLogger("ledgerfs.cache")
_NAME = re.compile(r"[0-9a-f]{64}\.(file|part)\Z")
_REMEMBERED = 65536

Render = Callable[[BinaryIO], bool]
"""Writes a file's content, and returns whether it is always valid, not only in the current state."""


class CachedFile:
    """An open file, which any number of threads may read. Its descriptor is closed with the last reference to the file."""

    __slots__ = ("__weakref__", "descriptor", "seal")

    def __init__(self, descriptor: int, seal: Seal) -> None:
        self.descriptor = descriptor
        self.seal = seal
        finalize(self, os.close, descriptor).atexit = False

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return self.seal.size

    @property
    def identity(self) -> Hashable:
        """The file itself, and when it was written: numbers of files are given again."""
        stat = os.fstat(self.descriptor)
        return stat.st_dev, stat.st_ino, stat.st_mtime_ns

    def read(self, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end``, which have to be inside the content; raises `StaleObjectError` if the file was truncated."""
        data = os.pread(self.descriptor, end - start, start)
        while len(data) < end - start:
            more = os.pread(self.descriptor, end - start - len(data), start + len(data))
            if not more:
                raise self.was_cut()
            data += more
        return data

    def was_cut(self) -> StaleObjectError:
        """Return the error for a file that was truncated after it was opened."""
        return StaleObjectError(f"the cached file of {self.size} bytes was truncated while it was open; open it again")


class RenderedFiles:
    """The files of one folder by their keys (64 hexadecimal digits). Safe in threads, processes, and after a fork."""

    __slots__ = ("_flights", "_folder", "_lock", "_open", "_verified")

    def __init__(self, folder: CacheFolder) -> None:
        self._folder = folder
        self._flights: SingleFlight[CachedFile] = SingleFlight()
        self._open: WeakValueDictionary[str, CachedFile] = WeakValueDictionary()
        self._verified: LRUCache[str, tuple[int, int]] = LRUCache(_REMEMBERED)
        self._lock = ForkLock()

    def size(self, key: str, state: bytes = ALWAYS) -> int | None:
        """Return the bytes of an existing file, or None; reads its seal only."""
        opened = self._opened(key, state)
        if opened is not None:
            return opened.size
        descriptor = self._folder.open_file(f"{key}.file")
        if descriptor is None:
            return None
        try:
            seal = read_seal(descriptor)
        finally:
            os.close(descriptor)
        return seal.size if seal is not None and seal.holds_in(state) else None

    def open(self, key: str, render: Render, state: bytes = ALWAYS) -> CachedFile:
        """Return a file, made by ``render`` if there is none that is valid in this state.

        Raises `CacheWriteError` when the disk is full, and the errors of ``render``; then no file is left.
        """
        found = self._find(key, state)
        return found or self._flights.run((key, state), lambda: self._render(key, render, state))

    def _opened(self, key: str, state: bytes) -> CachedFile | None:
        with self._lock:
            opened = self._open.get(key)
        return opened if opened is not None and opened.seal.holds_in(state) else None

    def _find(self, key: str, state: bytes) -> CachedFile | None:
        """Return an existing file that is intact and valid; a damaged one is removed."""
        found = self._opened(key, state)
        if found is None:
            path = self._path(key)
            descriptor = self._folder.open_file(path.name)
            if descriptor is None:
                return None
            seal = read_seal(descriptor)
            found = CachedFile(descriptor, seal or Seal(0, ALWAYS, 0))
            if seal is None or not (self._is_verified(key, found) or is_intact(descriptor, seal)):
                _LOG.warning("%s is damaged: it is made again", path)
                path.unlink(missing_ok=True)
                return None
            if not seal.holds_in(state):
                return None
            self._remember(key, found)
        _touch(found.descriptor)
        return found

    def _is_verified(self, key: str, file: CachedFile) -> bool:
        """Whether this process has already compared this same file with its checksum."""
        with self._lock:
            return self._verified.get(key) == _identity(file)

    def _remember(self, key: str, file: CachedFile) -> None:
        """Remember that a file is intact, so that the next `open` need not read it."""
        with self._lock:
            self._open[key] = file
            self._verified[key] = _identity(file)

    def _render(self, key: str, render: Render, state: bytes) -> CachedFile:
        folder = self._folder.make()
        self._make_room(folder)
        with part_file(folder / f"{key}.part") as part:
            # Another process may have made it while this one waited for the lock.
            file = self._find(key, state) or self._write(key, part, render, state)
        self._make_room(folder, newest=f"{key}.file")
        return file

    def _write(self, key: str, part: PartFile, render: Render, state: bytes) -> CachedFile:
        writer = SealedWriter(part.descriptor)
        try:
            is_final = render(cast("BinaryIO", writer))
            seal = writer.finish(ALWAYS if is_final else state)
        except Exception:
            if writer.failure is None:
                raise
            raise cannot_write(part.path.parent, writer.failure) from writer.failure
        try:
            made = CachedFile(open_own(part.path, os.O_RDONLY), seal)
            part.path.rename(self._path(key))
        except OSError as error:
            raise cannot_write(part.path.parent, error) from error
        self._remember(key, made)
        return made

    def _make_room(self, folder: Path, newest: str = "") -> None:
        """Remove dead parts, and the least recently used files until the rest is within its bound.

        A single file that is larger than the bound is removed at once: its readers have it open.
        """
        files = sorted(whole_files(folder, _NAME), key=lambda file: (file[0].name == newest, file[1].st_atime_ns))
        held = sum(stat.st_size for _, stat in files)
        limit = self._folder.max_bytes(held)
        if files and files[-1][0].name == newest and files[-1][1].st_size > limit:
            files = files[-1:]
        for path, stat in files:
            if held <= limit:
                return
            path.unlink(missing_ok=True)
            held -= stat.st_size

    def _path(self, key: str) -> Path:
        return self._folder.path / f"{key}.file"


def _identity(file: CachedFile) -> tuple[int, int]:
    stat = os.fstat(file.descriptor)
    return stat.st_ino, stat.st_mtime_ns


def _touch(descriptor: int) -> None:
    """Set a file's time of use. Its time of writing stays, since that identifies it."""
    with suppress(OSError):
        os.utime(descriptor, ns=(time.time_ns(), os.fstat(descriptor).st_mtime_ns))
