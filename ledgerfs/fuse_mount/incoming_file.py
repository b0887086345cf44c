"""Files that are being copied in: their bytes become a ledger, which appears when the file is closed.

If the writer was killed, the ledger must not appear, but the kernel also sends ``flush`` then: `ledgerfs.fuse_mount.processes`
distinguishes both cases, but not a failed program that closes the file in order (such as after a signal) from one that is done.
"""

import errno
import os
import threading
import time
from typing import TYPE_CHECKING

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs.fuse_mount.attributes import Attributes, inode_of
from ledgerfs.fuse_mount.processes import has_failed, is_held, process_of
from ledgerfs.vfs.target import target_of
from ledgerfs.writing.admission import Admission, is_current
from ledgerfs.writing.write import Wanted, open_writer, ref_of

if TYPE_CHECKING:
    from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger


class IncomingFile:
    """One file that is written sequentially. Its calls may come from any thread, one after the other.

    Parameters
    ----------
    thread
        The thread that opened it, from FUSE. Processes that inherited the file, such as a shell's children, may close it too early.

    Attributes
    ----------
    path
        Path in the tree.
    size
        Bytes written so far.
    is_there
        Whether the ledger is in the bucket.
    changed_ms
        When the last bytes were written, or the ledger was complete; ms since 1970 UTC.

    """

    def __init__(self, bucket: Bucket, path: str, thread: int, block_size: int | None) -> None:
        managed_ledger, ledger_id = target_of(path)
        wanted = Wanted(managed_ledger, ledger_id, block_size=block_size)
        self._writer = open_writer(Admission(bucket), wanted, path)
        self.path = path
        # Look up the process now: the thread may exit.
        self._writers = {thread: process_of(thread)}
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._written: WrittenLedger | None = None
        self._store = bucket.raw_store
        self.size = 0
        self.is_there = False
        self.changed_ms = int(time.time() * 1000)

    def write(self, data: bytes, offset: int, thread: int = 0) -> int:
        """Accept the next bytes. Raises ``ENOTSUP`` for another offset, and errors in the records, now and at each later call."""
        with self._lock:
            self._require_open()
            if thread not in self._writers:
                self._writers[thread] = process_of(thread)
            try:
                if offset != self.size:
                    raise self._not_in_order()
                self._writer.feed(data)
            except BaseException as error:
                self._give_up(error)
                raise
            self.size += len(data)
            self.changed_ms = int(time.time() * 1000)
            return len(data)

    def resize(self, size: int) -> None:
        """Raise ``ENOTSUP`` unless it has this size; if bytes were written already, give the file up."""
        with self._lock:
            self._require_open()
            if size != self.size:
                error = self._not_in_order()
                if self.size:
                    self._give_up(error)
                raise error

    def flush(self, thread: int) -> None:
        """Publish the ledger when its last writer closes the file; raises the error that prevents it."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self.is_there:
                return
            processes = set(self._writers.values())
            if process_of(thread) not in processes:
                return
            if has_failed(thread):
                error = LedgerfsError("the writing process was killed or failed; nothing was written", key=self.path)
                self._give_up(error)
                raise error
            if is_held(processes, inode_of(self.path)):
                return
            self._commit()

    def release(self) -> None:
        """Finish the file after its last close: commit its bytes, or drop an empty file."""
        with self._lock:
            if self.is_there or self._error is not None:
                return
            if self.size:
                self._commit()
            else:
                self._give_up(_given_up())

    @property
    def shown(self) -> Attributes:
        """The attributes for ``stat``."""
        return Attributes(inode_of(self.path), False, self.size, self.changed_ms, self.changed_ms)

    @property
    def is_given_up(self) -> bool:
        """Whether it can never become a ledger."""
        return self._error is not None

    def sync(self) -> None:
        """Raise the error that prevents the ledger, if one is known."""
        with self._lock:
            if self._error is not None:
                raise self._error

    def abort(self) -> bool:
        """Drop the file, unless the ledger is in the bucket; return whether it was dropped."""
        with self._lock:
            if not self.is_there and self._error is None:
                self._give_up(_given_up())
            return not self.is_there

    def is_gone(self) -> bool:
        """Whether the ledger was removed from the bucket or replaced since; one or two HEAD requests. Raises the store's errors."""
        return self._written is not None and not is_current(self._store, ref_of(self._written))

    def _commit(self) -> None:
        try:
            self._writer.end_file()
            self._written = self._writer.commit()
        except BaseException as error:
            self._give_up(error)
            raise
        self.is_there = True
        self.changed_ms = int(time.time() * 1000)

    def _give_up(self, error: BaseException) -> None:
        self._error = error
        self._writer.abort()

    def _not_in_order(self) -> OSError:
        return OSError(errno.ENOTSUP, f"{self.path}: files can only be written from start to end")

    def _require_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self.is_there:
            raise OSError(errno.EPERM, f"{self.path}: the ledger is complete and cannot be changed")


def _given_up() -> OSError:
    return OSError(errno.EIO, os.strerror(errno.EIO))
