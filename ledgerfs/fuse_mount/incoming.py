"""Files that are being copied in: bytes as they come become a ledger, which appears when the file is closed."""

import errno
import os
import threading

from ledgerfs.vfs.bucket import Bucket
from ledgerfs.vfs.writing.record_stream import RecordStream
from ledgerfs.vfs.writing.target import target_of
from ledgerfs.vfs.writing.write import Wanted, open_writer


class IncomingFile:
    """One file that is written front to end. Its calls may come from any thread, one after the other.

    Parameters
    ----------
    process
        Who opened it. Others that inherited it, such as the children of a shell, close it too, without having written all of it.

    Attributes
    ----------
    size
        Bytes that came.
    is_there
        Whether the ledger is in the bucket.

    """

    def __init__(self, bucket: Bucket, path: str, process: int, block_size: int | None) -> None:
        managed_ledger, ledger_id = target_of(path)
        self._writer = open_writer(bucket, Wanted(managed_ledger, ledger_id, block_size=block_size))
        self._stream = RecordStream(path, self._writer.ledger.largest_taken)
        self._bucket = bucket
        self._name = (ledger_id, managed_ledger)
        self._process = process
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self.size = 0
        self.is_there = False

    def write(self, data: bytes, offset: int) -> int:
        """Take the next bytes; raises ``ENOTSUP`` for bytes elsewhere, and whatever is wrong with the records, now and from then on."""
        with self._lock:
            self._require_open()
            if offset != self.size:
                raise OSError(errno.ENOTSUP, "files of a bucket are written front to end")
            try:
                for batch in self._stream.feed(data):
                    self._writer.add(batch)
            except BaseException as error:
                self._give_up(error)
                raise
            self.size += len(data)
            return len(data)

    def flush(self, process: int) -> None:
        """Make the ledger appear if whoever opened the file closes it, and something was written; raises what keeps it from appearing."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if process == self._process and self.size and not self.is_there:
                self._commit()

    def release(self) -> None:
        """End it when nobody has it open any more: what was written is committed, an empty file is dropped."""
        with self._lock:
            if self.is_there or self._error is not None:
                return
            if self.size:
                self._commit()
            else:
                self._writer.abort()

    def abort(self) -> None:
        """Drop it; nothing is left in the bucket."""
        with self._lock:
            if not self.is_there and self._error is None:
                self._give_up(OSError(errno.EIO, os.strerror(errno.EIO)))

    def _commit(self) -> None:
        try:
            self._stream.finish()
            self._writer.commit()
        except BaseException as error:
            self._give_up(error)
            raise
        self.is_there = True
        self._bucket.note_written(*self._name)

    def _give_up(self, error: BaseException) -> None:
        self._error = error
        self._writer.abort()

    def _require_open(self) -> None:
        if self._error is not None:
            raise self._error
        if self.is_there:
            raise OSError(errno.EPERM, "the ledger is complete, and never changes")
