"""Open files in folders that other users can write to, safe against planted links and files.

Links are never followed in the last component of a path. An own file or folder belongs to this user, and is writable only by this user.
Anything else raises `PermissionError` with the reason in ``strerror``.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISLNK, S_ISREG

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OF_OTHERS = 0o022


def open_plain(path: str | Path, flags: int, mode: int = 0o600, *, folder: int | None = None) -> int:
    """Open a regular file, never through a link, relative to ``folder`` if given; return its descriptor. Raises `OSError`."""
    try:
        descriptor = os.open(path, flags | _FILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused("a symbolic link, which is not followed", path) from error
        raise
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _refused("not a regular file", path)
    return descriptor


def open_own(path: str | Path, flags: int, mode: int = 0o600, *, folder: int | None = None) -> int:
    """Open an own regular file, as `open_plain`; refuse a file with further names (hard links)."""
    descriptor = open_plain(path, flags, mode, folder=folder)
    try:
        found = os.fstat(descriptor)
        _require_own(found, path)
        if found.st_nlink > 1:
            raise _refused("the file has other hard links", path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_own_folder(path: Path, *below: str) -> int:
    """Open a folder, or one below it; all folders on the way must be own ones. Raises `OSError`."""
    descriptor = _open_folder(path, None)
    for name in below:
        above = descriptor
        try:
            descriptor = _open_folder(name, above)
        finally:
            os.close(above)
    return descriptor


def open_in_own_folder(path: Path, name: str, *below: str) -> int:
    """Open the own file ``name`` for reading, in a folder or in one below it. Raises `OSError`."""
    folder = open_own_folder(path, *below)
    try:
        return open_own(name, os.O_RDONLY, folder=folder)
    finally:
        os.close(folder)


def require_own_folder(path: Path, *below: str) -> None:
    """Raise `OSError` unless a folder, and those named below it, exist and are own ones."""
    os.close(open_own_folder(path, *below))


def require_no_others_link(path: Path) -> None:
    """Raise `PermissionError` for a path that is another user's link; links of this user, or of root, are allowed."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        if S_ISLNK(found.st_mode) and found.st_uid not in {os.geteuid(), 0}:
            raise _refused("a symbolic link of another user, which is not followed", path)


def make_new(path: Path) -> int:
    """Create a file and return a descriptor to write it; raises `FileExistsError`, also for a link, and `OSError`."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666)


def _open_folder(path: str | Path, above: int | None) -> int:
    try:
        descriptor = os.open(path, _FOLDER, dir_fd=above)
    except NotADirectoryError as error:
        if not S_ISLNK(os.stat(path, dir_fd=above, follow_symlinks=False).st_mode):
            raise
        raise _refused("a symbolic link, which is not followed", path) from error
    try:
        _require_own(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _require_own(found: os.stat_result, path: str | Path) -> None:
    if found.st_uid != os.geteuid():
        raise _refused("it belongs to another user", path)
    if found.st_mode & _OF_OTHERS:
        raise _refused("other users may write to it", path)


def _refused(reason: str, path: str | Path) -> PermissionError:
    return PermissionError(errno.EACCES, reason, str(path))
