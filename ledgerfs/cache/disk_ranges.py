"""Byte ranges of objects on disk, also for later processes: a level between the ranges in memory and the store.

``<folder>/<2 digits>/<digest of the identity>/<start>-<end>`` holds one range, and gets this name only when it is completely written.
Nothing waits for a sync to the disk: a range that a crash has torn does not match its checksums, and is fetched again.
"""

import errno
import fcntl
import hashlib
import logging
import os
import time
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

from ledgerfs.cache.cache_folder import disk_bytes_of_environment
from ledgerfs.cache.disk_budget import DiskBudget
from ledgerfs.cache.disk_sweep import PART
from ledgerfs.cache.part_file import part_file
from ledgerfs.cache.piece_list import PieceList, piece_list
from ledgerfs.cache.range_piece import MAX_PIECE_BYTES, Piece, piece_named, read_piece, write_piece
from ledgerfs.cache.untrusted_folders import open_in_own_folder, open_own_folder, require_own_folder
from ledgerfs.errors import CacheWriteError
from ledgerfs.storage.fork_lock import ForkLock

DEFAULT_DISK_BYTES = 10 << 30
"""Bytes that a folder may hold, unless ``$LEDGERFS_DISK_CACHE_BYTES`` is set."""

_LOG = logging.getLogger("ledgerfs.cache")
_LOOK_SECONDS = 1.0
_USE_NS = 60 * 10**9
_PAUSE_SECONDS = 10.0
_QUIET_SECONDS = 300.0
_REMEMBERED = 4096
_TRIES = 3
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class DiskRanges:
    """Byte ranges of objects in a folder: bounded, shared by several processes, never trusted without their checksums.

    Parameters
    ----------
    folder
        The folder, made at the first write. Only its owner can read its files.
    budget
        Bytes that it may take of the disk; None for ``$LEDGERFS_DISK_CACHE_BYTES``, by default `DEFAULT_DISK_BYTES`.

    """

    __slots__ = ("_budget", "_folder", "_lock", "_objects", "_paused_until", "_quiet_until")

    def __init__(self, folder: Path, budget: int | None = None) -> None:
        self._folder = folder
        if budget is None:
            budget = disk_bytes_of_environment()
        self._budget = DiskBudget(folder, DEFAULT_DISK_BYTES if budget is None else budget)
        self._lock = ForkLock()
        self._objects: OrderedDict[str, PieceList] = OrderedDict()
        self._paused_until = 0.0
        self._quiet_until: dict[str, float] = {}

    def find(self, identity: str, start: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of a range that are known to be on disk: ascending, not overlapping, one for each file."""
        return self._list(_digest(identity)).covered(start, end)

    def read(self, identity: str, start: int, end: int) -> bytes | None:
        """Return these bytes, checked by their checksums; None if one is missing. A damaged piece is removed."""
        digest = _digest(identity)
        parts = []
        at = start
        for piece in self._list(digest).touching(start, end):
            if piece.start > at:
                return None
            if piece.end > at:
                data = self._read_piece(digest, piece, at, min(end, piece.end))
                if data is None:
                    return None
                parts.append(data)
                at += len(data)
        if at < end:
            return None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def put(self, identity: str, start: int, data: bytes | memoryview) -> None:
        """Keep these bytes, unless another process is writing them; errors of the disk are logged, not raised."""
        if time.monotonic() < self._paused_until:
            return
        digest = _digest(identity)
        begin, end = self._list(digest).missing(start, start + len(data))
        if not 0 < end - begin <= MAX_PIECE_BYTES:
            return
        try:
            self._keep(digest, Piece(begin, end), memoryview(data)[begin - start : end - start])
        except BlockingIOError:
            # Another thread or process is writing the same bytes.
            return
        except OSError as error:
            self._pause(error)

    def forget(self, identity: str) -> None:
        """Remove all pieces of an object."""
        digest = _digest(identity)
        path = self._path(digest)
        with suppress(OSError):
            folder = open_own_folder(self._folder, *_below(digest))
            try:
                for name in os.listdir(folder):  # noqa: PTH208  (a descriptor)
                    # Parts as well: the bytes that are being written now may be the damaged ones.
                    if piece_named(name.removesuffix(PART)) is not None:
                        with suppress(OSError):
                            os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)
            path.rmdir()
        with self._lock:
            self._remember(digest, PieceList((), time.monotonic()))

    def _list(self, digest: str) -> PieceList:
        """Return the pieces of an object, from the folder or from a list that is only a moment old."""
        with self._lock:
            known = self._objects.get(digest)
            if known is not None and time.monotonic() - known.looked < _LOOK_SECONDS:
                self._objects.move_to_end(digest)
                return known
        self._budget.look()
        looked = time.monotonic()
        found = piece_list(_pieces(self._path(digest)), looked)
        with self._lock:
            current = self._objects.get(digest)
            if current is known:
                self._remember(digest, found)
                return found
        # Another thread has listed, put or removed a piece meanwhile: its list is newer.
        return current or found

    def _remember(self, digest: str, pieces: PieceList) -> None:
        self._objects[digest] = pieces
        self._objects.move_to_end(digest)
        if len(self._objects) > _REMEMBERED:
            self._objects.popitem(last=False)

    def _read_piece(self, digest: str, piece: Piece, start: int, end: int) -> bytes | None:
        path = self._path(digest) / piece.name
        try:
            descriptor = open_in_own_folder(self._folder, piece.name, *_below(digest))
        except OSError:
            self._drop(digest, piece)
            return None
        try:
            data = read_piece(descriptor, bytes.fromhex(digest), piece, start, end)
            _note_use(descriptor)
        except OSError:
            data = None
        finally:
            os.close(descriptor)
        if data is None:
            self._warn("%s is damaged, and is removed", path)
            self._drop(digest, piece)
            _remove(path)
        return data

    def _drop(self, digest: str, piece: Piece) -> None:
        with self._lock:
            known = self._objects.get(digest)
            if known is not None:
                self._objects[digest] = known.without(piece)

    def _keep(self, digest: str, piece: Piece, data: memoryview) -> None:
        """Write a piece and remove those inside its range; raises `OSError`."""
        _make_folder(self._folder)
        if not self._budget.admit(len(data)) or not self._write(digest, piece, data):
            return
        with self._lock:
            known = self._objects.get(digest)
            if known is None:
                return
            self._objects[digest] = known.with_piece(piece)
        for other in known.inside(piece):
            if other != piece:
                _remove(self._path(digest) / other.name)

    def _write(self, digest: str, piece: Piece, data: memoryview) -> bool:
        """Write a piece; false if it or its folder was removed meanwhile. Raises `OSError`."""
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                return _write_file(self._make_folder_of(digest), digest, piece, data)
            # A sweep has removed the folder, which was empty.
        return False

    def _make_folder_of(self, digest: str) -> Path:
        path = self._path(digest)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        require_own_folder(self._folder, *_below(digest))
        return path

    def _pause(self, error: OSError) -> None:
        """Write nothing for a while, since it would fail again."""
        self._paused_until = time.monotonic() + _PAUSE_SECONDS
        self._warn("byte ranges cannot be kept in %s: %s", self._folder, error.strerror or error)
        if error.errno in _FULL:
            self._budget.sweep_soon(is_full=True)

    def _warn(self, message: str, *values: object) -> None:
        """Log a warning, unless one of its kind was logged recently."""
        now = time.monotonic()
        if now >= self._quiet_until.get(message, 0.0):
            self._quiet_until[message] = now + _QUIET_SECONDS
            _LOG.warning(message, *values)

    def _path(self, digest: str) -> Path:
        return self._folder.joinpath(*_below(digest))


def _below(digest: str) -> tuple[str, str]:
    """Return the names of the folders in which an object's pieces are."""
    return digest[:2], digest


def _digest(identity: str) -> str:
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _pieces(path: Path) -> list[Piece]:
    """Return the pieces in an object's folder; none if it does not exist, cannot be read, or belongs to another user."""
    try:
        descriptor = open_own_folder(path.parent.parent, path.parent.name, path.name)
    except OSError:
        return []
    try:
        with os.scandir(descriptor) as entries:
            found = (piece_named(entry.name) for entry in entries if entry.is_file(follow_symlinks=False))
            return [piece for piece in found if piece is not None]
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _make_folder(path: Path) -> None:
    """Make the folder unless it exists, and check that it is ours; raises `OSError`."""
    try:
        require_own_folder(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        require_own_folder(path)


def _write_file(folder: Path, digest: str, piece: Piece, data: memoryview) -> bool:
    """Write a piece's file; false if it was removed meanwhile. Raises `OSError`, `FileNotFoundError` if the folder is gone."""
    try:
        with part_file(folder / (piece.name + PART), os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX | fcntl.LOCK_NB) as part:
            write_piece(part.descriptor, bytes.fromhex(digest), piece.start, data)
            try:
                part.path.rename(folder / piece.name)
            except FileNotFoundError:
                return False
            return True
    except CacheWriteError as error:
        # Its text is about rendering, and hides the error of the disk.
        raise error.__cause__ or error from None


def _note_use(descriptor: int) -> None:
    """Set a piece's time of use, unless that was set a moment ago."""
    found = os.fstat(descriptor)
    now = time.time_ns()
    if not 0 <= now - found.st_atime_ns < _USE_NS:
        with suppress(OSError):
            os.utime(descriptor, ns=(now, found.st_mtime_ns))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
