"""A folder of byte ranges between the cache in memory and a remote store: bytes that one process fetched, others read from disk.

No reader waits for writes to the disk: they have a short queue, and ranges that do not fit into it are not kept.
"""

import os
from typing import TYPE_CHECKING

from ledgerfs.cache.disk_ranges import DiskRanges
from ledgerfs.formats.buffers import Buffer
from ledgerfs.storage.fork_lock import ForkLock
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest
from ledgerfs.storage.reading_threads import ReadingThreads

if TYPE_CHECKING:
    from concurrent.futures import Future

_QUEUE = 8
"""Ranges that may wait to be written."""

_READERS = ReadingThreads(4, "ledgerfs-disk-read")
_WRITERS = ReadingThreads(1, "ledgerfs-disk-write")


class DiskLevel:
    """Reads of one bucket: from disk if the bytes are there, otherwise from the store, and then written to the disk.

    Parameters
    ----------
    identity
        Identity of the bucket.

    """

    __slots__ = ("_disk", "_forgotten", "_identity", "_lock", "_process", "_queued", "_store")

    def __init__(self, store: RawStore, disk: DiskRanges, identity: str) -> None:
        self._store = store
        self._disk = disk
        self._identity = identity
        self._lock = ForkLock()
        self._process = os.getpid()
        self._queued = 0
        self._forgotten = 0

    def start(self, request: ReadRequest) -> "Future[Buffer]":
        """Begin to read, as `RawStore.start`."""
        found = self._disk.find(self._name(request.key, request.version), request.start, request.end)
        if sum(end - start for start, end in found) == request.end - request.start:
            return _READERS.start(self._read, request)
        forgotten = self._forgotten
        future = self._store.start(request)
        future.add_done_callback(lambda done: self._keep(request, done, forgotten))
        return future

    def forget(self, stat: ObjectStat) -> None:
        """Drop an object's ranges, including those that wait to be written: they may be the damaged ones."""
        with self._lock:
            self._forgotten += 1
        self._disk.forget(self._name(stat.key, stat.version))

    def _read(self, request: ReadRequest) -> Buffer:
        forgotten = self._forgotten
        data = self._disk.read(self._name(request.key, request.version), request.start, request.end)
        if data is None:
            # It was removed, or damaged, since it was found.
            data = self._store.read(request)
            self._put(request, data, forgotten)
        return data

    def _keep(self, request: ReadRequest, read: "Future[Buffer]", forgotten: int) -> None:
        if read.cancelled() or read.exception() is not None or not self._has_room():
            return
        try:
            written = _WRITERS.start(self._put, request, read.result(), forgotten)
        except RuntimeError:
            # The interpreter is ending, and accepts no more work.
            self._give_room()
            return
        written.add_done_callback(lambda _: self._give_room())

    def _put(self, request: ReadRequest, data: Buffer, forgotten: int) -> None:
        name = self._name(request.key, request.version)
        if forgotten != self._forgotten:
            return
        self._disk.put(name, request.start, data)
        if forgotten != self._forgotten:
            self._disk.forget(name)

    def _has_room(self) -> bool:
        """Take a place in the queue; false if it is full. A forked child has a queue of its own."""
        with self._lock:
            if self._process != os.getpid():
                self._process, self._queued = os.getpid(), 0
            if self._queued == _QUEUE:
                return False
            self._queued += 1
            return True

    def _give_room(self) -> None:
        with self._lock:
            self._queued -= 1

    def _name(self, key: str, version: str) -> str:
        return f"{self._identity}\n{key}\n{version}"
