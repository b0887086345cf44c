"""Keep a folder of sealed files within its bound: remove the least recently used files.

Processes that share the folder count together: for every page that a process writes, it appends a byte to the file ``written``. So the
size of ``written`` is the number of pages since the last sweep; its access time, which only sweeps change, is the time of that sweep. A
sweep counts the files themselves, which corrects the count after a crash.
"""

import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ledgerfs.cache.part_file import PART, part_file, remove_dead
from ledgerfs.cache.untrusted_folders import open_own

NAME = re.compile(r"[0-9a-f]{64}\.[a-z0-9-]+\Z")
"""Names of sealed files: a digest, and a kind or a range."""

IDLE_SECONDS = 30 * 86400
"""Unused files of this age are removed, even if there is room."""

_WRITTEN = "written"
_LOCK = f"sweep{PART}"
_PAGE = 4096
_SWEEP_SECONDS = 86400.0
_SWEEP_SHARE = 20
_STOP_SHARE = 10
_TARGET = 0.9
_MIN_FREE = 1 << 30
_FREE_SHARE = 20
_UNKNOWN_ROOM = 1 << 62


class _Held(NamedTuple):
    """A file: time of last use (ns since 1970), bytes on disk, and path."""

    used_ns: int
    size: int
    path: str


def room(folder: Path) -> int:
    """Return how many bytes may be written so that the file system keeps space for other uses; raises `OSError`."""
    found = os.statvfs(folder)
    if not found.f_blocks:
        # Some network file systems do not report it.
        return _UNKNOWN_ROOM
    return found.f_frsize * found.f_bavail - min(_MIN_FREE, found.f_frsize * found.f_blocks // _FREE_SHARE)


def count_written(folder: Path, size: int, bound: int) -> None:
    """Count a written file; sweep if 5 % of the bound were written since the last sweep, or after a day. Raises `OSError`."""
    descriptor = open_own(folder / _WRITTEN, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, bytes(_pages(size)))
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    # A time in the future: the clock was set back.
    is_long_ago = abs(time.time() - found.st_atime) > _SWEEP_SECONDS
    if found.st_size * _PAGE >= bound // _SWEEP_SHARE or is_long_ago:
        sweep(folder, bound)


def is_behind(folder: Path, bound: int) -> bool:
    """Return whether 10 % of the bound were written since the last sweep; then callers do not write byte ranges."""
    return _written(folder) * _PAGE >= max(bound // _STOP_SHARE, _PAGE)


def sweep(folder: Path, bound: int, *, is_full: bool = False) -> None:
    """Remove dead parts, idle files, and the least recently used ones beyond 90 % of the bound, unless another process does so.

    With ``is_full``, after a write failed for lack of room (also by a quota), removes at least a tenth. Raises `OSError`.
    """
    with suppress(BlockingIOError), part_file(folder / _LOCK, lock=fcntl.LOCK_EX | fcntl.LOCK_NB):
        counted = _written(folder)
        now = time.time_ns()
        files = sorted(_files(folder, now))
        held = sum(one.size for one in files)
        target = int(_TARGET * min(bound, held + room(folder), held if is_full else bound))
        for one in files:
            if held <= target and one.used_ns > now - IDLE_SECONDS * 10**9:
                break
            with suppress(OSError):
                Path(one.path).unlink(missing_ok=True)
                held -= one.size
        _forget(folder, counted)


def _files(folder: Path, now: int) -> Iterator[_Held]:
    """Yield the files of the folder, and remove dead parts."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not NAME.match(entry.name.removesuffix(PART)) or not entry.is_file(follow_symlinks=False):
                continue
            if entry.name.endswith(PART):
                remove_dead(Path(entry.path))
                continue
            with suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                yield _Held(_used(entry.path, found, now), _pages(found.st_size) * _PAGE, entry.path)


def _used(path: str, found: os.stat_result, now: int) -> int:
    """Return a file's time of last use; set a time in the future (the clock was wrong) to now."""
    if found.st_atime_ns <= now:
        return found.st_atime_ns
    with suppress(OSError):
        os.utime(path, ns=(now, found.st_mtime_ns), follow_symlinks=False)
    return now


def _written(folder: Path) -> int:
    try:
        return (folder / _WRITTEN).lstat().st_size
    except FileNotFoundError:
        return 0


def _forget(folder: Path, counted: int) -> None:
    """Subtract the pages that a sweep has counted, after its end, since it may be killed. May lose a few bytes appended just now."""
    descriptor = open_own(folder / _WRITTEN, os.O_WRONLY | os.O_CREAT)
    try:
        os.ftruncate(descriptor, max(0, os.fstat(descriptor).st_size - counted))
        os.utime(descriptor, ns=(time.time_ns(), time.time_ns()))
    finally:
        os.close(descriptor)


def _pages(size: int) -> int:
    return -(-size // _PAGE)
