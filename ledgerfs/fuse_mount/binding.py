"""The thin binding of a `MountedBucket` to the kernel: mfusepy's callbacks over libfuse 3.

If both are installed, mfusepy prefers libfuse 2, which reads 128 KiB at a time; so this module selects 3.
"""

import ctypes
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")

import mfusepy

from ledgerfs.fuse_mount.attributes import BLOCK_BYTES, Attributes
from ledgerfs.fuse_mount.error_numbers import answering, warn_once
from ledgerfs.fuse_mount.operations import MountedBucket

READ_BYTES = 1 << 20
"""The largest read request of the kernel, bytes."""

_NAME_BYTES = 1024
"""The longest name that Linux accepts from FUSE (``FUSE_NAME_MAX``). A longer name makes the whole directory unlistable."""

_DIRECTORY = stat.S_IFDIR
_READDIR_PLUS, _FILL_DIR_PLUS = 1, 2
"""Flags of libfuse: the kernel requests attributes with the names; the answer contains attributes."""

Pointer = Any
"""A pointer to a libfuse structure; ctypes has no types for them."""

Listing = list[tuple[bytes, Attributes | None]]
"""Names and attributes; None for ``.`` and ``..``."""

_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_TRUNC


class Callbacks(mfusepy.Operations):
    """The callbacks of libfuse. Each method returns a result or raises `MountError`."""

    use_ns = True

    def __init__(self, mounted: MountedBucket) -> None:
        self._mounted = mounted
        mounted.incoming.on_gone = _forget
        self._owner = (os.getuid(), os.getgid())
        self._directories = itertools.count(1)
        self._listings: dict[int, Listing] = {}

    def init_with_config(self, conn_info: Any, config_3: Any) -> None:  # noqa: ANN401  (ctypes)
        """Request large reads, and many at a time."""
        if conn_info is not None:
            conn_info.max_read = conn_info.max_readahead = READ_BYTES
            conn_info.max_background = 64
        if config_3 is not None:
            config_3.use_ino = True
            # Otherwise libfuse would rename an open file instead of removing it.
            config_3.hard_remove = True
            self._keep_sizes_unless_replaced(config_3)

    @answering
    def getattr(self, path: str | None, fh: int | None = None) -> Attributes:
        return self._mounted.attributes(path, fh)

    def opendir(self, path: str) -> int:
        return next(self._directories)

    @answering
    def readdir(self, path: str | None, fh: int, offset: int) -> Listing:
        """Return the listing of an open directory; a later offset continues the same listing."""
        if offset == 0 or fh not in self._listings:
            self._listings[fh] = [(b".", None), (b"..", None), *self._listed(_still_there(path))]
        return self._listings[fh]

    def releasedir(self, path: str | None, fh: int) -> int:
        self._listings.pop(fh, None)
        return 0

    @answering
    def open(self, path: str, flags: int) -> int:
        if flags & _WRITE_FLAGS:
            self._mounted.refuse_writing(path)
        return self._mounted.open(path)

    def prepare_cache(self, path: bytes, fip: Pointer) -> None:
        """Clear the kernel's cache of the path unless it has bytes of this version, and disable it while an older version is open.

        libfuse's ``auto_cache`` would mistake another version with the same size and time for this one.
        """
        reads, opened = self._mounted.reads, self._mounted.read_file(fip.contents.fh)
        is_cached = reads.is_cached(opened)
        if not is_cached:
            _forget_encoded(path)
            reads.forgotten(opened)
        fip.contents.direct_io = opened.is_uncached
        fip.contents.keep_cache = is_cached and not opened.is_uncached

    @answering
    def create(self, path: str, mode: int, flags: int) -> int:
        if flags & os.O_ACCMODE != os.O_WRONLY:
            self._mounted.require_new(path)
            raise OSError(errno.ENOTSUP, f"{path}: new files can only be written, from start to end, and not read")
        return self._mounted.create(path, _thread())

    @answering
    def read(self, fh: int, offset: int, buffer: memoryview, owner: int) -> int:
        """Fill the kernel's buffer. `FuseSession` calls this, not mfusepy, which would copy the result.

        A read past the page cache has an ``owner``, the process; 0 means a read into the cache: mapping, ``sendfile``, or readahead.
        """
        return self._mounted.read_into(fh, offset, buffer, is_for_cache=not owner)

    def read_names(self, path: str | None) -> set[str]:
        """Return the names of a directory's files that are being read: an older listing may contain the size of another version."""
        return self._mounted.reads.names_in(_still_there(path).strip("/"))

    @answering
    def write(self, path: str | None, data: bytes, offset: int, fh: int) -> int:
        return self._mounted.write(fh, data, offset, _thread())

    @answering
    def flush(self, path: str | None, fh: int) -> int:
        self._mounted.flush(fh, _thread())
        return 0

    @answering
    def fsync(self, path: str | None, datasync: int, fh: int) -> int:
        self._mounted.sync(fh)
        return 0

    @answering
    def release(self, path: str | None, fh: int) -> int:
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
    def truncate(self, path: str | None, length: int, fh: int | None = None) -> int:
        self._mounted.resize(_still_there(path), length)
        return 0

    @answering
    def rename(self, path: str, *rest: str | int) -> int:
        self._mounted.refuse_change(path)
        return 0

    link = symlink = mknod = rename

    @answering
    def chmod(self, path: str | None, *rest: object) -> int:
        """Do nothing for a file that is being copied in, for ``cp -p``; refuse it for all other files."""
        self._mounted.require_incoming(_still_there(path))
        return 0

    chown = utimens = chmod

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
        """Drop files that are being written at unmount."""
        self._mounted.close()

    def _keep_sizes_unless_replaced(self, config: Any) -> None:  # noqa: ANN401  (ctypes)
        """Disable the kernel's cache of attributes while a replaced file is open.

        libfuse reads this configuration for each answer, so the kernel does not cache the new size of a replaced file.
        """
        seconds = config.attr_timeout

        def on_replaced(is_any: bool) -> None:
            config.attr_timeout = 0.0 if is_any else seconds

        self._mounted.reads.on_replaced = on_replaced

    def _listed(self, path: str) -> Iterator[tuple[bytes, Attributes]]:
        for name, shown in self._mounted.entries(path):
            encoded = os.fsencode(name)
            if len(encoded) <= _NAME_BYTES:
                yield encoded, shown
            else:
                warn_once(f"{path}: left out {name}: Linux allows at most {_NAME_BYTES} bytes in a name")

    def show(self, shown: Attributes, stat: Pointer) -> None:
        """Fill the kernel's structure, which contains zeros or another file's values."""
        stat.st_mode = shown.mode(is_writable=self._mounted.options.is_writable)
        stat.st_ino = shown.inode
        stat.st_size = shown.size
        stat.st_blocks = -(-shown.size // 512)
        stat.st_blksize = BLOCK_BYTES
        stat.st_nlink = 2 if shown.is_directory else 1
        stat.st_uid, stat.st_gid = self._owner
        seconds, milliseconds = divmod(shown.changed_ms, 1000)
        for time in (stat.st_mtimespec, stat.st_ctimespec, stat.st_atimespec):
            time.tv_sec, time.tv_nsec = seconds, milliseconds * 1_000_000


class FuseSession(mfusepy.FUSE):
    """mfusepy's dispatch from libfuse to `Callbacks`, without its copies of bytes and its separate request for each file's attributes."""

    def getattr_fuse_3(self, path: bytes | None, buf: Pointer, fip: Pointer) -> int:
        handle = fip.contents.fh if fip else None
        ctypes.memset(buf, 0, ctypes.sizeof(mfusepy.c_stat))
        self.operations.show(self.operations.getattr(self._text(path), handle), buf.contents)
        return 0

    def open(self, path: bytes, fip: Pointer) -> int:
        result = int(super().open(path, fip))
        self.operations.prepare_cache(path, fip)
        return result

    def read(self, path: bytes | None, buf: Pointer, size: int, offset: int, fip: Pointer) -> int:
        """Fill libfuse's buffer in place: a new buffer for each read would dominate the cost."""
        buffer = (ctypes.c_ubyte * size).from_address(ctypes.addressof(buf.contents))
        return int(self.operations.read(fip.contents.fh, offset, memoryview(buffer).cast("B"), fip.contents.lock_owner))

    def readdir_fuse_3(  # noqa: PLR0917  (as libfuse calls it)
        self, path: bytes | None, buf: Pointer, filler: Pointer, offset: int, fip: Pointer, flags: int
    ) -> int:
        """Fill in names from ``offset`` until the buffer is full, with attributes if the kernel accepts them.

        Omits estimated sizes, and attributes of open files: the kernel requests them when it needs them.
        """
        listing = self.operations.readdir(self._text(path), fip.contents.fh, offset)
        stat, nothing = mfusepy.c_stat(), mfusepy.c_stat(st_mode=_DIRECTORY)
        left_out = {os.fsencode(one) for one in self.operations.read_names(self._text(path))}
        for at in range(offset, len(listing)):
            name, shown = listing[at]
            plus = 0
            if shown is not None:
                self.operations.show(shown, stat)
                is_kept = not shown.is_estimate and name not in left_out
                plus = flags & _READDIR_PLUS and is_kept * _FILL_DIR_PLUS
            if filler(buf, name, nothing if shown is None else stat, at + 1, plus):
                break
        return 0

    def getxattr(self, path: bytes, name: bytes, value: Pointer, size: int, *rest: Pointer) -> int:
        """Answer ``ENOTSUP`` except for ``user.`` names: ``ls -l`` requests others of each file, and stops after this answer."""
        if not name.startswith(b"user."):
            return -errno.ENOTSUP
        return int(super().getxattr(path, name, value, size, *rest))

    def _text(self, path: bytes | None) -> str | None:
        return None if path is None else path.decode(self.encoding, self.errors)


def serve(mounted: MountedBucket, mountpoint: str, url: str, options: dict[str, Any]) -> None:
    """Answer the kernel until the unmount. Raises `RuntimeError` if libfuse does not mount."""
    seconds = mounted.options.refresh_seconds
    given = {
        "fsname": "".join(part if part.isprintable() else quote(part, errors="surrogateescape") for part in url),
        "subtype": "ledgerfs",
        "attr_timeout": seconds,
        "entry_timeout": seconds,
        "negative_timeout": 0,
        "max_read": READ_BYTES,
        "ro": not mounted.options.is_writable,
        **_threads(),
        **options,
    }
    escaped = {name: _escaped(value) if isinstance(value, str) else value for name, value in given.items()}
    FuseSession(Callbacks(mounted), mountpoint, foreground=True, **escaped)


def _escaped(value: str) -> str:
    """Return a value for libfuse's comma-separated options, where a backslash escapes the next character."""
    return value.replace("\\", "\\\\").replace(",", "\\,")


def _threads() -> dict[str, int]:
    """Return the number of concurrent calls: with libfuse's default of ten, ten hanging reads would block all others."""
    knows_threads = (mfusepy.fuse_version_major, mfusepy.fuse_version_minor) >= (3, 12)
    return {"max_threads": 64, "max_idle_threads": 10} if knows_threads else {}


def widen_readahead(mountpoint: str) -> bool:
    """Set the kernel's readahead to 1 MiB instead of 128 KiB, if permitted (root); return whether it is set."""
    device = os.stat(mountpoint).st_dev  # noqa: PTH116  (only the device is needed)
    setting = Path(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb")
    try:
        setting.write_text(str(READ_BYTES >> 10))
    except OSError:
        return False
    return True


def _thread() -> int:
    _, _, thread = mfusepy.fuse_get_context()
    return int(thread)


def _forget(path: str) -> None:
    """Clear the kernel's cache of a path. Not while it writes to the file, which would deadlock."""
    _forget_encoded(os.fsencode(f"/{path}"))


def _forget_encoded(path: bytes) -> None:
    library = mfusepy._libfuse  # noqa: SLF001  (no public name)
    library.fuse_invalidate_path(ctypes.c_void_p(library.fuse_get_context().contents.fuse), path)


def _still_there(path: str | None) -> str:
    """Return the path; raises ``ENOENT`` for None, the path of a removed open file."""
    if path is None:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    return path
