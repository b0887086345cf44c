"""The folder of an export: files that are complete or absent, and a record of their source ledgers.

A file is written under a hidden name, synced to disk, and then renamed. Runs are numbered. The record contains, for each ledger, the run
that first found its current version, the run that wrote its file, and the other ledgers that its rows depend on
(`ledgerfs.catalog.row_dependencies`). So a file is written again when its ledger was replaced, or when a ledger that it depends on was
added or replaced later. Deleted ledgers change no file.
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
"""A file's name without its suffix: the id of its ledger, and the partition of a partitioned topic."""

_VERSION = 5
_PART = ".part"
_FEW_LEDGERS = 1000
"""Maximum number of ledgers for which the record is saved after each file."""
_SHARE_OF_SAVING = 20
"""Saving a larger record, or one after a ledger without messages, may take one part in this many of the time."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The record of one ledger.

    Attributes
    ----------
    version
        Version of its objects (`LedgerRef.version`).
    since, made
        The run that first found this version, and the run that wrote its file.
    rows, size
        Messages, and bytes of the file; a ledger without messages has no file.
    last_entry
        As in `LedgerRef`.
    is_open
        Whether the ledger was still being written, and no run has found it closed at ``last_entry`` since.
    basis
        Other ledgers that its rows depend on.
    skipped
        Number of damaged entries that were skipped.
    undecodable, unnamed
        Number of undecodable values, which are null or skipped, and of values without a schema version, which are null.

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
        """Whether later entries or ledgers could add rows."""
        return self.is_open or self.basis.is_open_ended

    def is_of(self, ref: LedgerRef) -> bool:
        """Whether its file matches the current ledger: the same objects, or a ledger that was open then and has the same entries."""
        return self.version == ref.version or (self.is_open and self.last_entry == ref.last_entry >= 0)

    def lost_by_another(self, ref: LedgerRef, ids: Int64) -> str | None:
        """Return which contents of its file a new file would lack, if the topic has the ledgers ``ids``; None for none."""
        gone = np.setdiff1d(self.basis.sources, ids).tolist() if self.basis.sources else []
        if gone:
            return f"rows of deleted ledgers: {', '.join(map(str, gone))}"
        if (self.is_open or ref.is_open) and ref.last_entry < self.last_entry:
            return f"entries up to {self.last_entry}: the ledger now ends with entry {ref.last_entry}"
        return None


class ExportFolder:
    """A folder that the caller has locked (`ledgerfs.export.folder_lock.locked`), for ``with``.

    Saves the record at the start, from time to time, and at the end.

    Parameters
    ----------
    path
        The folder.
    contents
        Description of its contents (topic, options, …), as JSON values.
    suffix
        Suffix of the files.
    versions
        The version of each listed ledger (`LedgerRef.version`), by the name of its file without the suffix.
    overwrite
        Remove the files of an earlier export with other contents.

    Raises
    ------
    InvalidOptionError
        The folder contains an export with other contents, or files with names of an export that no export wrote.
    ExportFolderError
        The folder cannot be written.

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
        """Remove temporary files of a killed export, and read the record."""
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
            # After another error ignore this one: the next export writes unrecorded files again.
            if kind is None:
                raise

    @property
    def run(self) -> int:
        """The number of this run."""
        return self._record.run

    @property
    def ledgers(self) -> Mapping[str, Exported]:
        """The records of ledgers, by file name without the suffix."""
        return self._record.ledgers

    def since(self, name: str, ref: LedgerRef) -> int:
        """Return the run that first found the current version of a ledger."""
        known = self._record.ledgers.get(name)
        return known.since if known is not None and known.is_of(ref) else self.run

    def has_file(self, name: str) -> bool:
        """Whether the file of a ledger exists with the recorded size, or is absent if the ledger has no messages."""
        return _size_of(self._file(name)) == self._record.ledgers[name].size

    def note_end(self, name: str, ref: LedgerRef) -> None:
        """Record for a kept file whether its ledger is closed now."""
        self._record.ledgers[name] = replace(self._record.ledgers[name], version=ref.version, is_open=ref.is_open)

    @property
    def ends(self) -> Mapping[str, int]:
        """The greatest ledger ids at the last successful export, by the part of file names with the partition."""
        return self._record.ends

    @contextmanager
    def writing(self, name: str) -> Iterator[BinaryIO]:
        """Yield a temporary file, which becomes the ledger's file when it is synced to disk; removes it after an error."""
        with _replacing(self._file(name)) as file:
            yield file

    @property
    def awaited(self) -> Collection[str]:
        """The ledgers that exports have found but not written yet, by file name."""
        return self._record.awaited

    def await_files(self, names: Iterable[str]) -> None:
        """Record ledgers that have no files yet: if they are deleted before their export, all later runs report them."""
        self._record.awaited.update(names)
        self._save()

    def unrecorded(self) -> list[str]:
        """Return unrecorded files that have names of an export."""
        found = self.path.glob(f"[0-9]*{self._record.suffix}")
        names = [path.stem for path in found if _NAME.fullmatch(path.stem)]
        return [name for name in names if name not in self._record.ledgers]

    def record(self, name: str, exported: Exported) -> None:
        """Record a file; remove it if the ledger has no messages."""
        if not exported.rows:
            with naming(self._file(name)):
                self._file(name).unlink(missing_ok=True)
        self._record.ledgers[name] = exported
        self._record.awaited.discard(name)
        if (exported.rows and len(self._record.ledgers) < _FEW_LEDGERS) or time.monotonic() >= self._save_after:
            self._save()

    def _has_same_objects(self, found: "_Record") -> bool:
        """Whether an export is of the same bucket with other options (endpoint, time-outs), proved by the versions of its objects."""
        bucket = self._record.contents.get("bucket")
        both = [name for name in found.ledgers if name in self._versions]
        return (
            {**found.contents, "bucket": bucket} == self._record.contents
            and found.contents["bucket"]["url"] == self._record.contents["bucket"]["url"]
            and bool(both)
            and all(found.ledgers[name].version == self._versions[name] for name in both)
        )

    def _clear(self, found: "_Record") -> None:
        """Remove the files of an export with other contents, or raise without ``overwrite``."""
        suffixes = (found.suffix, self._record.suffix)
        files = [path for path in self.path.glob("[0-9]*.*") if _NAME.fullmatch(path.stem) and path.suffix in suffixes]
        if (files or found.contents) and not self._overwrite:
            if found.contents:
                what = f"an export {what_differs(self._record.contents, found.contents)}"
            else:
                what = f"{files[0].name}, which is not from an export"
            raise InvalidOptionError(
                f"the folder contains {what}; choose another folder, or pass overwrite=True (--overwrite)",
                key=str(self.path),
            )
        if files:
            # Mark the folder as incomplete: a kill before the new record is saved may leave some files deleted.
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
    """The record that is saved beside the files: contents, suffix, run, ledgers by file name, `ends`, `awaited`.

    It marks the folder as complete from a successful export until the next one begins.
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
        """Return the record of a folder, or None; raises `InvalidOptionError` for another file with its name, and `ExportFolderError`."""
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
            raise InvalidOptionError("not the record of an export; choose another folder", key=str(path)) from error

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
    """Return the ledger id, and the part of a name with the partition; raises ``ValueError`` for other names."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(name)
    return int(found[1]), found[2] or ""


def _exported(*, basis: Any, **others: Any) -> Exported:  # noqa: ANN401  (JSON)
    return Exported(basis=Basis.parse(basis.values()), **others)


@contextmanager
def at_rest(folder: Path) -> Iterator[None]:
    """Lock exports out of a folder while its files are read; does nothing for a folder without an export.

    Raises `ExportFolderError` if an export is writing to it, or if the last one failed, since files may be missing.
    """
    with shared(folder):
        record = _Record.read(folder)
        if record is not None and not record.is_whole:
            raise ExportFolderError(
                "the last export to this folder did not finish, so rows may be missing; run the export again, or pass files one by one",
                key=str(folder),
            )
        yield


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces ``path`` when it is synced to disk; removes it after an error."""
    part = path.with_name(f".{path.name}{_PART}")
    with naming(part):
        # The file is new: temporary files of killed exports were removed after locking.
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
    """Remove a temporary file of a killed export; raises `ExportFolderError` for a link, which no export creates."""
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
