"""Files that are open for reading, by path: which of them were replaced since, and whose bytes the kernel's page cache may have.

The kernel has one page cache and one size for all who have a path open, whichever version of the file they opened. So that nobody gets
bytes of another version, or ends where another one does:

* A file is *replaced* as soon as another version of its path is opened, or another size of it is shown. All further reads of it fail.
* The new version is opened without the page cache as long as the old one is open: what it put there, the old one's reader would be given.
* The kernel keeps no sizes as long as a replaced file is open: a smaller one would end it. When it asks for the size to read that file,
  it gets an error.
* Estimates of a size are shown only while the path is not open. Opening it then makes the kernel ask for the size again.
"""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

from cachetools import LRUCache

from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.fuse_mount.attributes import Attributes

_REMEMBERED = 1 << 16
"""Of so many paths it is known what bytes the kernel may have."""


@dataclass(slots=True, eq=False)
class ReadFile:
    """A file that is read.

    Attributes
    ----------
    shown
        The attributes when it was opened, which ``stat`` still shows if the path is gone.
    is_replaced
        Whether the path was opened, or its size shown, with another version since.
    is_uncached
        Whether another version was open when it was opened: it is read past the page cache.

    """

    path: str
    file: FileReader
    shown: Attributes
    is_replaced: bool = field(default=False, init=False)
    is_uncached: bool = field(default=False, init=False)


class ReadFiles:
    """The files of one mount that are open for reading. Any number of threads may call it."""

    def __init__(self) -> None:
        self._files: dict[str, list[ReadFile]] = {}
        self._cached: LRUCache[str, Hashable] = LRUCache(_REMEMBERED)
        self._replaced = 0
        self._lock = threading.Lock()
        self.on_replaced: Callable[[bool], None] = lambda _: None
        """Called when the first replaced file is found (True), and when the last one is closed (False). It must not call back."""

    def add(self, opened: ReadFile, is_current: Callable[[], bool]) -> bool:
        """Take a file that was opened, unless it is not ``is_current`` any more; returns whether it was taken."""
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
        """Drop a file that was closed."""
        with self._lock:
            left = [one for one in self._files.pop(opened.path, []) if one is not opened]
            if left:
                self._files[opened.path] = left
            if opened.is_replaced:
                self._replaced -= 1
                if not self._replaced:
                    self.on_replaced(False)

    def show(self, path: str, shown: Attributes, is_current: Callable[[], bool]) -> Attributes | None:
        """Return the attributes to show of a path, and note their size; None if they are not ``is_current`` any more."""
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
        """Whether the page cache has, of the path of an open file, at most bytes of this version."""
        with self._lock:
            return self._cached.get(opened.path) == opened.file.identity

    def forgotten(self, opened: ReadFile) -> None:
        """Note that the page cache was emptied of the path since a file was opened: what it gets from now on is of the last version."""
        with self._lock:
            if opened.is_replaced:
                self._cached.pop(opened.path, None)
            else:
                self._cached[opened.path] = opened.file.identity

    def may_be_cached(self, opened: ReadFile) -> bool:
        """Whether no other version of an open file is open, which would be given its bytes from the page cache."""
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
