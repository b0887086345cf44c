"""Files that are open for reading, by path: which were replaced since, and whose bytes the kernel's page cache may contain.

The kernel has one page cache and one size for each open path, shared by all versions of the file. These rules keep a reader from bytes or
the size of another version:

* A file is *replaced* as soon as another version of its path is opened, or another size of it is shown. All further reads of it fail.
* While an old version is open, the new one bypasses the page cache: otherwise readers of the old version would get its bytes.
* The kernel does not cache sizes while a replaced file is open: a smaller size would cut it off. If the kernel requests the size to read
  that file, it gets an error.
* Estimates of a size are shown only while the path is not open. An open then makes the kernel request the size again.
"""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from cachetools import LRUCache

from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.fuse_mount.attributes import Attributes

_REMEMBERED = 1 << 16
"""Number of paths for which the version in the kernel's cache is remembered."""


@dataclass(slots=True, eq=False)
class ReadFile:
    """A file that is open for reading.

    Attributes
    ----------
    shown
        The attributes when it was opened, which ``stat`` still shows after the path is removed.
    is_replaced
        Whether another version of the path was opened, or its size shown, since.
    is_uncached
        Whether another version was open when it was opened: reads bypass the page cache.

    """

    path: str
    file: FileReader
    shown: Attributes
    is_replaced: bool = field(default=False, init=False)
    is_uncached: bool = field(default=False, init=False)


class ReadFiles:
    """The files of one mount that are open for reading. Thread-safe."""

    def __init__(self) -> None:
        self._files: dict[str, list[ReadFile]] = {}
        self._cached: LRUCache[str, Hashable] = LRUCache(_REMEMBERED)
        self._replaced = 0
        self._lock = threading.Lock()
        self.on_replaced: Callable[[bool], None] = lambda _: None
        """Called at the first replaced file (True), and at the close of the last one (False). It must not call back."""

    def add(self, opened: ReadFile, is_current: Callable[[], bool]) -> bool:
        """Add an opened file if it is still ``is_current``; return whether it was added."""
        with self._lock:
            if not is_current():
                return False
            files = self._files.setdefault(opened.path, [])
            others = [one for one in files if one.file.identity != opened.file.identity]
            opened.is_uncached = bool(others)
            files.append(opened)
            self._replace(others)
            return True

    def discard(self, opened: ReadFile) -> None:
        """Remove a closed file."""
        with self._lock:
            left = [one for one in self._files.pop(opened.path, []) if one is not opened]
            if left:
                self._files[opened.path] = left
            if opened.is_replaced:
                self._replaced -= 1
                if not self._replaced:
                    self.on_replaced(False)

    def show(self, path: str, shown: Attributes, is_current: Callable[[], bool]) -> Attributes | None:
        """Return the attributes to show for a path, and record their size; None if they are not ``is_current`` any more."""
        if path not in self._files and not shown.is_estimate:
            return shown
        with self._lock:
            files = self._files.get(path, ())
            if shown.is_estimate:
                self._cached.pop(path, None)
                return replace(shown, size=files[-1].shown.size, is_estimate=False) if files else shown
            others = [one for one in files if one.shown.size != shown.size]
            if others and not is_current():
                return None
            self._replace(others)
            return shown

    def names_in(self, directory: str) -> set[str]:
        """Return the names of a directory's files that are open."""
        split = (path.rpartition("/") for path in list(self._files))
        return {name for parent, _, name in split if parent == directory}

    def is_cached(self, opened: ReadFile) -> bool:
        """Whether the page cache has no bytes of another version of an open file."""
        with self._lock:
            return self._cached.get(opened.path) == opened.file.identity

    def forgotten(self, opened: ReadFile) -> None:
        """Record that the path's page cache was cleared since a file was opened: its new bytes are from the last version."""
        with self._lock:
            if opened.is_replaced:
                self._cached.pop(opened.path, None)
            else:
                self._cached[opened.path] = opened.file.identity

    def may_be_cached(self, opened: ReadFile) -> bool:
        """Whether no other version is open, whose readers would get this version's bytes from the page cache."""
        if not opened.is_uncached:
            return True
        with self._lock:
            return all(one.file.identity == opened.file.identity for one in self._files.get(opened.path, ()))

    def _replace(self, others: list[ReadFile]) -> None:
        found = [one for one in others if not one.is_replaced]
        for one in found:
            one.is_replaced = True
        if found and not self._replaced:
            self.on_replaced(True)
        self._replaced += len(found)
