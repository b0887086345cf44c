"""Materialized files: each is written once for all readers in any process, and cached on disk."""

import logging
import os
from collections.abc import Callable, Hashable
from typing import BinaryIO, cast
from weakref import WeakValueDictionary

from cachetools import LRUCache

from ledgerfs.cache.cache_folder import HINT
from ledgerfs.cache.disk_files import DiskFiles, SealedFile
from ledgerfs.cache.part_file import PartFile
from ledgerfs.cache.sealed_file import ALWAYS, SealedWriter
from ledgerfs.errors import CacheWriteError, LedgerfsError
from ledgerfs.forked import ForkLock
from ledgerfs.storage.single_flight import SingleFlight

_LOG = logging.getLogger("ledgerfs.cache")
_REMEMBERED = 65536

Render = Callable[[BinaryIO], bool]
"""Writes a file's content, and returns whether it is valid in every state, not only in the current one."""


class RenderedFiles:
    """Materialized files by key (64 hexadecimal digits). Safe in threads, processes, and after a fork."""

    __slots__ = ("_files", "_flights", "_lock", "_open", "_verified")

    def __init__(self, files: DiskFiles) -> None:
        self._files = files
        self._flights: SingleFlight[SealedFile] = SingleFlight()
        self._open: WeakValueDictionary[str, SealedFile] = WeakValueDictionary()
        self._verified: LRUCache[str, Hashable] = LRUCache(_REMEMBERED)
        self._lock = ForkLock()

    def size(self, key: str, state: bytes = ALWAYS) -> int | None:
        """Return the size of an existing file in bytes, or None; reads only its seal."""
        found = self._opened(key, state) or self._files.open(_name(key))
        return found.size if found is not None and found.seal.holds_in(state) else None

    def open(self, key: str, render: Render, state: bytes = ALWAYS) -> SealedFile:
        """Return a file; write it with ``render`` if there is none that is valid in this state.

        Raises `CacheWriteError` if the disk is full, and the errors of ``render``; then leaves no file.
        """
        found = self._find(key, state)
        return found or self._flights.run((key, state), lambda: self._render(key, render, state))

    def _opened(self, key: str, state: bytes) -> SealedFile | None:
        with self._lock:
            opened = self._open.get(key)
        return opened if opened is not None and opened.seal.holds_in(state) else None

    def _find(self, key: str, state: bytes) -> SealedFile | None:
        """Return an existing file that is intact and valid; remove a damaged one."""
        found = self._opened(key, state)
        if found is None:
            found = self._files.open(_name(key))
            if found is None:
                return None
            if not (self._is_verified(key, found) or found.seal.is_intact(found.descriptor)):
                self._files.remove_damaged(_name(key))
                return None
            if not found.seal.holds_in(state):
                return None
            self._remember(key, found)
        found.note_use()
        return found

    def _is_verified(self, key: str, file: SealedFile) -> bool:
        """Return whether this process has already verified this same file."""
        with self._lock:
            return self._verified.get(key) == file.identity

    def _remember(self, key: str, file: SealedFile) -> None:
        """Record that a file is intact, so that the next `open` need not read it."""
        with self._lock:
            self._open[key] = file
            self._verified[key] = file.identity

    def _render(self, key: str, render: Render, state: bytes) -> SealedFile:
        folder = self._files.folder.make()
        try:
            with self._files.part(_name(key)) as part:
                # Another process may have written it while this one waited for the lock.
                return self._find(key, state) or self._write(key, part, render, state)
        except LedgerfsError:
            raise
        except OSError as error:
            raise _cannot_write(error, str(folder)) from error

    def _write(self, key: str, part: PartFile, render: Render, state: bytes) -> SealedFile:
        writer = SealedWriter(part.descriptor)
        try:
            is_final = render(cast("BinaryIO", writer))
        except Exception:
            if writer.failure is None:
                raise
            raise _cannot_write(writer.failure, str(part.path.parent)) from writer.failure
        made = self._files.keep(_name(key), part, writer, ALWAYS if is_final else state)
        self._remember(key, made)
        return made


def _name(key: str) -> str:
    return f"{key}.file"


def _cannot_write(error: OSError, folder: str) -> CacheWriteError:
    place = f"{folder} ({os.path.basename(error.filename)})" if isinstance(error.filename, str) else folder  # noqa: PTH119
    reason = error.strerror or str(error)
    return CacheWriteError(
        f"the file cannot be written to the cache folder {place}: {reason}; free some space, or choose another folder with {HINT}"
    )
