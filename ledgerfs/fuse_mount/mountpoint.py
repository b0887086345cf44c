"""The folder that a bucket is mounted on: its existing mounts, and checks before mounting.

Reads the kernel's mount table, not the folder: access to a mount whose process hangs would hang, too.
"""

import errno
import os
import re
import threading
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ledgerfs.errors import MountpointError

FILESYSTEM = "fuse.ledgerfs"
"""Filesystem type of ledgerfs mounts in the kernel's table."""

_ANSWER_SECONDS = 5.0
_TABLE = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class MountEntry:
    """One line of the kernel's mount table."""

    mountpoint: str
    filesystem: str
    source: str

    @property
    def is_ours(self) -> bool:
        """Whether it is a ledgerfs mount."""
        return self.filesystem == FILESYSTEM


def absolute(mountpoint: str | Path) -> str:
    """Return the folder's path in the kernel's table, without access to the folder itself."""
    path = os.path.abspath(mountpoint)  # noqa: PTH100  (without ``..`` and without disk access)
    parent, name = os.path.split(path)
    return os.path.join(os.path.realpath(parent), name)  # noqa: PTH118  (text in, text out)


def mounted_at(mountpoint: str) -> MountEntry | None:
    """Return the topmost mount on an `absolute` folder; None if nothing is mounted there."""
    found = None
    for line in _TABLE.read_bytes().splitlines():
        before, _, after = line.partition(b" - ")
        where, (filesystem, source, *_) = before.split(b" ")[4], after.split(b" ")
        if _text(where) == mountpoint:
            found = MountEntry(mountpoint, _text(filesystem), _text(source))
    return found


class Condition(Enum):
    """Whether the process that serves a mount answers."""

    ANSWERS = "answers"
    HANGS = "does not answer"
    DEAD = "is gone"


def condition_of(mountpoint: str) -> Condition:
    """Return whether the process that serves a mount answers; waits some seconds if it hangs."""
    said: list[int | None] = []

    def ask() -> None:
        try:
            # The kernel would answer `stat` from its cache, even without the process.
            os.statvfs(mountpoint)
            said.append(None)
        except OSError as error:
            said.append(error.errno)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_ANSWER_SECONDS)
    if not said:
        return Condition.HANGS
    return Condition.DEAD if said[0] in {errno.ENOTCONN, errno.ECONNABORTED} else Condition.ANSWERS


def require_usable(mountpoint: str, *, may_hide_files: bool = False) -> None:
    """Raise `MountpointError` for a folder that a bucket cannot be mounted on."""
    entry = mounted_at(mountpoint)
    if entry is not None:
        what = f"{entry.source} is already mounted here"
        advice = "; unmount it with `ledgerfs umount`" if entry.is_ours else ""
        raise MountpointError(f"{what}{advice}", key=mountpoint)
    try:
        is_empty = not os.listdir(mountpoint)  # noqa: PTH208
    except FileNotFoundError:
        raise MountpointError("the folder does not exist; create it first", key=mountpoint) from None
    except NotADirectoryError:
        raise MountpointError("not a folder", key=mountpoint) from None
    except OSError as error:
        raise MountpointError(error.strerror or str(error), key=mountpoint) from error
    if not (is_empty or may_hide_files):
        raise MountpointError("the folder is not empty; pass -o nonempty to mount over its files", key=mountpoint)


def _text(field: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), field))
