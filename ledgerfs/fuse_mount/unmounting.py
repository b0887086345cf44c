"""Unmount a folder, also if its process exited or hangs: by the kernel for root, by ``fusermount3`` for other users."""

import ctypes
import errno
import os
import shutil
import subprocess

from ledgerfs.errors import MountFailedError, MountpointError
from ledgerfs.fuse_mount.mountpoint import Condition, condition_of, mounted_at

_DETACH, _NO_FOLLOW = 2, 8  # of umount2(2)


def detach(mountpoint: str, *, lazy: bool = False) -> None:
    """Unmount a folder; ``lazy`` detaches it at once, and open files stay readable.

    Raises `OSError`, with ``EBUSY`` for a folder in use.
    """
    if os.geteuid() == 0:
        _as_root(mountpoint, lazy=lazy)
    else:
        _as_user(mountpoint, lazy=lazy)


def unmount(mountpoint: str, *, lazy: bool = False) -> None:
    """Unmount a bucket, also a dead mount. Raises `MountpointError`."""
    entry = mounted_at(mountpoint)
    if entry is None:
        raise MountpointError("nothing is mounted here", key=mountpoint)
    if not entry.is_ours:
        raise MountpointError(f"this is {entry.source} ({entry.filesystem}), not a mount of ledgerfs", key=mountpoint)
    if not lazy:
        condition = condition_of(mountpoint)
        if condition is Condition.HANGS:
            raise MountpointError("the mount does not answer; pass --lazy to unmount anyway", key=mountpoint)
        lazy = condition is Condition.DEAD
    try:
        detach(mountpoint, lazy=lazy)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise MountpointError(error.strerror or str(error), key=mountpoint) from error
        advice = "files are open, or a process has its working directory here; pass --lazy to unmount anyway"
        raise MountpointError(f"in use: {advice}", key=mountpoint) from error


def clear_if_dead(mountpoint: str) -> bool:
    """Remove the mount that a killed ledgerfs process left on a folder; return whether there was one."""
    entry = mounted_at(mountpoint)
    if entry is None or not entry.is_ours or condition_of(mountpoint) is not Condition.DEAD:
        return False
    unmount(mountpoint, lazy=True)
    return True


def _as_root(mountpoint: str, *, lazy: bool) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(mountpoint), _NO_FOLLOW | (_DETACH if lazy else 0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), mountpoint)


def _as_user(mountpoint: str, *, lazy: bool) -> None:
    program = shutil.which("fusermount3")
    if program is None:
        raise MountFailedError("fusermount3 is not installed; apt-get install fuse3", key=mountpoint)
    command = [program, "-u", *(["-z"] if lazy else []), "--", mountpoint]
    done = subprocess.run(  # noqa: S603  (no shell, and an own path)
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        said = done.stderr.strip()
        number = errno.EBUSY if "busy" in said.lower() else errno.EPERM
        raise OSError(number, said or f"fusermount3 exited with code {done.returncode}", mountpoint)
