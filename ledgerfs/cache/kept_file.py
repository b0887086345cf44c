"""A file that one process keeps for the next: replaced whole, sealed, and dropped when it is damaged.

Nothing depends on it. A file that cannot be read counts as missing; one that cannot be written is logged.
"""

import fcntl
import logging
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ledgerfs.cache.cache_folder import CacheFolder
from ledgerfs.cache.part_file import PartFile, part_file, whole_files
from ledgerfs.cache.sealed_file import SealedWriter, is_intact, read_seal
from ledgerfs.errors import CacheWriteError

IDLE_SECONDS = 90 * 24 * 3600
"""A file that was not opened for this long is removed when another one is written."""

_CLEANED_SECONDS = 60.0
"""How seldom idle files of one folder are looked for, which costs more the more files there are."""

_PAUSE = 0.02
_LOG = logging.getLogger("ledgerfs.cache")
_NAME = re.compile(r"[0-9a-f]{64}\.[a-z]+(\.part)?\Z")

Content = TypeVar("Content")
Parse = Callable[[int, int], Content]
"""Called with a descriptor and the bytes of its content; returns the value, and raises `ValueError` if the content is invalid."""


class KeptFile:
    """One file. Any number of processes may load and save it at once.

    Parameters
    ----------
    folder
        Its folder, which has others of its kind.
    kind
        Kind of content: the end of its name.
    identity
        Identity of its owner, such as a bucket; its digest is the file's name.
    layout
        Layout of the content: a file of another layout or identity is dropped.

    """

    __slots__ = ("_folder", "_name", "_state")

    def __init__(self, folder: CacheFolder, kind: str, identity: str, layout: object) -> None:
        self._folder = folder
        self._name = f"{sha256(identity.encode(errors='surrogateescape')).hexdigest()}.{kind}"
        self._state = sha256(repr((kind, identity, layout)).encode()).digest()

    @property
    def path(self) -> Path:
        """Its path, whether it exists or not."""
        return self._folder.path / self._name

    def load(self, parse: Parse[Content]) -> Content | None:
        """Return what ``parse`` returns for the file; None without a file that is whole and ours."""
        descriptor = self._folder.open_file(self._name)
        if descriptor is None:
            return None
        try:
            return self._parsed(descriptor, parse)
        except (ValueError, OSError) as error:
            self._drop(logging.WARNING, str(error))
            return None
        finally:
            os.close(descriptor)

    def save(self, write: Callable[[SealedWriter], None], patience: float = 0.0) -> bool:
        """Replace the file by what ``write`` writes, under a lock among all processes; return whether it was replaced.

        It is not replaced if it cannot be written, or if another process holds the lock for more than ``patience`` seconds.
        """
        give_up = time.monotonic() + patience
        while True:
            try:
                self._save(write)
            except BlockingIOError:
                if time.monotonic() >= give_up:
                    _LOG.debug("%s is being written by another process", self.path)
                    return False
                time.sleep(_PAUSE)
            except (OSError, CacheWriteError) as error:
                _LOG.info("%s cannot be written: %s", self.path, error.__cause__ or error)
                return False
            else:
                return True

    def _save(self, write: Callable[[SealedWriter], None]) -> None:
        folder = self._folder.require()
        _remove_idle(folder)
        with part_file(folder / f"{self._name}.part", lock=fcntl.LOCK_EX | fcntl.LOCK_NB) as part:
            self._write(part, write)

    def _write(self, part: PartFile, write: Callable[[SealedWriter], None]) -> None:
        writer = SealedWriter(part.descriptor)
        write(writer)
        writer.finish(self._state)
        part.path.rename(self.path)

    def _parsed(self, descriptor: int, parse: Parse[Content]) -> Content | None:
        stat = os.fstat(descriptor)
        seal = read_seal(descriptor)
        if seal is None or not is_intact(descriptor, seal):
            raise ValueError("it is damaged")
        if seal.state != self._state:
            self._drop(logging.INFO, "it is of another version of ledgerfs, or of another bucket")
            return None
        parsed = parse(descriptor, seal.size)
        with suppress(OSError):
            os.utime(descriptor, ns=(time.time_ns(), stat.st_mtime_ns))
        return parsed

    def _drop(self, level: int, reason: str) -> None:
        _LOG.log(level, "%s is dropped: %s", self.path, reason)
        with suppress(OSError):
            self.path.unlink()


def write_array(sink: SealedWriter, table: npt.NDArray[np.generic]) -> None:
    """Write the rows of an array."""
    sink.write(np.ascontiguousarray(table).reshape(-1).view(np.uint8).data)


def read_array(descriptor: int, start: int, table: npt.NDArray[np.generic]) -> int:
    """Fill an array from byte ``start`` on, and return where its bytes end; raises `ValueError` if the file ends before."""
    rest = memoryview(table.reshape(-1).view(np.uint8).data)
    while rest:
        count = os.preadv(descriptor, [rest], start)
        if count == 0:
            raise ValueError("it was truncated meanwhile")
        rest = rest[count:]
        start += count
    return start


_cleaned: dict[Path, float] = {}
"""{folder: when this process last looked for idle files in it}."""


def _remove_idle(folder: Path) -> None:
    """Remove files that were not opened for long, and parts of killed processes."""
    if time.monotonic() < _cleaned.get(folder, -_CLEANED_SECONDS) + _CLEANED_SECONDS:
        return
    _cleaned[folder] = time.monotonic()
    limit = time.time() - IDLE_SECONDS
    for path, stat in whole_files(folder, _NAME):
        if max(stat.st_atime, stat.st_mtime) < limit:
            path.unlink(missing_ok=True)
