"""The bound of a folder of sealed files: the least recently used are removed, until the rest is within it.

The processes that share the folder count together: each appends a byte to the file ``written`` for every page of a file that it has
written. So the size of ``written`` is what all of them wrote since the last sweep; its time of access, which only sweeps change, is when
that was. A sweep counts the files themselves, so that no crash and no other process can make the count wrong for long.
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
"""Files that were not used for this long are removed, even if there is room."""

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
    """A file: when it was used last (ns since 1970), its bytes on the disk, and its path."""

    used_ns: int
    size: int
    path: str


def room(folder: Path) -> int:
    """Return how many bytes may be written before the file system is too full for others; raises `OSError`."""
    found = os.statvfs(folder)
    if not found.f_blocks:
        # Some network file systems do not report it.
        return _UNKNOWN_ROOM
    return found.f_frsize * found.f_bavail - min(_MIN_FREE, found.f_frsize * found.f_blocks // _FREE_SHARE)


def count_written(folder: Path, size: int, bound: int) -> None:
    """Count a file that was written; sweep if 5 % of the bound were written since the last sweep, or a day has passed. Raises `OSError`."""
    descriptor = open_own(folder / _WRITTEN, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, bytes(_pages(size)))
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    # A sweep in the future: the clock was set back.
    is_long_ago = abs(time.time() - found.st_atime) > _SWEEP_SECONDS
    if found.st_size * _PAGE >= bound // _SWEEP_SHARE or is_long_ago:
        sweep(folder, bound)


def is_behind(folder: Path, bound: int) -> bool:
    """Whether sweeps do not keep pace: 10 % of the bound were written since the last one. Then what can be fetched again is not written."""
    return _written(folder) * _PAGE >= max(bound // _STOP_SHARE, _PAGE)


def sweep(folder: Path, bound: int, *, is_full: bool = False) -> None:
    """Remove dead parts, idle files, and the least recently used ones beyond 90 % of the bound, unless another process does so.

    With ``is_full`` a write has failed for lack of room, which quotas cause as well: then at least a tenth is removed. Raises `OSError`.
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
    """Yield the files of the folder; removes dead parts."""
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
    """Return when a file was used; if that is in the future (the clock was wrong), it is set to now."""
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
    """Subtract what the sweep has counted; only after it, since it may be killed. Bytes appended at this moment may be lost: a few."""
    descriptor = open_own(folder / _WRITTEN, os.O_WRONLY | os.O_CREAT)
    try:
        os.ftruncate(descriptor, max(0, os.fstat(descriptor).st_size - counted))
        os.utime(descriptor, ns=(time.time_ns(), time.time_ns()))
    finally:
        os.close(descriptor)


def _pages(size: int) -> int:
    return -(-size // _PAGE)
