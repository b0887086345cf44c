"""A file of the tree that is opened for writing: the bytes of a file of records, which become a ledger of the bucket when it is closed.

fsspec closes files even after an exception in the ``with`` around them, and its own buffered files then complete half an object. Here an
exception aborts, in ``with fs.open(…)`` as in ``with fsspec.open(…)``.
"""

import atexit
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ledgerfs.catalog.layout import Progress
from ledgerfs.writing.bucket_writer import BucketWriter
from ledgerfs.writing.sources import EntrySource

if TYPE_CHECKING:
    from ledgerfs.layouts.pulsar_blob.writer import WrittenLedger

_open_uploads: "WeakSet[LedgerUpload]" = WeakSet()


@atexit.register
def _drop_open_uploads() -> None:
    """Drop uploads that nobody closed or committed, while the store can still be reached; at Python's very end it cannot."""
    for upload in list(_open_uploads):
        upload.drop()


class LedgerUpload(io.RawIOBase):
    """A file opened for writing, front to end, by one thread.

    Parameters
    ----------
    path
        The file's path, for errors.
    autocommit
        Whether closing makes the ledger appear; otherwise `commit` does, or `discard` drops it (fsspec's transactions).

    Attributes
    ----------
    ledger
        The ledger that is written.
    written
        The ledger, once it is in the bucket.

    """

    mode = "wb"

    def __init__(self, path: str, writer: BucketWriter, *, autocommit: bool = True) -> None:
        super().__init__()
        self.path = path
        self.written: WrittenLedger | None = None
        self.ledger = writer.ledger
        self._writer: BucketWriter | None = writer
        self._autocommit = autocommit
        self._position = 0
        self._exception = sys.exc_info()[1]
        self._process = os.getpid()
        _open_uploads.add(self)

    @property
    def name(self) -> str:
        """The path."""
        return self.path

    @property
    def is_pending(self) -> bool:
        """Whether the ledger may still appear."""
        return self._writer is not None

    def readinto(self, _: Any) -> int:  # noqa: ANN401  (whatever has bytes)
        """Refuse."""
        raise io.UnsupportedOperation("not readable")

    def writable(self) -> bool:
        """Return true."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._position

    def write(self, data: Any) -> int:  # noqa: ANN401  (whatever has bytes)
        """Take the next bytes of the file; raises `RefusedLedgerError` as soon as they are not a ledger's, and then aborts."""
        view = memoryview(data).cast("B")
        with self._discarding() as writer:
            writer.feed(view)
        self._position += len(view)
        return len(view)

    def add_all(self, source: EntrySource, progress: Progress | None = None) -> None:
        """Take all entries of a source, instead of bytes."""
        with self._discarding() as writer:
            writer.add_all(source, progress)

    @contextmanager
    def _discarding(self) -> Iterator[BucketWriter]:
        """Discard all of it if work with the writer fails."""
        if self._writer is None:
            raise ValueError("I/O operation on closed file.")
        try:
            yield self._writer
        except BaseException:
            self.discard()
            raise

    def close(self) -> None:
        """Make the ledger appear, except in a transaction, or while an exception is raised that came after the file was opened."""
        if self.closed:
            return
        super().close()
        if self._writer is None:
            return
        exception = sys.exc_info()[1]
        if exception is not None and exception is not self._exception:
            self.discard()
            return
        with self._discarding() as writer:
            if self._position:
                writer.end_file()
            writer.seal()
        if self._autocommit:
            self.commit()

    def commit(self) -> None:
        """Make the ledger appear, at once."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self.written = writer.commit()

    def discard(self) -> None:
        """Drop all of it; nothing is left in the bucket."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abort()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        # A file that was never closed is not complete, and nobody can commit this one any more.
        self.drop()

    def drop(self) -> None:
        """Discard an upload that nobody will end any more; not in a forked child, whose parent may still write."""
        if getattr(self, "_writer", None) is not None and self._process == os.getpid():
            self.discard()
