"""An open file of the tree, with fsspec's seeking, line reading and pickling.

pyarrow reads a data set over a Python filesystem with its own threads, which drop a file slightly after its last read. If the program exits
in between, such a thread needs an interpreter that has ended, and the process aborts (``terminate called without an active exception``,
exit code 134) although all work was done. Seen with pyarrow 26, also with fsspec's local filesystem. So a program that exits waits until
such files are dropped, at most 0.1 s.
"""

import atexit
import sys
import time
from typing import Any
from weakref import WeakValueDictionary

from fsspec.spec import AbstractBufferedFile

from ledgerfs.catalog.file_reader import FileReader

_ARROW_SECONDS = 0.1
_POLL_SECONDS = 0.002


class LedgerFile(AbstractBufferedFile):
    """A file opened for reading. Not thread-safe: each thread should open its own, which costs nothing.

    A lower layer reads ahead and caches bytes for all readers of the process, so this uses a cache of fsspec only if ``cache_type``
    names one.
    """

    def __init__(
        self,
        fs: Any,  # noqa: ANN401  (fsspec is not typed)
        path: str,
        opened: FileReader,
        cache_type: str = "none",
        **options: Any,  # noqa: ANN401
    ) -> None:
        self._opened: FileReader | None = opened
        self._is_cached = cache_type != "none"
        super().__init__(fs, path, mode="rb", size=opened.size, cache_type=cache_type, **options)
        if not self._is_cached:
            # The cache refers to this file; without the cycle, closing frees the file before the next garbage collection.
            self.cache = None
        if "pyarrow._dataset" in sys.modules:
            _of_arrow[id(self)] = self

    def read(self, length: int | None = -1) -> bytes:
        """Return the next ``length`` bytes, or all bytes up to the end if it is negative or None."""
        if self._is_cached:
            data: bytes = super().read(-1 if length is None else length)
            return data
        end = self.size if length is None or length < 0 else min(self.size, self.loc + length)
        data = self._fetch_range(self.loc, end)
        self.loc += len(data)
        return data

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  (any writable buffer)
        """Fill a buffer with the next bytes; return their number."""
        if self._opened is None or self._is_cached:
            count: int = super().readinto(buffer)
            return count
        target = memoryview(buffer).cast("B")
        count = max(0, min(len(target), self.size - self.loc))
        if count:
            self._opened.read_into(self.loc, target[:count])
        self.loc += count
        return count

    def close(self) -> None:
        """Close, and release descriptors and pending requests."""
        super().close()
        self._opened = None

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._opened is None:
            raise ValueError("I/O operation on closed file.")
        return self._opened.read(start, end) if start < end else b""


_of_arrow: WeakValueDictionary[int, LedgerFile] = WeakValueDictionary()
"""Files that pyarrow's data sets may hold, by `id`: all files opened after the import of ``pyarrow.dataset``."""


@atexit.register
def wait_for_arrow() -> None:
    """Wait until pyarrow's threads have dropped the files of data sets, at most 0.1 s."""
    deadline = time.monotonic() + _ARROW_SECONDS
    while _of_arrow and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
