"""A part: a file that is being made, under a name of its own, by one process at a time.

Its maker holds a lock on it, which the kernel releases when the process ends in any way. So a part without a lock is dead.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ledgerfs.cache.cache_folder import HINT
from ledgerfs.cache.untrusted_folders import open_own
from ledgerfs.errors import CacheWriteError


class PartFile(NamedTuple):
    """A part, and its descriptor, which holds the lock."""

    path: Path
    descriptor: int


@contextmanager
def part_file(path: Path, flags: int = os.O_RDWR | os.O_CREAT, lock: int = fcntl.LOCK_EX) -> Iterator[PartFile]:
    """Yield an empty, locked part, after waiting for the lock; it is removed at the end unless it was renamed. Raises `CacheWriteError`."""
    descriptor = _lock(path, flags, lock)
    try:
        os.ftruncate(descriptor, 0)
        yield PartFile(path, descriptor)
    finally:
        if _is_at(descriptor, path):
            path.unlink(missing_ok=True)
        _close(descriptor)


def remove_dead(path: Path) -> None:
    """Remove a part that no process is making; a link is not followed."""
    with suppress(OSError), part_file(path, os.O_RDWR | os.O_NOFOLLOW, fcntl.LOCK_EX | fcntl.LOCK_NB):
        pass


def whole_files(folder: Path, name: re.Pattern[str]) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files whose names match, and remove dead parts of such names.

    Files of other users are left alone, and a missing folder is empty.
    """
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if not name.match(entry.name):
                continue
            if entry.name.endswith(".part"):
                remove_dead(Path(entry.path))
                continue
            with suppress(FileNotFoundError):
                yield Path(entry.path), entry.stat(follow_symlinks=False)


def cannot_write(folder: Path, error: OSError) -> CacheWriteError:
    """Return our error for a file that could not be written to a cache folder."""
    reason = error.strerror or str(error)
    return CacheWriteError(
        f"it cannot be rendered into {folder}: {reason}; free some space, or name another folder: {HINT}"
    )


def _lock(path: Path, flags: int, lock: int) -> int:
    while True:
        try:
            descriptor = open_own(path, flags)
        except PermissionError as error:
            # A link, or a file with another name, must not be truncated.
            raise cannot_write(path, error) from error
        except OSError as error:
            raise cannot_write(path.parent, error) from error
        _locks.add(descriptor)
        try:
            fcntl.flock(descriptor, lock)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            _close(descriptor)
            raise
        # The process that held the lock before has renamed or removed it.
        _close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


_locks: set[int] = set()
"""Descriptors that hold locks. A forked child has them too, and would keep the locks after its parent's end."""


def _close(descriptor: int) -> None:
    _locks.discard(descriptor)
    os.close(descriptor)


def _close_all() -> None:
    for descriptor in list(_locks):
        _close(descriptor)


os.register_at_fork(after_in_child=_close_all)
