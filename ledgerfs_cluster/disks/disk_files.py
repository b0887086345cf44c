"""List the files on the disks of bookies: entry logs and journals, and the bookie that owns each disk.

A bookie keeps the files of each ledger and journal directory in a folder ``current``: logs ``<hex>.log``, journals ``<hex>.txn``, and a
file ``VERSION`` that names the bookie. Files of a running compaction (``….log.compacting``, ``….log.….compacted``) are not logs yet.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice
from operator import attrgetter

from ledgerfs.errors import (
    AccessDeniedError,
    BucketNotFoundError,
    CorruptMetadataError,
    InvalidOptionError,
    ObjectNotFoundError,
    StoreError,
)
from ledgerfs_cluster.formats.bookkeeper.cookie import MOST_COOKIE_BYTES, Cookie, parse_cookie

CURRENT = "current"
_FILE = re.compile(r"([0-9a-fA-F]{1,16})\.(log|txn)")
_COOKIE = "VERSION"
_DEEPEST, _DEEPEST_PEEKED, _FEW = 4, 3, 64
"""Levels of folders below a given path that are searched for a folder ``current``."""

_Names = list[tuple[str, bool]]
"""(name, whether it is a folder) of each entry of a folder."""


class FileKind(IntEnum):
    """Kind of file that contains entries."""

    LOG = 0
    JOURNAL = 1


@dataclass(frozen=True, slots=True)
class DiskFile:
    """One entry log or journal, as of the listing of its folder.

    Attributes
    ----------
    number
        Its id; the file name has it in hexadecimal.
    bookie
        Row of the bookie in `DiskListing.bookies`.
    size, changed_ns, inode
        Bytes; time of the last change of bytes or name, ns since 1970 UTC; inode number.

    """

    path: str
    kind: FileKind
    number: int
    bookie: int
    size: int
    changed_ns: int
    inode: int

    @property
    def folder(self) -> str:
        """The folder ``current`` of the file."""
        return os.path.dirname(self.path)  # noqa: PTH120  (a million of them, as texts)


@dataclass(frozen=True, slots=True)
class DiskListing:
    """All files on some disks.

    Attributes
    ----------
    bookies
        Ids of bookies, then paths of disks without a bookie's id.
    named
        Number of ids at the start of ``bookies``.
    files
        By bookie, logs first, ascending by folder and number.
    troubles
        Errors of damaged or unexpected files.
    instance_id
        The id of the cluster in the cookies of the bookies; None if they have none.
    doubtful
        Rows of bookies with something that has the name of a log or a journal, but is not a file.

    """

    bookies: tuple[str, ...]
    named: int
    files: tuple[DiskFile, ...]
    troubles: tuple[CorruptMetadataError, ...] = ()
    instance_id: str | None = None
    doubtful: frozenset[int] = frozenset()


def looks_like_disks(path: str) -> bool:
    """Return whether a folder is a bookie's or has some below it: few folders, and a ``current`` with logs, journals or ``VERSION``.

    Reads only a few names: any other folder may have millions of files.
    """
    return any(_current_folders(path, _DEEPEST_PEEKED, _few_names))


def list_disks(paths: Sequence[str]) -> DiskListing:
    """List the logs and journals on some disks, each a path as in `BookieDisks.paths`.

    Raises `BucketNotFoundError` for a path without any, `InvalidOptionError` for disks of two clusters, whose ledgers have the same ids,
    and for a disk behind a link, `ObjectNotFoundError` if a file is deleted meanwhile (compaction moved its live entries to another file,
    which the listing may lack), `AccessDeniedError` for a folder that may not be listed, and `StoreError`.
    """
    found: list[tuple[str, str, Cookie | None]] = []
    names: dict[str, _Names] = {}
    troubles: list[CorruptMetadataError] = []
    for path in paths:
        folders = dict(_current_folders(path, _DEEPEST, _names))
        names |= folders
        if not folders:
            reason = "not a bookie disk: it has no folder 'current' with entry logs or journals"
            raise BucketNotFoundError(reason if os.path.isdir(path) else "the folder does not exist", key=path)  # noqa: PTH112
        for folder in folders:
            try:
                found.append((path, folder, _cookie(folder)))
            except CorruptMetadataError as error:
                troubles.append(error)
                found.append((path, folder, None))
    instances = {
        cookie.instance_id: folder
        for _, folder, cookie in found
        if cookie is not None and cookie.instance_id is not None
    }
    if len(instances) > 1:
        reason = (
            "the disks belong to two clusters, which use the same ledger ids: pass disks of one cluster only. Instance ids of the bookies: "
            + ", ".join(f"{instance} ({folder})" for instance, folder in sorted(instances.items())[:2])
        )
        raise InvalidOptionError(reason, key="bookies")
    ids = sorted({cookie.bookie_id for _, _, cookie in found if cookie is not None})
    # A cookie joins the journals and ledgers of one bookie on separate disks; without one, the given path stands for the bookie.
    nameless = sorted({path for path, _, cookie in found if cookie is None})
    rows = {name: row for row, name in enumerate([*ids, *nameless])}
    files: list[DiskFile] = []
    doubtful: set[int] = set()
    for path, folder, cookie in found:
        row = rows[path if cookie is None else cookie.bookie_id]
        for file in _files(folder, names[folder], row):
            if isinstance(file, DiskFile):
                files.append(file)
            else:
                troubles.append(file)
                doubtful.add(row)
    files.sort(key=attrgetter("bookie", "kind", "folder", "number"))
    instance = next(iter(instances), None)
    return DiskListing((*ids, *nameless), len(ids), tuple(files), tuple(troubles), instance, frozenset(doubtful))


def _current_folders(path: str, deepest: int, names_of: Callable[[str], _Names]) -> Iterator[tuple[str, _Names]]:
    """Yield the folders with a bookie's files, ascending by level, each with its names."""
    level = [path]
    for depth in range(deepest + 1):
        below: list[str] = []
        for folder in level:
            names = names_of(folder)
            if _is_current(folder, names):
                yield folder, names
            else:
                is_last = depth + 1 >= deepest
                below += [
                    f"{folder}/{name}" for name, is_folder in names if is_folder and (name == CURRENT or not is_last)
                ]
        level = sorted(below)


def _is_current(folder: str, names: _Names) -> bool:
    if folder.rpartition("/")[2] != CURRENT:
        return False
    return any(not is_folder and (_FILE.fullmatch(name) or name == _COOKIE) for name, is_folder in names)


def _few_names(folder: str) -> _Names:
    """Return some names of a folder as `_names` does; only `CURRENT` for a folder with many names, which may be files."""
    try:
        with os.scandir(folder) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in islice(entries, _FEW + 1)]
    except OSError:
        return []
    return found if len(found) <= _FEW or folder.endswith(f"/{CURRENT}") else [(CURRENT, True)]


def _names(folder: str) -> _Names:
    """Return the names in a folder, none if it is gone; does not follow links.

    Raises `InvalidOptionError` for a disk behind a link, which would silently be missing.
    """
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise AccessDeniedError("no permission to list the folder", key=folder) from error
    except OSError as error:
        raise StoreError(f"the folder cannot be listed: {error.strerror}", key=folder) from error
    linked = next((one.path for one in found if one.is_symlink() and looks_like_disks(one.path)), None)
    if linked is not None:
        raise InvalidOptionError(
            "a symbolic link to a disk: links are not followed here, pass the path of the disk itself", key=linked
        )
    return [(one.name, one.is_dir(follow_symlinks=False)) for one in found]


def _cookie(folder: str) -> Cookie | None:
    """Return the cookie of a folder; None without one. Raises `CorruptMetadataError`."""
    path = f"{folder}/{_COOKIE}"
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  (a pipe would be waited for)
            raise CorruptMetadataError("the cookie VERSION is not a regular file", key=path)
        with open(path, "rb") as file:  # noqa: PTH123
            return parse_cookie(file.read(MOST_COOKIE_BYTES + 1), key=path)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise AccessDeniedError("no permission to read the file", key=path) from error
    except CorruptMetadataError:
        raise
    except OSError as error:
        raise StoreError(f"the file cannot be read: {error.strerror}", key=path) from error


def _files(folder: str, names: _Names, bookie: int) -> Iterator[DiskFile | CorruptMetadataError]:
    """Yield logs and journals, and errors for names that are not files; raises `ObjectNotFoundError` for one deleted since the listing."""
    for name, _ in names:
        match = _FILE.fullmatch(name)
        if match is None:
            continue
        path = f"{folder}/{name}"
        try:
            found = os.stat(path)  # noqa: PTH116
        except FileNotFoundError as error:
            if os.path.islink(path):  # noqa: PTH114
                yield CorruptMetadataError("a symbolic link to a file that does not exist", key=path)
                continue
            raise ObjectNotFoundError("the file was deleted after its folder was listed", key=path) from error
        except OSError as error:
            raise StoreError(f"the file cannot be read: {error.strerror}", key=path) from error
        if not stat.S_ISREG(found.st_mode):
            yield CorruptMetadataError(
                "it has the name of an entry log or journal, but is not a regular file", key=path
            )
        else:
            kind = FileKind.LOG if match[2] == "log" else FileKind.JOURNAL
            yield DiskFile(path, kind, int(match[1], 16), bookie, found.st_size, found.st_ctime_ns, found.st_ino)
