"""A file that one process leaves for the next: replaced whole, sealed, and dropped when it is not as it was written.

Nothing depends on it. What cannot be read counts as not there; what cannot be written is a line in the log.
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
"""A file that nobody opened for so long is removed when another one is written."""

_PAUSE = 0.02
_LOG = logging.getLogger("ledgerfs.cache")
_NAME = re.compile(r"[0-9a-f]{64}\.[a-z]+(\.part)?\Z")

Content = TypeVar("Content")
Parse = Callable[[int, int], Content]
"""Makes something of a descriptor and the bytes of content there; raises `ValueError` where the content contradicts itself."""


class KeptFile:
    """One file. Any number of processes may load and save it at once.

    Parameters
    ----------
    folder
        Where it lies, beside others of its kind.
    kind
        What is in it: the end of its name.
    identity
        What it belongs to, of which its name is a digest.
    layout
        How the content is laid out: a file of another layout, or of something else than ``identity``, is dropped.

    """

    __slots__ = ("_folder", "_name", "_state")

    def __init__(self, folder: CacheFolder, kind: str, identity: str, layout: object) -> None:
        self._folder = folder
        self._name = f"{sha256(identity.encode(errors='surrogateescape')).hexdigest()}.{kind}"
        self._state = sha256(repr((kind, identity, layout)).encode()).digest()

    @property
    def path(self) -> Path:
        """Where it is, if it is there."""
        return self._folder.path / self._name

    def load(self, parse: Parse[Content]) -> Content | None:
        """Return what ``parse`` makes of the file; None where there is none, or none that is whole and ours."""
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
        """Replace the file by what ``write`` writes, alone among all processes meanwhile; return whether it was replaced.

        It is not when it cannot be written, or when another process is writing it and goes on so for more than ``patience`` seconds.
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
            raise ValueError("it is not as it was written")
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
    """Fill an array from byte ``start`` on, and return where its bytes end; raises `ValueError` where there are not as many."""
    rest = memoryview(table.reshape(-1).view(np.uint8).data)
    while rest:
        count = os.preadv(descriptor, [rest], start)
        if count == 0:
            raise ValueError("it was cut meanwhile")
        rest = rest[count:]
        start += count
    return start


def _remove_idle(folder: Path) -> None:
    """Remove what was not opened for long, and what killed processes left."""
    limit = time.time() - IDLE_SECONDS
    for path, stat in whole_files(folder, _NAME):
        if max(stat.st_atime, stat.st_mtime) < limit:
            path.unlink(missing_ok=True)
