"""A file of the tree that is opened for writing: closing it makes its records a ledger of the bucket.

fsspec closes files even after an exception in the ``with`` around them, and its own buffered files then complete a truncated object. Here
an exception aborts, in ``with fs.open(…)`` as in ``with fsspec.open(…)``.
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
    """Drop uploads that were not closed or committed, while the store is still reachable, which it is not at the end of Python's exit."""
    for upload in list(_open_uploads):
        upload.drop()


class LedgerUpload(io.RawIOBase):
    """A file opened for sequential writing by one thread.

    Parameters
    ----------
    path
        The file's path, for errors.
    autocommit
        Whether closing publishes the ledger; otherwise `commit` does, or `discard` drops it (fsspec's transactions).

    Attributes
    ----------
    ledger
        The ledger to write.
    written
        The written ledger, after it is in the bucket.

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
        """Whether the ledger can still be published."""
        return self._writer is not None

    def readinto(self, _: Any) -> int:  # noqa: ANN401  (any buffer)
        """Refuse."""
        raise io.UnsupportedOperation("not readable")

    def writable(self) -> bool:
        """Return true."""
        return True

    def tell(self) -> int:
        """Return the number of written bytes."""
        return self._position

    def write(self, data: Any) -> int:  # noqa: ANN401  (any buffer)
        """Accept the next bytes of the file; raises `RefusedLedgerError` and aborts as soon as they are not records of a ledger."""
        view = memoryview(data).cast("B")
        with self._discarding() as writer:
            writer.feed(view)
        self._position += len(view)
        return len(view)

    def add_all(self, source: EntrySource, progress: Progress | None = None) -> None:
        """Add all entries of a source, instead of bytes."""
        with self._discarding() as writer:
            writer.add_all(source, progress)

    @contextmanager
    def _discarding(self) -> Iterator[BucketWriter]:
        """Discard the upload if work with the writer fails."""
        if self._writer is None:
            raise ValueError("I/O operation on closed file.")
        try:
            yield self._writer
        except BaseException:
            self.discard()
            raise

    def close(self) -> None:
        """Publish the ledger, except in a transaction, or while an exception propagates that was raised after the file was opened."""
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
        """Publish the ledger at once."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self.written = writer.commit()

    def discard(self) -> None:
        """Drop the upload; leave nothing in the bucket."""
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
        # A file that was never closed is not complete, and without a reference it can never be committed.
        self.drop()

    def drop(self) -> None:
        """Discard an abandoned upload; not in a forked child, whose parent may still write."""
        if getattr(self, "_writer", None) is not None and self._process == os.getpid():
            self.discard()
