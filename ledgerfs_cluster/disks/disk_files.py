"""What lies on the disks of bookies: entry logs, journals, and whose a disk is.

A bookie keeps each of its ledger and journal directories in a folder ``current``: logs ``<hex>.log``, journals ``<hex>.txn``, and a file
``VERSION`` that names the bookie. What it writes while it compacts (``….log.compacting``, ``….log.….compacted``) is no log yet.
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
"""Levels of folders below a given path in which a folder ``current`` is looked for."""

_Names = list[tuple[str, bool]]
"""(name, whether it is a folder) of what is in a folder."""


class FileKind(IntEnum):
    """What entries are written to."""

    LOG = 0
    JOURNAL = 1


@dataclass(frozen=True, slots=True)
class DiskFile:
    """One entry log or journal, as it was when its folder was listed.

    Attributes
    ----------
    number
        Its id, which its name has in hexadecimal.
    bookie
        Row of the bookie in `DiskListing.bookies`.
    size, changed_ns, inode
        Bytes; when its bytes or its name were last changed, ns since 1970 UTC; its number in the file system.

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
        """The folder ``current`` that it is in."""
        return os.path.dirname(self.path)  # noqa: PTH120  (a million of them, as texts)


@dataclass(frozen=True, slots=True)
class DiskListing:
    """All that lies on some disks.

    Attributes
    ----------
    bookies
        The ids of bookies, or the paths of disks on which none is named.
    named
        How many of ``bookies``, from the first on, are ids.
    files
        By bookie, logs first, ascending by folder and number.
    troubles
        What is on the disks and cannot be taken for what it should be.
    instance_id
        The id of the cluster whose disks these are, as their bookies noted it; None if they noted none.
    doubtful
        Rows of bookies with something that has the name of a log or a journal, and is no file.

    """

    bookies: tuple[str, ...]
    named: int
    files: tuple[DiskFile, ...]
    troubles: tuple[CorruptMetadataError, ...] = ()
    instance_id: str | None = None
    doubtful: frozenset[int] = frozenset()


def looks_like_disks(path: str) -> bool:
    """Whether a folder is a bookie's, or is right above some: few folders, in one of which ``current`` has logs, journals or ``VERSION``.

    Looks at a few names alone: any other folder may have millions of files.
    """
    return any(_current_folders(path, _DEEPEST_PEEKED, _few_names))


def list_disks(paths: Sequence[str]) -> DiskListing:
    """List the logs and journals on some disks, each a path as `BookieDisks.paths` has it.

    Raises `BucketNotFoundError` for a path on which there are none, `InvalidOptionError` for disks of two clusters, whose ledgers have the
    same ids, and for one behind a link, `ObjectNotFoundError` if a file goes meanwhile (what lives of it was written to another one before,
    which the listing may lack), `AccessDeniedError` for what may not be listed, and `StoreError`.
    """
    found: list[tuple[str, str, Cookie | None]] = []
    names: dict[str, _Names] = {}
    troubles: list[CorruptMetadataError] = []
    for path in paths:
        folders = dict(_current_folders(path, _DEEPEST, _names))
        names |= folders
        if not folders:
            reason = "no disk of a bookie: there is no folder current with entry logs or journals in it"
            raise BucketNotFoundError(reason if os.path.isdir(path) else "no such folder", key=path)  # noqa: PTH112
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
            "disks of two clusters, whose ledgers are others with the same ids: their bookies noted "
            + " and ".join(f"{instance} ({folder})" for instance, folder in sorted(instances.items())[:2])
        )
        raise InvalidOptionError(reason, key="bookies")
    ids = sorted({cookie.bookie_id for _, _, cookie in found if cookie is not None})
    # Journals and ledgers of one bookie may lie on disks of their own, which its cookie joins; what has none is its path's.
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
    """Yield the folders that a bookie keeps its files in, ascending by level, each with what is in it."""
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
    """Return some names of a folder as `_names` does; of a folder that has many, and may have files, only `CURRENT`."""
    try:
        with os.scandir(folder) as entries:
            found = [(one.name, one.is_dir(follow_symlinks=False)) for one in islice(entries, _FEW + 1)]
    except OSError:
        return []
    return found if len(found) <= _FEW or folder.endswith(f"/{CURRENT}") else [(CURRENT, True)]


def _names(folder: str) -> _Names:
    """Return all that is in a folder, nothing of one that is gone; links are not followed.

    Raises `InvalidOptionError` if a disk lies behind a link: it would be left out in silence.
    """
    try:
        with os.scandir(folder) as entries:
            found = list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise AccessDeniedError("the folder may not be listed", key=folder) from error
    except OSError as error:
        raise StoreError(f"the folder cannot be listed: {error.strerror}", key=folder) from error
    linked = next((one.path for one in found if one.is_symlink() and looks_like_disks(one.path)), None)
    if linked is not None:
        raise InvalidOptionError("a disk behind a link: links are not followed here, name the disk itself", key=linked)
    return [(one.name, one.is_dir(follow_symlinks=False)) for one in found]


def _cookie(folder: str) -> Cookie | None:
    """Return whose folder it is; None if nothing tells. Raises `CorruptMetadataError`."""
    path = f"{folder}/{_COOKIE}"
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  (a pipe would be waited for)
            raise CorruptMetadataError("it is no file", key=path)
        with open(path, "rb") as file:  # noqa: PTH123
            return parse_cookie(file.read(MOST_COOKIE_BYTES + 1), key=path)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise AccessDeniedError("the file may not be read", key=path) from error
    except CorruptMetadataError:
        raise
    except OSError as error:
        raise StoreError(f"the file cannot be read: {error.strerror}", key=path) from error


def _files(folder: str, names: _Names, bookie: int) -> Iterator[DiskFile | CorruptMetadataError]:
    """Yield logs and journals, and why one is none; raises `ObjectNotFoundError` for one that is gone since the folder was listed."""
    for name, _ in names:
        match = _FILE.fullmatch(name)
        if match is None:
            continue
        path = f"{folder}/{name}"
        try:
            found = os.stat(path)  # noqa: PTH116
        except FileNotFoundError as error:
            if os.path.islink(path):  # noqa: PTH114
                yield CorruptMetadataError("it is a link to what is not there", key=path)
                continue
            raise ObjectNotFoundError("the file is gone since its folder was listed", key=path) from error
        except OSError as error:
            raise StoreError(f"the file cannot be read: {error.strerror}", key=path) from error
        if not stat.S_ISREG(found.st_mode):
            yield CorruptMetadataError("it has the name of a bookie's file, and is none", key=path)
        else:
            kind = FileKind.LOG if match[2] == "log" else FileKind.JOURNAL
            yield DiskFile(path, kind, int(match[1], 16), bookie, found.st_size, found.st_ctime_ns, found.st_ino)
