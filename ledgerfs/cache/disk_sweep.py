"""Removes the least recently used pieces from a folder, until the rest is within its bound.

``<folder>/<2 digits>/<digest>/<start>-<end>`` is a piece, ``<start>-<end>.part`` one that is being written or whose writer was killed.
The pieces are counted from the folder each time, so that no crash and no other process can make the count wrong for long.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ledgerfs.cache.part_file import remove_dead
from ledgerfs.cache.range_piece import piece_named

PAGE = 4096
"""Files take multiples of this many bytes of the disk."""

IDLE_SECONDS = 30 * 86400
"""Pieces that were not used for this long are removed, even if there is room."""

PART = ".part"
"""Suffix of the name of a piece while it is being written."""

_OBJECT = re.compile(r"[0-9a-f]{64}\Z")
_PREFIX = re.compile(r"[0-9a-f]{2}\Z")
_MIN_FREE = 1 << 30
_FREE_SHARE = 20
_TARGET = 0.9
_UNKNOWN_ROOM = 1 << 62


class _Held(NamedTuple):
    """One piece: when it was used last (ns since 1970), its bytes on the disk, and its path."""

    used_ns: int
    size: int
    object_path: str
    name: str


def pages(size: int) -> int:
    """Return the pages of the disk that a file of this size takes."""
    return -(-size // PAGE)


def room(folder: Path) -> int:
    """Return how many bytes may be written before the file system is too full for others; raises `OSError`."""
    found = os.statvfs(folder)
    if not found.f_blocks:
        # Some network file systems do not tell.
        return _UNKNOWN_ROOM
    return found.f_frsize * found.f_bavail - min(_MIN_FREE, found.f_frsize * found.f_blocks // _FREE_SHARE)


def sweep(folder: Path, budget: int, *, is_full: bool = False) -> None:
    """Remove dead parts, idle pieces, and the least recently used ones beyond 90 % of the budget; raises `OSError`.

    Parameters
    ----------
    folder
        The folder of pieces.
    budget
        Bytes that it may take of the disk.
    is_full
        Whether a write has failed for lack of room, which quotas cause as well: then at least a tenth is removed.

    """
    now = time.time_ns()
    pieces = sorted(_pieces(folder, now))
    held = sum(piece.size for piece in pieces)
    allowed = min(budget, held + room(folder), held if is_full else budget)
    target = int(_TARGET * allowed)
    emptied = set()
    for piece in pieces:
        if held <= target and piece.used_ns > now - IDLE_SECONDS * 10**9:
            break
        with suppress(OSError):
            Path(piece.object_path, piece.name).unlink(missing_ok=True)
            held -= piece.size
        emptied.add(piece.object_path)
    for path in emptied:
        _remove_if_empty(path)


def _pieces(folder: Path, now: int) -> Iterator[_Held]:
    for prefix in _folders(str(folder), _PREFIX):
        for path in _folders(prefix, _OBJECT):
            is_empty = True
            for piece in _pieces_of(path, now):
                is_empty = False
                yield piece
            if is_empty:
                _remove_if_empty(path)


def _folders(path: str, name: re.Pattern[str]) -> Iterator[str]:
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if name.match(entry.name) and entry.is_dir(follow_symlinks=False):
                yield entry.path


def _pieces_of(path: str, now: int) -> Iterator[_Held]:
    """Yield the pieces of an object; removes dead parts, and links and pipes with names of pieces."""
    with suppress(OSError), os.scandir(path) as entries:
        for entry in entries:
            if piece_named(entry.name.removesuffix(PART)) is None:
                continue
            if not entry.is_file(follow_symlinks=False):
                _remove(entry.path)
            elif entry.name.endswith(PART):
                remove_dead(Path(entry.path))
            else:
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    yield _Held(_used(entry.path, found, now), pages(found.st_size) * PAGE, path, entry.name)


def _used(path: str, found: os.stat_result, now: int) -> int:
    """Return when a piece was used; if that is in the future (the clock was wrong), it is set to now."""
    if found.st_atime_ns <= now:
        return found.st_atime_ns
    with suppress(OSError):
        os.utime(path, ns=(now, found.st_mtime_ns), follow_symlinks=False)
    return now


def _remove(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink()


def _remove_if_empty(path: str) -> None:
    with suppress(OSError):
        Path(path).rmdir()
