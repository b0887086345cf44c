"""Which folders of a bucket are listed: those of a layout as a whole, those on the way to them one level at a time.

A foreign folder may have a million objects. Folders of a layout are known by their paths (`Listing.levels_of_layout`), and folders on the
way to them have folders in them. So the search lists single levels, and gives up on a folder after a few dead ends.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat

MOST_DEAD_ENDS = 8
"""Folders without folders that are listed in a folder before the search there ends, unless a folder of a layout was found."""

_DEEPEST = 32
"""Levels of folders that are searched."""

Pages = Iterable[list[ObjectStat]]


class _Searched(NamedTuple):
    """What to take of a folder: its dead ends, 0 once a layout was found; how many levels above the folder are of that layout, too."""

    pages: list[Pages]
    dead_ends: int
    levels: int = 0


class FolderSearch:
    """The search in one folder at the top of a bucket.

    Parameters
    ----------
    levels_of_layout
        Returns whether a folder, by its path, is of a layout, as `Listing.levels_of_layout`.

    Attributes
    ----------
    given_up
        The folders of which only a part was searched.

    """

    __slots__ = ("_denied", "_levels_of_layout", "_store", "_with_files", "given_up")

    def __init__(self, store: ObjectStore, levels_of_layout: Callable[[str], int | None]) -> None:
        self.given_up: list[str] = []
        self._store = store
        self._levels_of_layout = levels_of_layout
        self._denied: list[tuple[ObjectStat, str]] = []
        self._with_files: set[str] = set()

    def pages(self, folder: str) -> Iterator[list[ObjectStat]]:
        """Yield the objects in a folder that may be of a layout; a folder that was not searched is one object.

        A folder that may not be listed is one object, too, with ``refused``, unless it is beside files where no layout was found.
        """
        found = self._search(folder, "")
        yield from chain.from_iterable(found.pages)
        yield [
            replace(stat, refused="") if found.dead_ends and above in self._with_files else stat
            for stat, above in self._denied
        ]

    def _search(self, folder: str, above: str) -> _Searched:
        levels = self._levels_of_layout(folder)
        if levels is not None:
            return self._whole(folder, levels)
        pages: list[Pages] = []
        dead_ends, is_found, has_folders = 0, False, False
        for page in self._store.list_level(folder):
            if not is_found and dead_ends >= (MOST_DEAD_ENDS if has_folders else 1):
                # A page of files alone is a dead end, too.
                self.given_up.append(folder)
                break
            folders = self._parted(page, folder, above, pages)
            has_folders |= bool(folders)
            dead_ends += not folders
            for below in folders:
                if not is_found and dead_ends >= MOST_DEAD_ENDS:
                    self.given_up.append(folder)
                    return _Searched([*pages, [folders[folders.index(below) :]]], dead_ends)
                found = self._search(below.key, folder)
                if found.levels:
                    return self._whole(folder, found.levels - 1)
                pages += found.pages
                is_found |= not found.dead_ends
                dead_ends += found.dead_ends
        return _Searched(pages, 0 if is_found else max(1, dead_ends))

    def _whole(self, folder: str, levels: int) -> _Searched:
        # Its own listing has these again.
        self._denied = [one for one in self._denied if not one[0].key.startswith(folder)]
        self.given_up = [one for one in self.given_up if not one.startswith(folder)]
        return _Searched([self._all_in(folder)], 0, levels)

    def _all_in(self, folder: str) -> Iterator[list[ObjectStat]]:
        """Yield what is in a folder and below it; nothing is listed before the first page is wanted."""
        yield from self._store.list_folder(folder)

    def _parted(self, page: list[ObjectStat], folder: str, above: str, pages: list[Pages]) -> list[ObjectStat]:
        """Return the folders of a page that are to be searched, those of layouts first; add what else it has to ``pages``."""
        is_deepest = folder.count("/") >= _DEEPEST
        folders, others = [], []
        for stat in page:
            if stat.key == folder and stat.refused:
                self._denied.append((stat, above))
            elif stat.key.endswith("/") and stat.key != folder and not is_deepest:
                folders.append(stat)
            else:
                others.append(stat)
        if any(not (stat.refused or stat.key.endswith("/")) for stat in others):
            self._with_files.add(folder)
        pages.append([others])
        return sorted(folders, key=lambda stat: self._levels_of_layout(stat.key) is None)
