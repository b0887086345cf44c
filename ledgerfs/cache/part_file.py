"""A part: an unfinished file under a temporary name, written by one process at a time.

Its writer holds a lock on it, which the kernel releases whenever the process ends. So a part without a lock is dead.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ledgerfs.cache.untrusted_folders import open_own
from ledgerfs.forked import run_in_child

PART = ".part"
"""Suffix of a part's name."""


class PartFile(NamedTuple):
    """A part and its descriptor, which holds the lock."""

    path: Path
    descriptor: int


@contextmanager
def part_file(path: Path, flags: int = os.O_RDWR | os.O_CREAT, lock: int = fcntl.LOCK_EX) -> Iterator[PartFile]:
    """Wait for the lock, and yield an empty, locked part; remove it at the end unless it was renamed. Raises `OSError`."""
    descriptor = _lock(path, flags, lock)
    try:
        os.ftruncate(descriptor, 0)
        yield PartFile(path, descriptor)
    finally:
        if _is_at(descriptor, path):
            path.unlink(missing_ok=True)
        _close(descriptor)


def remove_dead(path: Path) -> None:
    """Remove a part without a lock; do not follow a link."""
    with suppress(OSError), part_file(path, os.O_RDWR | os.O_NOFOLLOW, fcntl.LOCK_EX | fcntl.LOCK_NB):
        pass


def _lock(path: Path, flags: int, lock: int) -> int:
    while True:
        descriptor = open_own(path, flags)
        _locks.add(descriptor)
        try:
            fcntl.flock(descriptor, lock)
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            _close(descriptor)
            raise
        # The previous holder of the lock has renamed or removed it.
        _close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


_locks: set[int] = set()
"""Descriptors that hold locks. A forked child inherits them, and would hold the locks after its parent's end."""


def _close(descriptor: int) -> None:
    _locks.discard(descriptor)
    os.close(descriptor)


@run_in_child
def _close_all() -> None:
    for descriptor in list(_locks):
        _close(descriptor)
