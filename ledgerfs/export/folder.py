"""The folder of an export: files that are whole or not there, and a record of what they were made from.

A file is written under a hidden name, synced to disk, and then renamed. The record has the version of each ledger in its file, so that a
later export makes only new files, and whether the last export ended well. Of a ledger that has grown a file stays that could not be made
again; what came since goes into a file of its own. What the record has of a ledger is true whatever is listed now: where a listing ends
before that, it is behind, and the files stay.
"""

import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO, Self

from ledgerfs.cache.untrusted_folders import make_new, open_plain
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import UNKNOWN
from ledgerfs.catalog.row_dependencies import Basis, TopicState
from ledgerfs.errors import ExportFolderError, InvalidOptionError
from ledgerfs.export.folder_lock import naming, shared
from ledgerfs.export.identity import is_same_url, what_differs

RECORD_NAME = ".ledgerfs-export.json"

_NAME = re.compile("([0-9]+)(-partition-[0-9]{1,10})?(?:_from_([0-9]{10,19}))?")
"""A file's name without its suffix: the id of its ledger, the partition of a topic that has any, the first entry if that is not 0."""

_VERSION = 4
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
        As in `LedgerRef`, to tell its copies from other ledgers of its id.
    undecodable, unnamed
        Values that could not be decoded, and are null or left out, and those that no schema is named for, which are null.
    is_open
        Whether the ledger was still written (`LedgerRef.is_open`), and no export has seen it closed there since.
    is_last
        Whether it was the last one that exports had met when it was found to be gone, and no export has ended well since.

    """

    version: str
    rows: int
    size: int
    skipped: int
    basis: Basis
    state: str
    last_entry: int
    length: int
    created_ms: int | None
    undecodable: int
    unnamed: int
    is_open: bool
    is_last: bool = False

    def is_of(self, ref: LedgerRef) -> bool:
        """Whether it is the record of this ledger, or of a copy of it, as far as is known."""
        return self.version == ref.version or self.last_entry < 0 or ref.agrees_with(self)

    def has_grown(self, ref: LedgerRef) -> bool:
        """Whether this ledger has entries behind those that it had: it was still written then."""
        return self.is_open and ref.last_entry > self.last_entry >= 0

    def is_ahead_of(self, ref: LedgerRef) -> bool:
        """Whether more was seen of this ledger than is listed now: it is written now, or was then, so both are of one that grew."""
        return (self.is_open or ref.is_open) and ref.last_entry < self.last_entry

    def is_all_of(self, ref: LedgerRef) -> bool:
        """Whether this ledger was still written then, and was closed since without another entry: nothing can come behind any more."""
        return self.is_open and not ref.is_open and ref.last_entry == self.last_entry >= 0 and self.is_of(ref)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is to become of a file.

    Attributes
    ----------
    known
        The folder's record of it.
    stays, is_held
        Whether it stays, and whether it stays only because it could not be made again.
    is_ahead
        Whether it stays since it, or another file of its ledger, has more than is listed now.
    goes_on_at
        If it stays, though its ledger has grown, or there is another file of it: the first entry for the next file of the ledger.

    """

    known: Exported | None
    stays: bool = False
    is_held: bool = False
    is_ahead: bool = False
    goes_on_at: int | None = None

    @property
    def may_lack(self) -> bool:
        """Whether the file would perhaps have more rows if it could be made again: of transactions that had no outcome."""
        return self.is_held and self.known is not None and self.known.basis.is_open_ended


@dataclass(frozen=True, slots=True)
class Unseen:
    """Messages that nobody may ever have exported: those after what an export wrote of a ledger that is gone.

    Attributes
    ----------
    ledger_id, last_entry
        The ledger, and the last entry that the export read.
    was_open
        Whether it was still written then. Else it was the last ledger that exports had met, and others may have come and gone after it.

    """

    ledger_id: int
    last_entry: int
    was_open: bool

    def __str__(self) -> str:
        if self.was_open:
            return (
                f"ledger {self.ledger_id} was still written when it was exported up to entry {self.last_entry}, and is gone: "
                "what came behind that, if anything, is not in the files"
            )
        return (
            f"ledger {self.ledger_id}, the last one of an earlier export, is gone: ledgers that came after it may be gone as well, "
            "and are not in the files then"
        )


@dataclass(frozen=True, slots=True)
class Ahead:
    """A ledger of a living cluster that files have more of than is listed now.

    Attributes
    ----------
    ledger_id, last_entry
        The ledger, and the last entry that is listed.
    is_closed
        Whether no more can come. Else the listing is behind, and a later one has the rest.

    """

    ledger_id: int
    last_entry: int
    is_closed: bool

    def __str__(self) -> str:
        if self.is_closed:
            return (
                f"ledger {self.ledger_id} is closed behind entry {self.last_entry}, and more of it was exported while it was written: "
                "the files stay as they are, with entries that the topic does not have"
            )
        return (
            f"ledger {self.ledger_id} is listed up to entry {self.last_entry} now, and more of it was exported before: "
            "the listing is behind, and the files stay as they are"
        )


def further_name(name: str, first: int) -> str:
    """Return the name for the file of a ledger's entries from one on; in the order of names it comes behind the others."""
    return f"{name.partition('_')[0]}_from_{first:010d}"


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
        The version of each of the topic's ledgers (`LedgerRef.version`), by the name of its file without the suffix, as they are listed
        since the folder is locked.
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
        self._further: dict[str, set[str]] = defaultdict(set)

    def __enter__(self) -> Self:
        """Remove what a killed export left, and read the record."""
        with naming(self.path):
            for pattern in (f".[0-9]*{_PART}", f".{RECORD_NAME}{_PART}"):
                for part in self.path.glob(pattern):
                    _remove_left(part)
            found = self._read()
            if found.contents == self._record.contents or self._is_reached_anew(found):
                self._record = replace(found, contents=self._record.contents)
                for name in found.ledgers:
                    ledger, is_further, _ = name.partition("_")
                    if is_further:
                        self._further[ledger].add(name)
            else:
                self._clear(found)
            self._save()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._forget_last()
            self._save(is_whole=kind is None)
        except ExportFolderError:
            # After another error: what is not recorded is made again by the next export.
            if kind is None:
                raise

    def judge(self, name: str, ref: LedgerRef, topic: TopicState) -> Judgement:
        """Return whether the file ``name`` of a ledger stays, if the topic has these ledgers now.

        A file that should be made again is kept if ledgers are gone that some of its rows came from: without these it would lose the rows.
        If its ledger has grown, the rest is for another file. If another ledger has its id now, it is made again nevertheless: its rows
        would never come. A file is also kept if more is known of its ledger than is listed: the listing is behind.
        """
        known = self._record.ledgers.get(name)
        if known is None or self._size_of(name) != known.size:
            return Judgement(known)
        if self._is_ahead(name, ref):
            behind = further_name(name, known.last_entry + 1)
            goes_on_at = known.last_entry + 1 if behind in self._record.ledgers else None
            return Judgement(known, stays=True, is_ahead=True, goes_on_at=goes_on_at)
        if known.version == ref.version and topic.holds(known.basis, known.state):
            return Judgement(known, stays=True)
        if topic.can_remake(known.basis):
            return Judgement(known)
        if known.has_grown(ref):
            return Judgement(known, stays=True, is_held=True, goes_on_at=known.last_entry + 1)
        is_held = known.is_of(ref)
        return Judgement(known, stays=is_held, is_held=is_held)

    def _is_ahead(self, name: str, ref: LedgerRef) -> bool:
        """Whether a file, or one that comes behind it, has more of their ledger than is listed."""
        others = (one for one in self._further.get(name.partition("_")[0], ()) if one > name)
        return any(self._record.ledgers[one].is_ahead_of(ref) for one in (name, *others))

    def note_end(self, name: str, ref: LedgerRef) -> None:
        """Note of a file that stays that its ledger was closed where the file ends, if so: it may go now, and nobody need be told."""
        known = self._record.ledgers[name]
        if known.is_all_of(ref):
            self._record.ledgers[name] = replace(known, is_open=False)

    def unseen(self, unclear: Collection[tuple[int, str]] = (), *, is_living: bool) -> list[Unseen]:
        """Return what may have come behind all that was ever exported, and is gone, of a topic as it is now, in the order of its ledgers.

        In a living cluster ledgers are trimmed from the oldest on: if the last one that exports met is gone, others may have come after it.
        Those that are ``unclear`` are not said to be gone: ids with the ending of their files' names, or `UNKNOWN` for all of an ending.
        """
        ends: dict[str, tuple[int, str]] = {}
        behind: dict[tuple[str, int], str] = {}
        for name in self._record.ledgers:
            ledger_id, ending = _parsed(name)
            ends[ending] = max(ends.get(ending, (-1, "")), (ledger_id, name))
            # Of a ledger in several files the last one tells where it ended: their names ascend.
            behind[ending, ledger_id] = max(behind.get((ending, ledger_id), ""), name)
        if is_living:
            for _, name in ends.values():
                last = self._record.ledgers[name]
                self._record.ledgers[name] = replace(last, is_last=self._is_gone(name, unclear))
        gone = sorted((key, name) for key, name in behind.items() if self._is_gone(name, unclear))
        found = [(ledger_id, self._record.ledgers[name]) for (_, ledger_id), name in gone]
        return [Unseen(one, last.last_entry, last.is_open) for one, last in found if last.is_open or last.is_last]

    def _is_gone(self, name: str, unclear: Collection[tuple[int, str]]) -> bool:
        ledger_id, ending = _parsed(name)
        is_there = name.partition("_")[0] in self._versions
        return not (is_there or (ledger_id, ending) in unclear or (UNKNOWN, ending) in unclear)

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
        """Record a file; without messages it is removed, as are those that had what came behind an earlier form of it."""
        ledger = name.partition("_")[0]
        behind = sorted(one for one in self._further.get(ledger, ()) if one > name)
        for one in behind if exported.rows else [name, *behind]:
            with naming(self._file(one)):
                self._file(one).unlink(missing_ok=True)
        for one in behind:
            self._further[ledger].remove(one)
            del self._record.ledgers[one]
        if name != ledger:
            self._further[ledger].add(name)
        self._record.ledgers[name] = exported
        if (exported.rows and len(self._record.ledgers) < _FEW_LEDGERS) or time.monotonic() >= self._save_after:
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

    def _forget_last(self) -> None:
        """Forget which ledgers had none after them when they were gone: this export tells of it, and knows those that came since."""
        for name, one in self._record.ledgers.items():
            if one.is_last:
                self._record.ledgers[name] = replace(one, is_last=False)

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
        if found["version"] != _VERSION:
            raise ValueError(found["version"])
        _ = contents["bucket"]["url"]
        for name in ledgers:
            _parsed(name)
        return cls(
            contents,
            suffix,
            {name: _exported(**one) for name, one in ledgers.items()},
            is_whole=bool(found["is_whole"]),
        )


def _parsed(name: str) -> tuple[int, str]:
    """Return the ledger's id, and what tells its topic from others in the folder; raises ``ValueError`` for what no export records."""
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(name)
    return int(found[1]), found[2] or ""


def _exported(*, basis: Any, **told: Any) -> Exported:  # noqa: ANN401  (JSON)
    return Exported(basis=Basis.parse(basis.values()), **told)


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
