"""Live and dead bytes of each entry log, and what a bookie's garbage collector would free of it now."""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from ledgerfs.disks.index import DiskIndex
from ledgerfs.disks.scanning import ScannedFile, ledgers_of_files
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.bookkeeper.entry_log_header import LOG_HEADER_BYTES
from ledgerfs.storage.disks.disk_files import FileKind


class Fate(StrEnum):
    """What the garbage collector of BookKeeper 4.17 does with a log."""

    CURRENT = "current"
    """It is being written, and never collected."""
    UNREADABLE = "unreadable"
    """It could not be read as a whole: it may hold more than was found, and counts as kept."""
    DELETED = "deleted"
    """It has no live ledger: the next run deletes it."""
    MINOR = "minor"
    """Its live share is below the minor threshold: any compaction rewrites it."""
    MAJOR = "major"
    """Its live share is below the major threshold: a major compaction rewrites it."""
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Live shares below which a bookie compacts a log (``minorCompactionThreshold``, ``majorCompactionThreshold``); 0 for never.

    Raises `InvalidOptionError` for thresholds with which no bookie starts.
    """

    minor: float = 0.2
    major: float = 0.5

    def __post_init__(self) -> None:
        if self.major and self.minor >= self.major:
            reason = "the minor threshold has to be below the major one"
            raise InvalidOptionError(reason, key=f"{self.minor}, {self.major}")


@dataclass(frozen=True, slots=True)
class LedgerSpace:
    """Bytes of a ledger's entries in one log, each with its size field."""

    ledger_id: int
    stored: int
    is_live: bool


@dataclass(frozen=True, slots=True)
class LogSpace:
    """One entry log: its path, the bytes of its file, and its ledgers, ascending."""

    number: int
    path: str
    size: int
    ledgers: tuple[LedgerSpace, ...]
    fate: Fate

    @property
    def live_bytes(self) -> int:
        """Bytes of entries of live ledgers."""
        return sum(one.stored for one in self.ledgers if one.is_live)

    @property
    def dead_bytes(self) -> int:
        """Bytes of entries of ledgers that are not in the metadata."""
        return sum(one.stored for one in self.ledgers if not one.is_live)

    @property
    def rewritten(self) -> int:
        """Bytes that its compaction writes again; 0 if it is not compacted."""
        return self.live_bytes if self.fate in {Fate.MINOR, Fate.MAJOR} else 0

    @property
    def freed(self) -> int:
        """Bytes that the directory has less when it was deleted or compacted: its file without what is written again."""
        return self.size - self.rewritten if self.fate in {Fate.DELETED, Fate.MINOR, Fate.MAJOR} else 0


@dataclass(frozen=True, slots=True)
class DirectorySpace:
    """The entry logs of one ledger directory of a bookie, by ascending ids."""

    bookie: str
    folder: str
    logs: tuple[LogSpace, ...]


def log_spaces(index: DiskIndex, thresholds: Thresholds, live: Collection[int]) -> list[DirectorySpace]:
    """Return the logs of each ledger directory; ``live`` are the ids of the ledgers on the disks that are in the metadata."""
    folders: dict[str, list[ScannedFile]] = {}
    for one in sorted(index.files, key=lambda one: one.file.number):
        if one.file.kind is FileKind.LOG:
            folders.setdefault(one.file.folder, []).append(one)
    return [
        DirectorySpace(
            index.listing.bookies[files[0].file.bookie],
            folder,
            tuple(_log_space(one, thresholds, live, is_current=one in _being_written(files)) for one in files),
        )
        for folder, files in folders.items()
    ]


def _being_written(files: list[ScannedFile]) -> list[ScannedFile]:
    """Return the log of the greatest id, and the one before it while nothing is in that yet."""
    return files[-2:] if files[-1].file.size <= LOG_HEADER_BYTES else files[-1:]


def _log_space(one: ScannedFile, thresholds: Thresholds, live: Collection[int], *, is_current: bool) -> LogSpace:
    ledgers = tuple(LedgerSpace(ledger, stored, ledger in live) for ledger, _, stored in ledgers_of_files([one]))
    total = sum(ledger.stored for ledger in ledgers)
    # A division of doubles, as a bookie computes it.
    share = sum(ledger.stored for ledger in ledgers if ledger.is_live) / total if total else 0.0
    if is_current:
        fate = Fate.CURRENT
    elif one.trouble is not None or one.table.gaps.size:
        fate = Fate.UNREADABLE
    elif not any(ledger.is_live for ledger in ledgers):
        fate = Fate.DELETED
    elif share < thresholds.minor:
        fate = Fate.MINOR
    else:
        fate = Fate.MAJOR if share < thresholds.major else Fate.KEPT
    return LogSpace(one.file.number, one.file.path, one.file.size, ledgers, fate)
