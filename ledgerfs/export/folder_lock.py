"""The lock of an export's folder: one exporter at a time, and none while an import reads the files; released when the process exits.

A listing that an exporter makes under the lock is at least as new as the files of earlier exports.
"""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ledgerfs.cache.untrusted_folders import open_plain
from ledgerfs.errors import ExportFolderError, LedgerfsError

LOCK_NAME = ".ledgerfs-export.lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create a folder and lock it; after an error, remove a new folder that is still empty.

    Raises `ExportFolderError` if it cannot be created, or another export is writing to it, or an import reads it.
    """
    with naming(folder):
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_NAME
    with naming(path):
        # The lock file of an earlier export may exist. Never follow a link, never write to the file.
        lock = os.fdopen(open_plain(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    with lock:
        _take(lock, path, fcntl.LOCK_EX, "another export or import is using this folder; try again later")
        try:
            yield
        except BaseException:
            if is_new:
                _remove_unused(folder)
            raise


@contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Lock exporters out of a folder while it is read; does nothing for a folder without an export.

    Raises `ExportFolderError` if an export is writing to it.
    """
    lock = _left(folder / LOCK_NAME)
    if lock is None:
        yield
        return
    with lock:
        _take(
            lock,
            folder / LOCK_NAME,
            fcntl.LOCK_SH,
            "an export is writing to this folder, so rows may be missing; try again later",
        )
        yield


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Convert `OSError` to `ExportFolderError` with the file's name; ledgerfs errors already contain their object."""
    try:
        yield
    except LedgerfsError:
        raise
    except OSError as error:
        raise ExportFolderError.of(error, path) from error


def _left(path: Path) -> BinaryIO | None:
    """Open the lock file of an earlier export; None without one."""
    with naming(path):
        try:
            return os.fdopen(open_plain(path, os.O_RDONLY), "rb")
        except FileNotFoundError:
            return None


def _take(lock: BinaryIO, path: Path, kind: int, reported: str) -> None:
    """Lock without waiting, or raise `ExportFolderError` with that reason."""
    with naming(path.parent):
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(errno.EBUSY, reported) from error
        # Its holder has removed the file: the next exporter creates another one, which this lock would not exclude.
        if not _is_there(lock, path):
            raise OSError(errno.EBUSY, reported)


def _is_there(lock: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _remove_unused(folder: Path) -> None:
    """Remove a folder that contains only the lock."""
    with suppress(OSError):
        if [one.name for one in folder.iterdir()] == [LOCK_NAME]:
            (folder / LOCK_NAME).unlink()
            folder.rmdir()
