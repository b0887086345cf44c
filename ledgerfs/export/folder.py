"""The folder of an export: files that are whole or not there, and a record of what they were made from.

A file is written under a hidden name, synced to disk, and then renamed. The record has the version of each ledger in its file, so that a
later export makes only new files, and whether the last export ended well. A lock keeps a second exporter out; it ends with the process that
holds it. Who reads all files of the folder shares it (`at_rest`), so that files which are not all there are not taken for an export.
"""

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, Self

from ledgerfs.cache.untrusted_folders import make_new, open_plain
from ledgerfs.errors import ExportFolderError, InvalidOptionError, LedgerfsError
from ledgerfs.export.identity import is_same_url, what_differs
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.row_dependencies import Basis, TopicState

RECORD_NAME = ".ledgerfs-export.json"
LOCK_NAME = ".ledgerfs-export.lock"

_NAME = re.compile("[0-9]+(-partition-[0-9]{1,10})?")
"""A file's name without its suffix: the ledger's id, and the partition if the topic is partitioned."""

_VERSION = 3
_VERSION_WITHOUT_TIMES = 2
"""It did not note that a ledger had no messages only by the times of others."""
_VERSION_WITHOUT_BUCKET = 1
_PART = ".part"
_FEW_LEDGERS = 1000
"""A record of at most so many ledgers is saved after each file."""
_SHARE_OF_SAVING = 20
"""Writing a larger record, or one after a ledger without messages, may take one part in so many of the time."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The record of one ledger.

    Attributes
    ----------
    version
        Identifies the objects that it was read from (`LedgerRef.version`).
    rows, size
        Messages, and bytes of the file; without messages there is no file.
    skipped
        Damaged entries that were left out.
    basis, state
        Other ledgers that its rows depend on (`Scan.basis`), and their state then.
    last_entry, length, created_ms
        As in `LedgerRef`, to tell its copies from other ledgers of its id; -1, -1 and None in records that did not note them.
    undecodable, unnamed
        Values that could not be decoded, and are null or left out, and those that no schema is named for, which are null.

    """

    version: str
    rows: int
    size: int
    skipped: int
    basis: Basis = Basis()  # noqa: RUF009  (frozen)
    state: str = ""
    last_entry: int = -1
    length: int = -1
    created_ms: int | None = None
    undecodable: int = 0
    unnamed: int = 0

    def is_of(self, ref: LedgerRef) -> bool:
        """Whether it is the record of this ledger, or of a copy of it, as far as is known."""
        return self.version == ref.version or self.last_entry < 0 or ref.agrees_with(self)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The folder's record of a ledger, whether its file stays, and whether it stays only because it could not be made again."""

    known: Exported | None
    stays: bool = False
    is_held: bool = False


class ExportFolder:
    """A folder that is made and locked in a ``with`` block; the record is saved from time to time, and at the end.

    Parameters
    ----------
    path
        The folder.
    contents
        What its files hold (topic, options, …), as JSON values.
    suffix
        The files'.
    versions
        The version of each of the topic's ledgers (`LedgerRef.version`), by the name of its file without the suffix.
    overwrite
        Remove the files of an earlier export with other contents.

    Raises
    ------
    InvalidOptionError
        The folder holds an export with other contents, or files with an export's names that no export wrote.
    ExportFolderError
        It cannot be written, or another export is writing to it, or an import reads it.

    """

    def __init__(
        self,
        path: Path,
        contents: Mapping[str, Any],
        suffix: str,
        versions: Mapping[str, str],
        *,
        overwrite: bool = False,
    ) -> None:
        self.path = path
        self._versions = versions
        self._overwrite = overwrite
        self._record = _Record(json.loads(json.dumps(contents)), suffix)
        self._lock: BinaryIO | None = None
        self._save_after = 0.0

    def __enter__(self) -> Self:
        with _naming(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        lock = self.path / LOCK_NAME
        with _naming(lock):
            # An earlier export may have left it; a link is not followed, and nothing is written to it.
            self._lock = os.fdopen(open_plain(lock, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            self._begin(self._lock)
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert self._lock is not None  # noqa: S101  (entered)
        with self._lock:
            try:
                self._save(is_whole=kind is None)
            except ExportFolderError:
                # After another error: what is not recorded is made again by the next export.
                if kind is None:
                    raise

    def judge(self, name: str, ref: LedgerRef, topic: TopicState) -> Judgement:
        """Return whether the file ``name`` of a ledger stays, if the topic has these ledgers now.

        A file that should be made again is kept if ledgers are gone that some of its rows came from: without these it would lose the rows.
        If another ledger has its id now, it is made again nevertheless: its rows would never come.
        """
        known = self._record.ledgers.get(name)
        if known is None or self._size_of(name) != known.size:
            return Judgement(known)
        if known.version == ref.version and topic.holds(known.basis, known.state):
            return Judgement(known, stays=True)
        is_held = known.is_of(ref) and not topic.can_remake(known.basis)
        return Judgement(known, stays=is_held, is_held=is_held)

    def _size_of(self, name: str) -> int:
        try:
            return _size_of(self._file(name))
        except OSError:
            return 0

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Yield a file to write to, which becomes the ledger's when all of it is on disk; after an error it is gone."""
        with _replacing(self._file(name)) as file:
            yield file

    def record(self, name: str, exported: Exported) -> None:
        """Record a ledger; if it has no messages (any more), its file is removed."""
        if not exported.rows:
            with _naming(self._file(name)):
                self._file(name).unlink(missing_ok=True)
        self._record.ledgers[name] = exported
        if (exported.rows and len(self._record.ledgers) < _FEW_LEDGERS) or time.monotonic() >= self._save_after:
            self._save()

    def _begin(self, lock: BinaryIO) -> None:
        """Lock, remove what a killed export left, and read the record."""
        with _naming(self.path):
            _take(lock, fcntl.LOCK_EX, "an export or an import is at this folder")
            for pattern in (f".[0-9]*{_PART}", f".{RECORD_NAME}{_PART}"):
                for part in self.path.glob(pattern):
                    _remove_left(part)
            found = self._read()
            if found.contents == self._record.contents or self._is_reached_anew(found):
                self._record = replace(found, contents=self._record.contents)
            else:
                self._clear(found)
            self._save()

    def _read(self) -> "_Record":
        """Return the record; without a record, one without contents."""
        return _Record.read(self.path) or _Record({}, self._record.suffix)

    def _is_reached_anew(self, found: "_Record") -> bool:
        """Whether an export is of the same bucket through other options (endpoint, profile), which its objects' versions prove."""
        if not is_same_url(self._record.contents, found.contents):
            return False
        shared = [name for name in found.ledgers if name in self._versions]
        return bool(shared) and all(found.ledgers[name].version == self._versions[name] for name in shared)

    def _clear(self, found: "_Record") -> None:
        """Remove the files of an export with other contents, or refuse to."""
        suffixes = (found.suffix, self._record.suffix)
        files = [path for path in self.path.glob("[0-9]*.*") if _NAME.fullmatch(path.stem) and path.suffix in suffixes]
        if (files or found.contents) and not self._overwrite:
            differing = what_differs(self._record.contents, found.contents)
            what = f"an export {differing}" if found.contents else f"{files[0].name}, which no export made"
            raise InvalidOptionError(f"the folder holds {what}; take another one, or overwrite", key=str(self.path))
        if files:
            # Some may be gone if this is killed before the new record is there.
            self._save(found)
        for file in files:
            file.unlink()

    def _save(self, record: "_Record | None" = None, *, is_whole: bool = False) -> None:
        began = time.monotonic()
        saved = replace(record or self._record, is_whole=is_whole)
        with _replacing(self.path / RECORD_NAME) as file:
            file.write(json.dumps(asdict(saved), indent=1).encode())
        ended = time.monotonic()
        self._save_after = ended + (ended - began) * _SHARE_OF_SAVING

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{self._record.suffix}"


@dataclass(slots=True)
class _Record:
    """The record that is saved beside the files: their contents, their suffix, and the ledgers by the names of their files.

    It says that the folder is whole when an export has ended well, until the next one begins.
    """

    contents: Mapping[str, Any]
    suffix: str
    ledgers: dict[str, Exported] = field(default_factory=dict)
    version: int = _VERSION
    is_whole: bool = False

    @classmethod
    def read(cls, folder: Path) -> "_Record | None":
        """Return the record of a folder, or None; raises `InvalidOptionError` for anything else of its name, and `ExportFolderError`."""
        path = folder / RECORD_NAME
        try:
            descriptor = open_plain(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ExportFolderError.of(error, path) from error
        try:
            with os.fdopen(descriptor, "rb") as file:
                return cls.parse(file.read())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidOptionError("not the record of an export; take another folder", key=str(path)) from error

    @classmethod
    def parse(cls, text: bytes) -> "_Record":
        """Read a saved record; raises ``ValueError``, ``KeyError``, ``TypeError`` or ``AttributeError`` for anything else."""
        found = json.loads(text)
        contents, suffix, ledgers = dict(found["contents"]), str(found["suffix"]), dict(found["ledgers"])
        # Earlier versions did not note whether an export had ended.
        is_whole = bool(found.get("is_whole", True))
        if found["version"] == _VERSION_WITHOUT_BUCKET:
            # The export was of a bucket without an identity, so nothing of it can be kept.
            return cls(contents, suffix, is_whole=is_whole)
        if found["version"] == _VERSION_WITHOUT_TIMES:
            ledgers = {name: one for name, one in ledgers.items() if one["rows"]}
        elif found["version"] != _VERSION:
            raise ValueError(found["version"])
        return cls(contents, suffix, {name: _exported(**one) for name, one in ledgers.items()}, is_whole=is_whole)


def _exported(*, basis: Any, **told: Any) -> Exported:  # noqa: ANN401  (JSON)
    return Exported(basis=Basis.parse(basis.values()), **told)


@contextmanager
def at_rest(folder: Path) -> Iterator[None]:
    """Keep exports out of a folder while all its files are read; nothing is done to a folder that no export was made to.

    Raises `ExportFolderError` if an export is writing to it, or if the last one did not end well: nobody knows whether all is there.
    """
    with _lock_of(folder) or nullcontext() as lock:
        if lock is not None:
            with _naming(folder):
                _take(lock, fcntl.LOCK_SH, "an export is writing to this folder, and it may lack rows")
        record = _Record.read(folder)
        if record is not None and not record.is_whole:
            raise ExportFolderError(
                "the last export to this folder did not end well, and it may lack rows; run the export again, or name files one by one",
                key=str(folder),
            )
        yield


def _lock_of(folder: Path) -> BinaryIO | None:
    path = folder / LOCK_NAME
    with _naming(path):
        try:
            return os.fdopen(open_plain(path, os.O_RDONLY), "rb")
        except FileNotFoundError:
            return None


def _take(lock: BinaryIO, kind: int, told: str) -> None:
    """Lock at once, or raise `OSError` with what is told."""
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OSError(errno.EBUSY, told) from error


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into `ExportFolderError` with the file's name; our own errors name their object already."""
    try:
        yield
    except LedgerfsError:
        raise
    except OSError as error:
        raise ExportFolderError.of(error, path) from error


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of ``path`` when all of it is on disk; after an error it is gone."""
    part = path.with_name(f".{path.name}{_PART}")
    with _naming(part):
        # Never an existing file: leftovers were removed when the folder was locked.
        descriptor = make_new(part)
    with _naming(path):
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        _sync(path.parent)


def _remove_left(part: Path) -> None:
    """Remove a file that a killed export left; raises `ExportFolderError` for a link, which no export makes."""
    with _naming(part):
        os.close(open_plain(part, os.O_RDONLY))
        part.unlink()


def _size_of(path: Path) -> int:
    """Return the size of a file, 0 for anything but a regular file; raises `OSError`."""
    found = path.lstat()
    return found.st_size if S_ISREG(found.st_mode) else 0


def _sync(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
