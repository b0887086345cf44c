"""What a catalog needs of ledgers that it has not seen: their metadata, their indexes, and whether their ends are there.

Of each, the beginning of the data and the index are read together, then the end of the data, unless that was read with the beginning. A
MapFile has no mark of having been written wholly; its last key has to be the last entry of the metadata.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from ledgerfs.dialects.mapfile.columns import IndexState
from ledgerfs.dialects.mapfile.folders import FolderFiles
from ledgerfs.dialects.mapfile.positions import MAX_INDEX_BYTES, cuts_of
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptIndexError,
    CorruptLedgerError,
    CorruptMetadataError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreError,
    StoreUnreachableError,
    UnsupportedFormatError,
)
from ledgerfs.formats.bookkeeper.ledger_metadata import LedgerMetadata, parse_ledger_metadata
from ledgerfs.formats.mapfile.blocks import find_sync
from ledgerfs.formats.mapfile.first_record import read_metadata_value
from ledgerfs.formats.mapfile.header import SequenceHeader, parse_header
from ledgerfs.formats.mapfile.index import MapFileIndex, parse_index
from ledgerfs.formats.mapfile.last_key import keys_to_end
from ledgerfs.formats.mapfile.window import Window
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

HEAD_BYTES = 64 << 10
"""First bytes of the data that are read: all of a small ledger, and the header and metadata of any."""

TAIL_BYTES = 4 << 20
"""Last bytes that are read at most: a few blocks, or as many markers as are tried."""

_MARKERS_TRIED = 8


class End(Enum):
    """What is known of the end of a ledger's data."""

    SEEN = "seen"
    """The last entry is the last record."""
    MISSING = "missing"
    UNKNOWN = "unknown"
    """It is too far from where a walk can begin; whoever reads it sees whether it is there."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the first bytes of a ledger's data tell."""

    header: SequenceHeader
    metadata: LedgerMetadata


@dataclass(frozen=True, slots=True)
class Loaded:
    """A ledger of which all was read that a catalog needs."""

    files: FolderFiles
    data: ObjectStat
    metadata: LedgerMetadata
    cuts: int
    index_state: IndexState
    end: End


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A ledger's folder that cannot be read as one, and why."""

    files: FolderFiles
    error: LedgerfsError


@dataclass(frozen=True, slots=True)
class _Begun:
    """A ledger whose end is looked at next; ``head`` is its data where that was read wholly."""

    files: FolderFiles
    data: ObjectStat
    start: Start
    index: MapFileIndex | None
    cuts: int
    index_state: IndexState
    head: bytes | None

    @property
    def tail_start(self) -> int:
        """Where the part of the data begins that is walked: at the last position of the index, if that is near enough to the end."""
        least = max(0, self.data.size - TAIL_BYTES)
        if self.index is not None and self.index.positions[-1] >= least:
            return int(self.index.positions[-1])
        return least

    def loaded(self, tail: bytes | None) -> Loaded:
        """Return what is known with the data's last bytes; without them, the end is not."""
        is_wrong, end = False, End.UNKNOWN
        if tail is not None:
            end, is_wrong = self._end(tail)
        cuts, state = (1, IndexState.WRONG) if is_wrong else (self.cuts, self.index_state)
        return Loaded(self.files, self.data, self.start.metadata, cuts, state, end)

    def _end(self, tail: bytes) -> tuple[End, bool]:
        """Return what the last bytes tell of the end, and whether the index is wrong about it."""
        window = Window(memoryview(tail), self.data.size - len(tail), self.data.size, key=self.data.key)
        starts = self._starts(window)
        is_contradicted = False
        for start, told in starts:
            try:
                first, last = keys_to_end(window, start, self.start.header)
            except CorruptLedgerError:
                is_contradicted |= told is not None
                continue
            if told is not None and not first <= told <= last:
                is_contradicted = True
                continue
            end = End.SEEN if last == self.start.metadata.last_entry else End.MISSING
            return end, is_contradicted and end is End.SEEN
        return (End.MISSING if starts else End.UNKNOWN), False

    def _starts(self, window: Window) -> list[tuple[int, int | None]]:
        """Return indexes in the window where a walk may begin, the most certain first, and the key that the index says it comes to."""
        header = self.start.header
        starts: list[tuple[int, int | None]] = []
        if self.index is not None and self.index.positions[-1] >= max(window.offset, header.size):
            starts.append((int(self.index.positions[-1]) - window.offset, int(self.index.keys[-1])))
        if window.offset <= header.size:
            return [*starts, (header.size - window.offset, None)]
        at: int | None = 0
        while at is not None and len(starts) < _MARKERS_TRIED:
            at = find_sync(window.buffer, header.sync, at)
            if at is not None:
                starts.append((at, None))
                at += 1
        return starts


def load_folders(
    store: ObjectStore, folders: Sequence[FolderFiles], tell: Callable[[int], None]
) -> Iterator[Loaded | Unloaded]:
    """Read what a catalog needs of ledgers' folders; ``tell`` is told how many are done.

    Raises `StoreUnreachableError`; all else is told of each.
    """
    for done, made in enumerate(_ended(store, _begun(store, folders)), 1):
        tell(done)
        yield made


def _begun(store: ObjectStore, folders: Iterable[FolderFiles]) -> Iterator[_Begun | Unloaded]:
    found = [_found(store, files) for files in folders]
    requests = (request for one in found if isinstance(one, FolderFiles) for request in _first_requests(one))
    outcomes = iter(store.read_many(requests))
    for one in found:
        if isinstance(one, Unloaded):
            yield one
            continue
        head = next(outcomes)
        index = next(outcomes) if _is_index_read(one) else None
        try:
            yield _opened(store, one, _bytes_of(head), index)
        except StoreUnreachableError:
            raise
        except LedgerfsError as error:
            yield Unloaded(one, error)


def _ended(store: ObjectStore, begun: Iterable[_Begun | Unloaded]) -> Iterator[Loaded | Unloaded]:
    """Yield ledgers with what is known of their ends, in any order."""
    waiting: list[_Begun] = []
    for one in begun:
        if isinstance(one, Unloaded):
            yield one
        elif one.head is not None:
            yield one.loaded(one.head)
        else:
            waiting.append(one)
    requests = (ReadRequest(one.data.key, one.tail_start, one.data.size, one.data.version, False) for one in waiting)
    for one, outcome in zip(waiting, store.read_many(requests), strict=True):
        if isinstance(outcome, StoreUnreachableError):
            raise outcome
        yield Unloaded(one.files, outcome) if isinstance(outcome, LedgerfsError) else one.loaded(outcome)


def _found(store: ObjectStore, files: FolderFiles) -> FolderFiles | Unloaded:
    """Look once more for data that was not listed: pages of a listing are of different moments."""
    if files.data is not None:
        return files
    if files.itself is not None and files.itself.refused:
        return Unloaded(files, AccessDeniedError(files.itself.refused, key=files.folder.key))
    try:
        return replace(files, data=store.head(files.folder.data_key).stat)
    except StoreUnreachableError:
        raise
    except ObjectNotFoundError as error:
        return Unloaded(files, error if _is_gone(store, files) else _no_data(files))
    except LedgerfsError as error:
        return Unloaded(files, error)


def _is_gone(store: ObjectStore, files: FolderFiles) -> bool:
    """Whether the index was deleted since the listing, too."""
    if files.index is None:
        return False
    try:
        store.head(files.folder.index_key)
    except ObjectNotFoundError:
        return True
    except (AccessDeniedError, StoreError):
        return False
    return False


def _no_data(files: FolderFiles) -> CorruptLedgerError:
    if files.itself is not None and not files.itself.key.endswith("/"):
        return CorruptLedgerError("a file where a ledger's folder should be", key=files.folder.key)
    left = "only its index" if files.index is not None else "nothing"
    return CorruptLedgerError(f"a ledger's folder without data: {left} is there", key=files.folder.data_key)


def _first_requests(files: FolderFiles) -> Iterator[ReadRequest]:
    data, index = files.data, files.index
    if data is not None:
        yield ReadRequest(data.key, 0, min(data.size, HEAD_BYTES), data.version, False)
    if index is not None and _is_index_read(files):
        yield ReadRequest(index.key, 0, index.size, index.version, False)


def _is_index_read(files: FolderFiles) -> bool:
    return files.index is not None and 0 < files.index.size <= MAX_INDEX_BYTES


def _bytes_of(outcome: bytes | LedgerfsError) -> bytes:
    if isinstance(outcome, LedgerfsError):
        raise outcome
    return outcome


def _opened(store: ObjectStore, files: FolderFiles, head: bytes, index: bytes | LedgerfsError | None) -> _Begun:
    data = files.data
    assert data is not None  # noqa: S101  (`_found` has seen to it)
    start = read_start(head, data, lambda end: store.read(ReadRequest(data.key, 0, end, data.version, False)))
    if isinstance(index, StoreUnreachableError):
        raise index
    parsed, cuts, state = _parsed_index(files, data, start.metadata.last_entry, index)
    return _Begun(files, data, start, parsed, cuts, state, head if len(head) == data.size else None)


def _parsed_index(
    files: FolderFiles, data: ObjectStat, last_entry: int, outcome: bytes | LedgerfsError | None
) -> tuple[MapFileIndex | None, int, IndexState]:
    """Return the index, how many cuts it makes, and what is to be said of it; without one that is right, data is read through."""
    if files.index is None or isinstance(outcome, ObjectNotFoundError):
        return None, 1, IndexState.MISSING
    if isinstance(outcome, AccessDeniedError | StoreError):
        return None, 1, IndexState.UNREAD
    if not isinstance(outcome, bytes):
        return None, 1, IndexState.WRONG
    try:
        index = parse_index(outcome, data_size=data.size, key=files.index.key)
        cuts, _ = cuts_of(index, last_entry, key=files.index.key)
    except (CorruptIndexError, UnsupportedFormatError):
        return None, 1, IndexState.WRONG
    # Only the last of it is needed further.
    last = slice(-1, None)
    return MapFileIndex(np.array(index.keys[last]), np.array(index.positions[last])), len(cuts), IndexState.GOOD


def read_start(head: bytes, data: ObjectStat, read: Callable[[int], bytes]) -> Start:
    """Return what the beginning of a ledger's data tells; ``read`` returns more of it, up to an offset.

    Raises `CorruptLedgerError`, `CorruptMetadataError`, `UnsupportedFormatError`, and what ``read`` does.
    """
    while True:
        window = Window(memoryview(head), 0, data.size, key=data.key)
        header = parse_header(window)
        value = 2 * len(head) if header is None else read_metadata_value(window, header)
        if header is not None and isinstance(value, bytes):
            return Start(header, parse_ledger_metadata(value, key=data.key))
        head = read(min(data.size, max(int(value), 2 * len(head))))


def may_grow(error: LedgerfsError) -> bool:
    """Whether something that cannot be read may be a ledger which is written just now."""
    is_short = isinstance(error, CorruptLedgerError) and not isinstance(error, CorruptMetadataError)
    return isinstance(error, StaleObjectError) or is_short
