"""An open file of the tree, with the buffering, seeking and pickling that fsspec gives every file."""

from typing import Any

from fsspec.spec import AbstractBufferedFile

from ledgerfs.vfs.tree import OpenFile


class LedgerFile(AbstractBufferedFile):
    """A file opened for reading. Not for several threads at once: each opens its own, which costs nothing."""

    def __init__(self, fs: Any, path: str, opened: OpenFile, **options: Any) -> None:  # noqa: ANN401  (fsspec is not typed)
        self._opened: OpenFile | None = opened
        super().__init__(fs, path, mode="rb", size=opened.size, **options)

    def close(self) -> None:
        """Close, and let go of what the file holds of the machine, such as the descriptor of a rendered file."""
        super().close()
        self._opened = None

    def _fetch_range(self, start: int, end: int) -> bytes:
        if self._opened is None:
            raise ValueError("I/O operation on closed file.")
        return self._opened.read(start, end)
