"""The state of writing processes in ``/proc``: which were killed, and which still have a file open.

The kernel sends ``flush`` whenever a descriptor is closed: by a program that is done with the file, by one that closes a copy of the
descriptor, and by the kernel itself for a killed process. Only the first means that the file is whole. If ``/proc`` lacks the
information (processes in another container; inodes, ``ino:``, before Linux 5.14), a closed descriptor counts as the last one.
"""

import os
import time
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

_PROC = Path("/proc")

_EXITING, _SIGNALED = 0x4, 0x400
"""``PF_EXITING`` and ``PF_SIGNALED`` of the kernel's ``sched.h``."""

_FLAGS, _EXIT_CODE = 9 - 3, 52 - 3
"""Fields of ``/proc/<pid>/stat`` (proc(5)), counted from the third, as the second may contain anything."""

_LOOKS_AGAIN = (0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.12)
"""Seconds between checks of a child that may be about to close the file."""


def process_of(thread: int) -> int:
    """Return the process of a thread from FUSE; the thread itself if the process is unknown."""
    try:
        for line in (_PROC / str(thread) / "status").read_text(errors="replace").splitlines():
            if line.startswith("Tgid:"):
                return int(line.split()[1])
    except OSError:
        pass
    return thread


def has_failed(thread: int) -> bool:
    """Whether a thread is exiting, so that the kernel closes its files: killed by a signal, or with an exit status other than 0."""
    try:
        fields = (_PROC / str(thread) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    if not int(fields[_FLAGS]) & _EXITING:
        return False
    if _may_look_at(thread):
        return fields[_EXIT_CODE] != b"0"
    # The exit code is hidden (0). A normal exit may also mark threads as signaled: prefer no ledger to an incomplete one.
    return bool(int(fields[_FLAGS]) & _SIGNALED)


def is_held(processes: Iterable[int], inode: int) -> bool:
    """Whether one of the processes, or of their children, has the file open for writing.

    A new child has all descriptors of its parent until it starts its program; then the kernel closes some. While it does, these cannot be
    distinguished from those that the child keeps (``do_close_on_exec`` clears the flags first). So this checks repeatedly, for 0.2 s at
    most.
    """
    known = set(processes)
    if any(_has_open(one, inode) for one in known):
        return True
    for seconds in _LOOKS_AGAIN:
        if not _is_inherited(known, inode):
            return False
        time.sleep(seconds)
    return _is_inherited(known, inode)


def _is_inherited(known: AbstractSet[int], inode: int) -> bool:
    return any(
        _has_open(child, inode, unless=os.O_CLOEXEC)
        for one in known
        for child in _descendants(one)
        if child not in known
    )


def _may_look_at(thread: int) -> bool:
    try:
        next((_PROC / str(thread) / "fd").iterdir(), None)
    except PermissionError:
        return False
    except OSError:
        return True
    return True


def _has_open(process: int, inode: int, unless: int = 0) -> bool:
    try:
        descriptors = list((_PROC / str(process) / "fdinfo").iterdir())
    except OSError:
        return False
    return any(_is_writer(one, inode, unless) for one in descriptors)


def _is_writer(path: Path, inode: int, unless: int) -> bool:
    try:
        fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    except (OSError, ValueError):
        return False
    flags = int(fields.get("flags", "0"), 8)
    return fields.get("ino", "").strip() == str(inode) and flags & os.O_ACCMODE != os.O_RDONLY and not flags & unless


def _descendants(process: int) -> Iterator[int]:
    seen = {process}
    waiting = [process]
    while waiting:
        for child in _children(waiting.pop()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child


def _children(process: int) -> Iterator[int]:
    try:
        for thread in (_PROC / str(process) / "task").iterdir():
            yield from map(int, (thread / "children").read_text().split())
    except OSError:
        return
