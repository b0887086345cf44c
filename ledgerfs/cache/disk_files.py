"""Sealed files in one folder of the cache: materialized files, catalogs and byte ranges, in one format and under one bound.

A file gets its name when it is complete; until then it is a part, locked by its writer (`ledgerfs.cache.part_file`). Several processes may
share the folder, be killed, and delete it. Open files stay readable after they are removed.
"""

import fcntl
import logging
import os
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from weakref import finalize

from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.disk_sweep import count_written
from ledgerfs.cache.part_file import PART, PartFile, part_file
from ledgerfs.cache.sealed_file import ALWAYS, Seal, SealedWriter, read_seal
from ledgerfs.cache.untrusted_folders import open_own
from ledgerfs.errors import StaleObjectError

_LOG = logging.getLogger("ledgerfs.cache")
_USE_NS = 60 * 10**9
"""Least time between two records of a use."""


class SealedFile:
    """An open file, for any number of threads. The last reference closes its descriptor."""

    __slots__ = ("__weakref__", "descriptor", "seal")

    def __init__(self, descriptor: int, seal: Seal) -> None:
        self.descriptor = descriptor
        self.seal = seal
        finalize(self, os.close, descriptor).atexit = False

    @property
    def size(self) -> int:
        """Size of the content in bytes."""
        return self.seal.size

    @property
    def identity(self) -> Hashable:
        """Inode and time of writing, since file systems reuse inode numbers."""
        stat = os.fstat(self.descriptor)
        return stat.st_dev, stat.st_ino, stat.st_mtime_ns

    def read(self, start: int, end: int) -> bytes:
        """Return bytes ``start`` to ``end``, which must be inside the content; raises `StaleObjectError` if the file was truncated."""
        data = os.pread(self.descriptor, end - start, start)
        while len(data) < end - start:
            more = os.pread(self.descriptor, end - start - len(data), start + len(data))
            if not more:
                raise self.was_cut()
            data += more
        return data

    def was_cut(self) -> StaleObjectError:
        """Return the error for a file that was truncated while open."""
        return StaleObjectError(f"the cached file of {self.size} bytes was truncated while it was open; open it again")

    def note_use(self) -> None:
        """Set the time of use, at most once a minute; keep the time of writing, which identifies the file."""
        found, now = os.fstat(self.descriptor), time.time_ns()
        if not 0 <= now - found.st_atime_ns < _USE_NS:
            with suppress(OSError):
                os.utime(self.descriptor, ns=(now, found.st_mtime_ns))


class DiskFiles:
    """The sealed files of one folder by name (64 hexadecimal digits, a dot, and a kind). Safe in threads and processes.

    Attributes
    ----------
    bound
        Most bytes of all files. Raises `InvalidOptionError` if the environment variable is not a number.

    """

    __slots__ = ("bound", "folder")

    def __init__(self, folder: CacheFolder) -> None:
        self.folder = folder
        self.bound = folder.max_bytes

    def path(self, name: str) -> Path:
        """Return the path of a file, whether it exists or not."""
        return self.folder.path / name

    def open(self, name: str) -> SealedFile | None:
        """Return an existing file; None if it is missing or not trusted. Removes a file with a damaged seal, and returns None."""
        descriptor = self.folder.open_file(name)
        if descriptor is None:
            return None
        found = SealedFile(descriptor, Seal(0, ALWAYS, b""))
        try:
            seal = read_seal(descriptor, name)
        except OSError as error:
            _LOG.warning("%s cannot be read: %s", self.path(name), error)
            return None
        if seal is None:
            self.remove_damaged(name)
            return None
        found.seal = seal
        return found

    @contextmanager
    def part(self, name: str, *, waits: bool = True) -> Iterator[PartFile]:
        """Yield the part of a file, empty and locked, for `keep`.

        Raises `OSError`, and `BlockingIOError` while another thread or process writes the file, unless ``waits`` is true.
        """
        lock = fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB
        with part_file(self.folder.path / (name + PART), lock=lock) as part:
            yield part

    def keep(self, name: str, part: PartFile, writer: SealedWriter, state: bytes = ALWAYS) -> SealedFile:
        """Seal a complete part, rename it, and return the file; raises `OSError`.

        Removes a file that is larger than the bound at once, so that others stay; the returned file stays readable.
        """
        seal = writer.finish(name, state)
        file = SealedFile(open_own(part.path, os.O_RDONLY), seal)
        path, bound = self.path(name), self.bound
        part.path.rename(path)
        if seal.size > bound:
            path.unlink(missing_ok=True)
            return file
        try:
            count_written(path.parent, seal.size, bound)
        except OSError as error:
            _LOG.info("cannot delete old files in %s: %s", path.parent, error)
        return file

    def remove_damaged(self, name: str) -> None:
        """Remove a file that does not match its seal."""
        _LOG.warning("%s is damaged and is removed", self.path(name))
        with suppress(OSError):
            self.path(name).unlink(missing_ok=True)
