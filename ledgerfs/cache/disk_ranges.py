"""Byte ranges on disk, between the memory cache and a remote store, shared by processes.

A lookup finds only exactly the same range; readers split objects at the same offsets. Readers do not wait for disk writes: these have a
short queue, and a range is not cached if the queue is full.
"""

import errno
import logging
import os
import time
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from ledgerfs.cache.disk_files import DiskFiles
from ledgerfs.cache.disk_sweep import is_behind, room, sweep
from ledgerfs.cache.sealed_file import SealedWriter
from ledgerfs.cache.untrusted_folders import open_own_folder
from ledgerfs.forked import ForkLock, start_again_in_child
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest
from ledgerfs.storage.reading_threads import ReadingThreads

if TYPE_CHECKING:
    from concurrent.futures import Future

_QUEUE = 8
"""Most ranges in the write queue."""

_LARGEST_SHARE = 4
"""A range larger than this fraction of the bound (1/n) is not cached, since it would evict too many others."""

_PAUSE_SECONDS = 10.0
_QUIET_SECONDS = 300.0
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_LOG = logging.getLogger("ledgerfs.cache")
_READERS = ReadingThreads(4, "ledgerfs-disk-read")
_WRITERS = ReadingThreads(1, "ledgerfs-disk-write")


class DiskRanges:
    """Reads of one bucket from disk, or from the store and then written to the disk.

    Parameters
    ----------
    identity
        Identity of the bucket.

    """

    __slots__ = (
        *("__weakref__", "_files", "_forgotten", "_identity", "_lock"),
        *("_paused_until", "_queued", "_quiet_until", "_store"),
    )

    def __init__(self, store: RawStore, files: DiskFiles, identity: str) -> None:
        self._store = store
        self._files = files
        self._identity = identity
        self._lock = ForkLock()
        self._forgotten = 0
        self._paused_until = self._quiet_until = 0.0
        self.after_fork()
        start_again_in_child(self)

    def after_fork(self) -> None:
        """Start with an empty queue, since a forked child has no writer threads."""
        self._queued = 0

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Begin to read, as `RawStore.start`."""
        if self._files.path(self._name(request)).exists():
            return _READERS.start(self._read, request)
        forgotten = self._forgotten
        future = self._store.start(request)
        future.add_done_callback(lambda done: self._keep(request, done, forgotten))
        return future

    def forget(self, stat: ObjectStat) -> None:
        """Drop an object's ranges, including queued ones, since any may be damaged."""
        with self._lock:
            self._forgotten += 1
        digest = self._digest(stat.key, stat.version)
        with suppress(OSError):
            folder = open_own_folder(self._files.folder.path)
            try:
                for name in os.listdir(folder):  # noqa: PTH208  (a descriptor)
                    # Parts as well: the bytes of a running write may be damaged.
                    if name.startswith(digest):
                        os.unlink(name, dir_fd=folder)
            finally:
                os.close(folder)

    def _read(self, request: ReadRequest) -> Buffer:
        forgotten = self._forgotten
        data = self._found(request)
        if data is None:
            # It was removed meanwhile, or is damaged.
            data = self._store.read(request)
            self._put(request, data, forgotten)
        return data

    def _found(self, request: ReadRequest) -> bytes | None:
        """Return the verified bytes of a range on disk; None if there is none."""
        name = self._name(request)
        file = self._files.open(name)
        if file is None:
            return None
        try:
            data = file.seal.read(file.descriptor, 0, file.size)
        except OSError:
            data = None
        if data is None or len(data) != request.end - request.start:
            self._files.remove_damaged(name)
            return None
        file.note_use()
        return data

    def _keep(self, request: ReadRequest, read: "Future[Buffer]", forgotten: int) -> None:
        if read.cancelled() or read.exception() is not None or not self._has_room():
            return
        try:
            written = _WRITERS.start(self._put, request, read.result(), forgotten)
        except RuntimeError:
            # The interpreter is shutting down, and accepts no more work.
            self._give_room()
            return
        written.add_done_callback(lambda _: self._give_room())

    def _put(self, request: ReadRequest, data: Buffer, forgotten: int) -> None:
        """Write a range to disk, unless it was forgotten after the read; log errors of the disk."""
        if forgotten != self._forgotten or time.monotonic() < self._paused_until:
            return
        try:
            if len(data) <= self._files.bound // _LARGEST_SHARE:
                self._write(self._name(request), data)
        except BlockingIOError:
            # Another thread or process is writing the same range.
            return
        except FileNotFoundError:
            # The range was forgotten, or the folder removed, meanwhile.
            return
        except OSError as error:
            self._pause(error)
            return
        if forgotten != self._forgotten:
            self.forget(ObjectStat(request.key, 0, 0, request.version))

    def _write(self, name: str, data: Buffer) -> None:
        folder = self._files.folder.require()
        if is_behind(folder, self._files.bound):
            sweep(folder, self._files.bound)
            return
        if room(folder) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with self._files.part(name, waits=False) as part:
            writer = SealedWriter(part.descriptor)
            writer.write(data)
            self._files.keep(name, part, writer)

    def _pause(self, error: OSError) -> None:
        """Pause writes for a while, since they would fail again."""
        now = time.monotonic()
        self._paused_until = now + _PAUSE_SECONDS
        folder = self._files.folder
        if now >= self._quiet_until:
            self._quiet_until = now + _QUIET_SECONDS
            _LOG.warning("byte ranges cannot be cached in %s: %s", folder.path, error.strerror or error)
        if error.errno in _FULL:
            with suppress(OSError):
                sweep(folder.path, self._files.bound, is_full=True)

    def _has_room(self) -> bool:
        """Take a place in the queue; return false if it is full."""
        with self._lock:
            if self._queued == _QUEUE:
                return False
            self._queued += 1
            return True

    def _give_room(self) -> None:
        with self._lock:
            self._queued -= 1

    def _name(self, request: ReadRequest) -> str:
        return f"{self._digest(request.key, request.version)}.{request.start}-{request.end}"

    def _digest(self, key: str, version: str) -> str:
        return sha256(f"{self._identity}\n{key}\n{version}".encode("utf-8", "surrogatepass")).hexdigest()
