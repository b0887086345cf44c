"""A cached file that one process stores for the next: replaced as a whole, and dropped when damaged.

It is optional: an unreadable file counts as missing, and a failed write is logged.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ledgerfs.cache.disk_files import DiskFiles, SealedFile
from ledgerfs.cache.sealed_file import SealedWriter

_LOG = logging.getLogger("ledgerfs.cache")

Content = TypeVar("Content")
Parse = Callable[[int, int], Content]
"""Called with a descriptor and the size of its content; returns the value, and raises `ValueError` for invalid content."""


class KeptFile:
    """One file. Any number of processes may load and save it concurrently.

    Parameters
    ----------
    files
        The folder of the file.
    kind
        Kind of content: the suffix of its name.
    identity
        Identity of its owner, such as a bucket; the file is named by its digest.
    layout
        Layout of the content, such as a dtype; a file of another layout is dropped.

    """

    __slots__ = ("_files", "_name", "_state")

    def __init__(self, files: DiskFiles, kind: str, identity: str, layout: object) -> None:
        self._files = files
        self._name = f"{sha256(identity.encode(errors='surrogateescape')).hexdigest()}.{kind}"
        self._state = sha256(repr((kind, layout)).encode()).digest()

    def load(self, parse: Parse[Content]) -> Content | None:
        """Return the result of ``parse`` for the file; None if the file is missing, damaged or not trusted."""
        found = self._files.open(self._name)
        if found is None:
            return None
        try:
            return self._parsed(found, parse)
        except (ValueError, OSError) as error:
            self._drop(logging.WARNING, str(error))
            return None

    def save(self, write: Callable[[SealedWriter], None]) -> bool:
        """Replace the file by the output of ``write``; return whether it was replaced.

        Does not replace the file if the write fails, or while another process writes it.
        """
        try:
            self._files.folder.require()
            with self._files.part(self._name, waits=False) as part:
                writer = SealedWriter(part.descriptor)
                write(writer)
                self._files.keep(self._name, part, writer, self._state)
        except BlockingIOError:
            return False
        except OSError as error:
            _LOG.info("%s cannot be written: %s", self._files.path(self._name), error)
            return False
        return True

    def _parsed(self, found: SealedFile, parse: Parse[Content]) -> Content | None:
        if not found.seal.is_intact(found.descriptor):
            raise ValueError("it is damaged")
        if found.seal.state != self._state:
            self._drop(logging.INFO, "another version of ledgerfs wrote it")
            return None
        parsed = parse(found.descriptor, found.size)
        found.note_use()
        return parsed

    def _drop(self, level: int, reason: str) -> None:
        path = self._files.path(self._name)
        _LOG.log(level, "%s is deleted: %s", path, reason)
        with suppress(OSError):
            path.unlink()


def write_array(sink: SealedWriter, table: npt.NDArray[np.generic]) -> None:
    """Write the rows of an array."""
    sink.write(np.ascontiguousarray(table).reshape(-1).view(np.uint8).data)


def read_array(descriptor: int, start: int, table: npt.NDArray[np.generic]) -> int:
    """Fill an array from byte ``start`` on, and return the offset after it; raises `ValueError` if the file is too short."""
    rest = memoryview(table.reshape(-1).view(np.uint8).data)
    while rest:
        count = os.preadv(descriptor, [rest], start)
        if count == 0:
            raise ValueError("it was truncated while it was read")
        rest = rest[count:]
        start += count
    return start
