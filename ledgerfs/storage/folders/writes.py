"""Write to a local folder: under a temporary name, then link the complete file to its name, which fails if that exists.

An existing file with the same bytes counts as written, as in S3: probably an earlier, interrupted run wrote it.
"""

import errno
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from ledgerfs.errors import AccessDeniedError, BucketNotFoundError, ObjectExistsError, UnsupportedWriteError
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.descriptors import write_all
from ledgerfs.storage.failures import translate
from ledgerfs.storage.folders.files import LINK_REFUSED, open_object, stat_of_file
from ledgerfs.storage.object_writes import UnfinishedUpload
from ledgerfs.storage.objects import ObjectStat
from ledgerfs.storage.sent_requests import Asked, Sent
from ledgerfs.storage.traffic import Traffic

_log = logging.getLogger("ledgerfs.store")

_PART_NAME = re.compile(r"\.(?P<key>.+)\.[0-9a-f]{32}\.part\Z", re.ASCII)
_PIECE = 1 << 20
_SHARED, _PRIVATE = 0o666, 0o600
"""Modes of files; the process's umask applies to the first."""
_CANNOT_LINK = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


def is_part(name: str) -> bool:
    """Return whether a file is an unfinished part, not yet an object."""
    return _PART_NAME.match(name) is not None


class LocalWrites:
    """`WritableStore` of one folder."""

    __slots__ = ("_mode", "_root", "_traffic")

    smallest_part = 1
    most_parts = 2**31 - 1
    can_set_metadata = False
    keeps_metadata = False

    def __init__(self, root: str, traffic: Traffic, *, is_private: bool = False) -> None:
        self._root = root
        self._traffic = traffic
        self._mode = _PRIVATE if is_private else _SHARED

    def make_folder(self) -> None:
        """Create the folder, but not its parents."""
        try:
            Path(self._root).mkdir(exist_ok=True)
        except FileNotFoundError as error:
            raise BucketNotFoundError(
                "the folder cannot be created: its parent folder does not exist", key=self._root
            ) from error
        except OSError as error:
            raise translate(error, self._root) from error

    def begin_upload(self, key: str, metadata: Mapping[str, str], part_size: int) -> "LocalUpload":  # noqa: ARG002
        """Return an upload, which creates its file with the first write."""
        return LocalUpload(self._root, key, self._traffic, self._mode)

    def put(self, key: str, data: bytes, metadata: Mapping[str, str]) -> ObjectStat:  # noqa: ARG002
        """Write a file."""
        upload = LocalUpload(self._root, key, self._traffic, self._mode)
        try:
            upload.write(data)
            return upload.complete()
        except BaseException:
            upload.abort()
            raise

    def delete(self, key: str) -> None:
        """Remove a file."""
        self._unlink(key, key)

    def set_metadata(self, stat: ObjectStat, metadata: Mapping[str, str]) -> None:  # noqa: ARG002
        """Refuse: files have no user metadata."""
        raise UnsupportedWriteError("files in a folder have no user metadata", key=stat.key)

    def unfinished_uploads(self) -> Iterator[UnfinishedUpload]:
        """Yield the parts of unfinished files, of running and of dead writers."""
        try:
            with Sent(Asked("LIST", self._root), self._traffic), os.scandir(self._root) as entries:
                for entry in entries:
                    match = _PART_NAME.match(entry.name)
                    if match is None or not entry.is_file(follow_symlinks=False):
                        continue
                    try:
                        written_ms = entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
                    except FileNotFoundError:
                        # Its writer has finished or aborted it.
                        continue
                    yield UnfinishedUpload(match["key"], entry.name, written_ms)
        except OSError as error:
            raise translate(error, self._root) from error

    def end_unfinished(self, upload: UnfinishedUpload) -> None:
        """Remove the part."""
        self._unlink(upload.token, upload.key)

    def _unlink(self, name: str, key: str) -> None:
        try:
            with Sent(Asked("DELETE", key), self._traffic):
                Path(self._root, name).unlink()
        except FileNotFoundError as error:
            if not Path(self._root).is_dir():
                raise BucketNotFoundError("no such bucket or folder", key=self._root) from error
        except OSError as error:
            raise translate(error, key) from error


class LocalUpload:
    """`Upload` of one file."""

    __slots__ = ("_begin", "_descriptor", "_key", "_mode", "_part", "_path", "_root", "_sent", "_traffic")

    def __init__(self, root: str, key: str, traffic: Traffic, mode: int) -> None:
        self._key = key
        self._root = root
        self._mode = mode
        self._path = Path(root, key)
        self._part = self._path.with_name(f".{self._path.name}.{uuid4().hex}.part")
        self._descriptor: int | None = None
        self._begin = 0
        self._sent = 0
        self._traffic = traffic

    def write(self, data: Buffer) -> None:
        """Append to the file."""
        try:
            if self._descriptor is None:
                self._descriptor = self._created()
            write_all(self._descriptor, data)
        except OSError as error:
            raise translate(error, self._key, self._sent) from error
        self._sent += len(data)

    def replace_front(self, data: bytes) -> None:
        """Overwrite the beginning of the part."""
        try:
            if self._descriptor is not None:
                os.pwrite(self._descriptor, data, self._begin)
        except OSError as error:
            raise translate(error, self._key, self._begin) from error

    def end_part(self) -> None:
        """Record the start of the next part."""
        self._begin = self._sent

    def complete(self) -> ObjectStat:
        """Sync the file, link it to its name, and sync the folder."""
        try:
            with Sent(Asked("PUT", self._key, 0, self._sent), self._traffic):
                return self._link()
        except FileExistsError as error:
            raise ObjectExistsError("the file already exists and is not overwritten", key=self._key) from error
        except OSError as error:
            raise translate(error, self._key) from error

    def abort(self) -> None:
        """Remove the file."""
        self._close()
        try:
            self._part.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("%s is left; `ledgerfs repair` removes it: %s", self._part, error)

    def _created(self) -> int:
        """Create the part and the folders of its key; return a descriptor. Does not follow links."""
        path = Path(self._root)
        for folder in self._key.split("/")[:-1]:
            path /= folder
            path.mkdir(exist_ok=True)
            if path.is_symlink():
                raise AccessDeniedError(LINK_REFUSED, key=self._key)
        return os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, self._mode)

    def _link(self) -> ObjectStat:
        if self._descriptor is None:
            self._descriptor = self._created()
        os.fsync(self._descriptor)
        try:
            os.link(self._part, self._path, follow_symlinks=False)
            stat = os.fstat(self._descriptor)
        except FileExistsError:
            stat = self._same()
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            stat = self._rename()
        self._part.unlink(missing_ok=True)
        self._close()
        _sync_folder(self._path.parent)
        return stat_of_file(self._key, stat)

    def _rename(self) -> os.stat_result:
        """Rename the part, on file systems without links: two concurrent writers may both succeed, and the later file wins."""
        if os.path.lexists(self._path):
            return self._same()
        self._part.rename(self._path)
        return self._path.lstat()

    def _same(self) -> os.stat_result:
        """Return the existing file if it has the same bytes; raises `FileExistsError` otherwise."""
        other = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self._path))
        try:
            opened, stat = open_object(str(self._path.parent), self._path.name, follow_links=False)
        except (FileNotFoundError, AccessDeniedError) as error:
            # It has been removed since, or is not a file.
            raise other from error
        with os.fdopen(opened, "rb", buffering=0) as there, self._part.open("rb", buffering=0) as part:
            if stat.st_size != self._sent or not _is_same(there, part):
                raise other
            # Its writer may have been killed before it synced the file.
            os.fsync(there.fileno())
        return stat

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _is_same(one: BinaryIO, other: BinaryIO) -> bool:
    while piece := one.read(_PIECE):
        if piece != other.read(len(piece)):
            return False
    return not other.read(1)


def _sync_folder(folder: Path) -> None:
    # Some file systems cannot sync a folder; the file itself is synced.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
