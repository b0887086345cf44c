"""The lock of an export's folder: one exporter at a time, and none while an import reads the files; it ends with the process that holds it.

What an exporter lists while it holds the lock is no older than what earlier exports have written to the folder.
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
    """Make a folder, and keep others out of it; one that was made for nothing is removed after an error.

    Raises `ExportFolderError` if it cannot be made, or another export is writing to it, or an import reads it.
    """
    with naming(folder):
        is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_NAME
    with naming(path):
        # An earlier export may have left it; a link is not followed, and nothing is written to it.
        lock = os.fdopen(open_plain(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    with lock:
        _take(lock, path, fcntl.LOCK_EX, "an export or an import is at this folder")
        try:
            yield
        except BaseException:
            if is_new:
                _remove_unused(folder)
            raise


@contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Keep exporters out of a folder while it is read; nothing is done to a folder that no export was made to.

    Raises `ExportFolderError` if an export is writing to it.
    """
    lock = _left(folder / LOCK_NAME)
    if lock is None:
        yield
        return
    with lock:
        _take(lock, folder / LOCK_NAME, fcntl.LOCK_SH, "an export is writing to this folder, and it may lack rows")
        yield


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into `ExportFolderError` with the file's name; our own errors name their object already."""
    try:
        yield
    except LedgerfsError:
        raise
    except OSError as error:
        raise ExportFolderError.of(error, path) from error


def _left(path: Path) -> BinaryIO | None:
    """Open the lock that an export left; None without one."""
    with naming(path):
        try:
            return os.fdopen(open_plain(path, os.O_RDONLY), "rb")
        except FileNotFoundError:
            return None


def _take(lock: BinaryIO, path: Path, kind: int, told: str) -> None:
    """Lock at once, or raise `ExportFolderError` with what is told."""
    with naming(path.parent):
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise OSError(errno.EBUSY, told) from error
        # Its holder has removed it: who comes next makes another one, which this one does not keep out.
        if not _is_there(lock, path):
            raise OSError(errno.EBUSY, told)


def _is_there(lock: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _remove_unused(folder: Path) -> None:
    """Remove a folder in which only the lock is."""
    with suppress(OSError):
        if [one.name for one in folder.iterdir()] == [LOCK_NAME]:
            (folder / LOCK_NAME).unlink()
            folder.rmdir()
