"""An open file of the tree, with the seeking, line reading and pickling that fsspec gives every file.

pyarrow reads a data set over a Python filesystem with threads of its own, which let go of a file a little after it is read. When the
program ends in between, such a thread asks for an interpreter that is gone, and the process aborts (``terminate called without an active
exception``, exit code 134), though all was done. Seen with pyarrow 26 and fsspec's own local filesystem alike. So a program that ends
within a tenth of a second of such a read waits for the rest of it.
"""

import atexit
import math
import sys
import time
from typing import Any, ClassVar

from fsspec.spec import AbstractBufferedFile

from ledgerfs.vfs.tree import OpenFile

_ARROW_SECONDS = 0.1


class LedgerFile(AbstractBufferedFile):
    """A file opened for reading. Not for several threads at once: each opens its own, which costs nothing.

    Bytes are fetched ahead and cached below this layer, for all readers of the process, so none of fsspec's caches is used unless
    ``cache_type`` names one.
    """

    last_use: ClassVar[float] = -math.inf
    """When any file was opened or read last, by `time.monotonic`."""

    def __init__(
        self,
        fs: Any,  # noqa: ANN401  (fsspec is not typed)
        path: str,
        opened: OpenFile,
        cache_type: str = "none",
        **options: Any,  # noqa: ANN401
    ) -> None:
        LedgerFile.last_use = time.monotonic()
        self._opened: OpenFile | None = opened
        self._is_cached = cache_type != "none"
        super().__init__(fs, path, mode="rb", size=opened.size, cache_type=cache_type, **options)

    def read(self, length: int | None = -1) -> bytes:
        """Return the next ``length`` bytes, all that are left if it is negative or None."""
        if self._is_cached:
            data: bytes = super().read(-1 if length is None else length)
            return data
        end = self.size if length is None or length < 0 else min(self.size, self.loc + length)
        data = self._fetch_range(self.loc, max(self.loc, end))
        self.loc += len(data)
        return data

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401  (whatever has bytes to be written to)
        """Fill a buffer with the next bytes; return how many there were."""
        if self._opened is None or self._is_cached:
            count: int = super().readinto(buffer)
            return count
        count = self._opened.read_into(self.loc, memoryview(buffer).cast("B"))
        LedgerFile.last_use = time.monotonic()
        self.loc += count
        return count

    def close(self) -> None:
        """Close, and release descriptors and parts that are being fetched."""
        super().close()
        self._opened = None

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._opened is None:
            raise ValueError("I/O operation on closed file.")
        found = self._opened.read(start, end)
        LedgerFile.last_use = time.monotonic()
        return found


@atexit.register
def wait_for_arrow() -> None:
    """Let pyarrow's threads run until a tenth of a second after the last read, if the program used data sets."""
    left = LedgerFile.last_use + _ARROW_SECONDS - time.monotonic()
    if left > 0 and "pyarrow._dataset" in sys.modules:
        time.sleep(left)
