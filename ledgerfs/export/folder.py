"""The folder of an export: files that are whole or not there, and a record of what they were made from.

A file is written under a hidden name, synced to disk, and then renamed. Runs are numbered. The record has, for each ledger, the run that
found it as it is, the run that made its file, and the other ledgers that its rows depend on (`ledgerfs.catalog.row_dependencies`). So a
file is written again when its own ledger was replaced, or when a ledger that it depends on came or was replaced after it was made. What is
gone since changes no file.
"""

import json
import os
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, Self

import numpy as np

from ledgerfs.cache.untrusted_folders import make_new, open_plain
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.row_dependencies import Basis
from ledgerfs.errors import ExportFolderError, InvalidOptionError
from ledgerfs.export.folder_lock import naming, shared
from ledgerfs.export.identity import what_differs
from ledgerfs.formats.array_types import Int64

RECORD_NAME = ".ledgerfs-export.json"

_NAME = re.compile("([0-9]+)(-partition-[0-9]{1,10})?")
"""A file's name without its suffix: the id of its ledger, and the partition of a topic that has any."""

_VERSION = 5
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
    since, made
        The runs that found it in this version first, and that made its file.
    rows, size
        Messages, and bytes of the file; without messages there is no file.
    last_entry
        As in `LedgerRef`.
    is_open
        Whether the ledger was still written, and no run has seen it closed there since.
    basis
        Other ledgers that its rows depend on.
    skipped
        Damaged entries that were left out.
    undecodable, unnamed
        Values that could not be decoded, and are null or left out, and those that no schema is named for, which are null.

    """

    version: str
    since: int
    made: int
    rows: int
    size: int
    last_entry: int
    is_open: bool
    basis: Basis
    skipped: int
    undecodable: int
    unnamed: int

    @property
    def is_unfinished(self) -> bool:
        """Whether entries or ledgers that come behind all others could add rows."""
        return self.is_open or self.basis.is_open_ended

    def is_of(self, ref: LedgerRef) -> bool:
        """Whether its file is of a ledger as it is now: of the same objects, or one that was written then and has the same entries."""
        return self.version == ref.version or (self.is_open and self.last_entry == ref.last_entry >= 0)

    def lost_by_another(self, ref: LedgerRef, ids: Int64) -> str | None:
        """Return what its file has that one made now would lack, if the topic has the ledgers ``ids``; None for nothing."""
        gone = np.setdiff1d(self.basis.sources, ids).tolist() if self.basis.sources else []
        if gone:
            return f"rows of ledgers that are gone: {', '.join(map(str, gone))}"
        if (self.is_open or ref.is_open) and ref.last_entry < self.last_entry:
            return f"entries up to {self.last_entry}, and the ledger is listed up to entry {ref.last_entry} now"
        return None


class ExportFolder:
    """A folder of which an export is the holder (`ledgerfs.export.folder_lock.locked`), for ``with``.

    The record is saved when it is entered, from time to time, and at the end.

    Parameters
    ----------
    path
        The folder.
    contents
        What its files hold (topic, options, …), as JSON values.
    suffix
        The files'.
    versions
        The version of each listed ledger (`LedgerRef.version`), by the name of its file without the suffix.
    overwrite
        Remove the files of an earlier export with other contents.

    Raises
    ------
    InvalidOptionError
        The folder holds an export with other contents, or files with an export's names that no export wrote.
    ExportFolderError
        It cannot be written.

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
        self._save_after = 0.0

    def __enter__(self) -> Self:
        """Remove what a killed export left, and read the record."""
        with naming(self.path):
            for pattern in (f".[0-9]*{_PART}", f".{RECORD_NAME}{_PART}"):
                for part in self.path.glob(pattern):
                    _remove_left(part)
            found = _Record.read(self.path) or _Record({}, self._record.suffix)
            if found.contents == self._record.contents or self._has_same_objects(found):
                self._record = replace(found, contents=self._record.contents, run=found.run + 1)
            else:
                self._clear(found)
            self._save()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            for ledger_id, partition in map(parsed_name, self._record.ledgers):
                self._record.ends[partition] = max(ledger_id, self._record.ends.get(partition, -1))
        try:
            self._save(is_whole=kind is None)
        except ExportFolderError:
            # After another error: what is not recorded is made again by the next export.
            if kind is None:
                raise

    @property
    def run(self) -> int:
        """The number of this run."""
        return self._record.run

    @property
    def ledgers(self) -> Mapping[str, Exported]:
        """The records of ledgers by the names of their files without the suffix."""
        return self._record.ledgers

    def since(self, name: str, ref: LedgerRef) -> int:
        """Return the run that found a ledger as it is now."""
        known = self._record.ledgers.get(name)
        return known.since if known is not None and known.is_of(ref) else self.run

    def has_file(self, name: str) -> bool:
        """Whether the file of a ledger is there, with the size in its record; without messages there is none."""
        return _size_of(self._file(name)) == self._record.ledgers[name].size

    def note_end(self, name: str, ref: LedgerRef) -> None:
        """Record of a file that stays whether its ledger is closed by now."""
        self._record.ledgers[name] = replace(self._record.ledgers[name], version=ref.version, is_open=ref.is_open)

    @property
    def ends(self) -> Mapping[str, int]:
        """The greatest ids of ledgers when an export had ended well, by what distinguishes their partitions in names of files."""
        return self._record.ends

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Yield a file to write to, which becomes the ledger's when all of it is on disk; after an error it is gone."""
        with _replacing(self._file(name)) as file:
            yield file

    @property
    def awaited(self) -> Collection[str]:
        """The ledgers that exports have found, and written no file of yet, by the names of their files."""
        return self._record.awaited

    def await_files(self, names: Iterable[str]) -> None:
        """Record ledgers that have no files yet: if they are deleted before they are exported, all later runs name them."""
        self._record.awaited.update(names)
        self._save()

    def unrecorded(self) -> list[str]:
        """Return the files with names of an export that are not in its record."""
        found = self.path.glob(f"[0-9]*{self._record.suffix}")
        names = [path.stem for path in found if _NAME.fullmatch(path.stem)]
        return [name for name in names if name not in self._record.ledgers]

    def record(self, name: str, exported: Exported) -> None:
        """Record a file; without messages it is removed."""
        if not exported.rows:
            with naming(self._file(name)):
                self._file(name).unlink(missing_ok=True)
        self._record.ledgers[name] = exported
        self._record.awaited.discard(name)
        if (exported.rows and len(self._record.ledgers) < _FEW_LEDGERS) or time.monotonic() >= self._save_after:
            self._save()

    def _has_same_objects(self, found: "_Record") -> bool:
        """Whether an export is of the same bucket through other options (endpoint, time-outs), which its objects' versions prove."""
        bucket = self._record.contents.get("bucket")
        both = [name for name in found.ledgers if name in self._versions]
        return (
            {**found.contents, "bucket": bucket} == self._record.contents
            and found.contents["bucket"]["url"] == self._record.contents["bucket"]["url"]
            and bool(both)
            and all(found.ledgers[name].version == self._versions[name] for name in both)
        )

    def _clear(self, found: "_Record") -> None:
        """Remove the files of an export with other contents, or refuse to."""
        suffixes = (found.suffix, self._record.suffix)
        files = [path for path in self.path.glob("[0-9]*.*") if _NAME.fullmatch(path.stem) and path.suffix in suffixes]
        if (files or found.contents) and not self._overwrite:
            if found.contents:
                what = f"an export {what_differs(self._record.contents, found.contents)}"
            else:
                what = f"{files[0].name}, which no export made"
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
            file.write(json.dumps(asdict(saved) | {"awaited": sorted(saved.awaited)}, indent=1).encode())
        ended = time.monotonic()
        self._save_after = ended + (ended - began) * _SHARE_OF_SAVING

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{self._record.suffix}"


@dataclass(slots=True)
class _Record:
    """The record that is saved beside the files: contents, suffix, the run, ledgers by the names of their files, `ends`, `awaited`.

    It says that the folder is whole when an export has ended well, until the next one begins.
    """

    contents: Mapping[str, Any]
    suffix: str
    ledgers: dict[str, Exported] = field(default_factory=dict)
    run: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    awaited: set[str] = field(default_factory=set)
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
        _ = contents["bucket"]["url"]
        awaited = set(found["awaited"])
        if found["version"] != _VERSION or not all(map(parsed_name, [*ledgers, *awaited])):
            raise ValueError(found["version"])
        records = {name: _exported(**one) for name, one in ledgers.items()}
        ends, is_whole = dict(found["ends"]), bool(found["is_whole"])
        return cls(contents, suffix, records, int(found["run"]), ends, awaited, is_whole=is_whole)


def parsed_name(name: str) -> tuple[int, str]:
    """Return the ledger's id, and what distinguishes its partition; raises ``ValueError`` for a name that no export records."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(name)
    return int(found[1]), found[2] or ""


def _exported(*, basis: Any, **others: Any) -> Exported:  # noqa: ANN401  (JSON)
    return Exported(basis=Basis.parse(basis.values()), **others)


@contextmanager
def at_rest(folder: Path) -> Iterator[None]:
    """Keep exports out of a folder while all its files are read; nothing is done to a folder that no export was made to.

    Raises `ExportFolderError` if an export is writing to it, or if the last one did not end well: nobody knows whether all is there.
    """
    with shared(folder):
        record = _Record.read(folder)
        if record is not None and not record.is_whole:
            raise ExportFolderError(
                "the last export to this folder did not end well, and it may lack rows; run the export again, or name files one by one",
                key=str(folder),
            )
        yield


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file that takes the place of ``path`` when all of it is on disk; after an error it is gone."""
    part = path.with_name(f".{path.name}{_PART}")
    with naming(part):
        # Never an existing file: leftovers were removed when the folder was locked.
        descriptor = make_new(part)
    with naming(path):
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
    with naming(part):
        os.close(open_plain(part, os.O_RDONLY))
        part.unlink()


def _size_of(path: Path) -> int:
    """Return the size of a file, 0 for anything but a regular file."""
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if S_ISREG(found.st_mode) else 0


def _sync(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
