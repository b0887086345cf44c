"""The kernel's way to a `MountedBucket`: mfusepy's callbacks over libfuse 3, thin.

mfusepy takes libfuse 2 where both are there, which reads 128 KiB at a time (``facts/fsspec-fuse.md`` §3.1, §3.4); so 3 is asked for.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")

import mfusepy

from ledgerfs.fuse_mount.attributes import BLOCK_BYTES, Attributes
from ledgerfs.fuse_mount.error_numbers import answering
from ledgerfs.fuse_mount.operations import MountedBucket

READ_BYTES = 1 << 20
"""The largest read that the kernel hands on."""

_NAME_BYTES = 255
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_TRUNC


class Callbacks(mfusepy.Operations):
    """What libfuse calls. Each method answers with a result or with `MountError`."""

    use_ns = True

    def __init__(self, mounted: MountedBucket) -> None:
        self._mounted = mounted
        self._owner = (os.getuid(), os.getgid())

    def init_with_config(self, conn_info: Any, config_3: Any) -> None:  # noqa: ANN401  (ctypes)
        """Ask for large reads, and many at a time."""
        if conn_info is not None:
            conn_info.max_read = conn_info.max_readahead = READ_BYTES
            conn_info.max_background = 64
        if config_3 is not None:
            config_3.use_ino = True

    @answering
    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        return self._stat(self._mounted.attributes(path))

    @answering
    def readdir(self, path: str, fh: int) -> Iterator[tuple[str, dict[str, int], int]]:
        found = list(self._mounted.names(path))
        return self._entries(found)

    @answering
    def open(self, path: str, flags: int) -> int:
        if flags & _WRITE_FLAGS:
            self._mounted.refuse_change(path)
        return self._mounted.open(path)

    @answering
    def create(self, path: str, mode: int, fi: Any = None) -> int:  # noqa: ANN401
        return self._mounted.create(path, _process())

    @answering
    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return self._mounted.read(fh, size, offset)

    @answering
    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return self._mounted.write(fh, data, offset)

    @answering
    def flush(self, path: str, fh: int) -> int:
        self._mounted.flush(fh, _process())
        return 0

    @answering
    def fsync(self, path: str, datasync: int, fh: int) -> int:
        return 0

    @answering
    def release(self, path: str, fh: int) -> int:
        self._mounted.release(fh)
        return 0

    @answering
    def mkdir(self, path: str, mode: int) -> int:
        self._mounted.make_directory(path)
        return 0

    @answering
    def rmdir(self, path: str) -> int:
        self._mounted.remove_directory(path)
        return 0

    @answering
    def unlink(self, path: str) -> int:
        self._mounted.remove(path)
        return 0

    @answering
    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        self._mounted.refuse_change(path)
        return 0

    @answering
    def rename(self, old: str, new: str) -> int:
        self._mounted.refuse_change(old)
        return 0

    @answering
    def chmod(self, path: str, mode: int) -> int:
        return self._ignore_while_writing(path)

    @answering
    def chown(self, path: str, uid: int, gid: int) -> int:
        return self._ignore_while_writing(path)

    @answering
    def utimens(self, path: str, times: Any = None) -> int:  # noqa: ANN401
        return self._ignore_while_writing(path)

    @answering
    def statfs(self, path: str) -> dict[str, int]:
        ledgers, size = self._mounted.totals()
        blocks = -(-size // BLOCK_BYTES)
        sizes = {"f_bsize": BLOCK_BYTES, "f_frsize": BLOCK_BYTES, "f_blocks": blocks}
        return {**sizes, "f_files": ledgers, "f_namemax": _NAME_BYTES}

    @answering
    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        value = self._mounted.extended_attributes(path).get(name)
        if value is None:
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
        return value

    @answering
    def listxattr(self, path: str) -> list[str]:
        return list(self._mounted.extended_attributes(path))

    def destroy(self, path: str) -> None:
        """Drop what is being written when the mount ends."""
        self._mounted.close()

    def _ignore_while_writing(self, path: str) -> int:
        """Do nothing for a file that is copied in, as ``cp -p`` wants it; refuse for all others."""
        self._mounted.require_incoming(path)
        return 0

    def _entries(self, found: list[tuple[str, bool, int]]) -> Iterator[tuple[str, dict[str, int], int]]:
        yield ".", {"st_mode": stat.S_IFDIR}, 0
        yield "..", {"st_mode": stat.S_IFDIR}, 0
        for name, is_directory, inode in found:
            yield name, {"st_mode": stat.S_IFDIR if is_directory else stat.S_IFREG, "st_ino": inode}, 0

    def _stat(self, shown: Attributes) -> dict[str, Any]:
        changed, size = shown.changed_ms * 1_000_000, shown.size or 0
        return {
            "st_mode": shown.mode(is_writable=self._mounted.options.is_writable),
            "st_ino": shown.inode,
            "st_size": size,
            "st_blocks": -(-size // 512),
            "st_blksize": BLOCK_BYTES,
            "st_nlink": 2 if shown.is_directory else 1,
            "st_uid": self._owner[0],
            "st_gid": self._owner[1],
            "st_mtime": changed,
            "st_ctime": changed,
            "st_atime": changed,
        }


def serve(mounted: MountedBucket, mountpoint: str, url: str, options: dict[str, Any]) -> None:
    """Answer the kernel until the mount ends. Raises `RuntimeError` when libfuse does not mount."""
    seconds = mounted.options.refresh_seconds
    given = {
        "fsname": url.replace(",", "_"),
        "subtype": "ledgerfs",
        "auto_cache": True,
        "attr_timeout": seconds,
        "entry_timeout": seconds,
        "negative_timeout": 0,
        "max_read": READ_BYTES,
        "ro": not mounted.options.is_writable,
        **options,
    }
    mfusepy.FUSE(Callbacks(mounted), mountpoint, foreground=True, **given)


def widen_readahead(mountpoint: str) -> bool:
    """Let the kernel read 1 MiB ahead instead of 128 KiB, where we may (root); returns whether it does."""
    device = os.stat(mountpoint).st_dev  # noqa: PTH116  (the device is what is wanted)
    setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    try:
        setting.write_text(str(READ_BYTES >> 10))
    except OSError:
        return False
    return True


def _process() -> int:
    _, _, process = mfusepy.fuse_get_context()
    return int(process)
