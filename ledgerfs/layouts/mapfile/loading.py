"""Load new ledgers for a catalog: their metadata, their indexes, and whether their data is complete.

Reads the beginning of the data and the index of each together, then the end of the data, unless that was read with the beginning. If the
last position of the index does not lead to the end, reads more of the data, as without an index; then all of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ledgerfs.errors import (
    AccessDeniedError,
    CorruptIndexError,
    CorruptLedgerError,
    CorruptMetadataError,
    CorruptObjectError,
    LedgerfsError,
    ObjectNotFoundError,
    StaleObjectError,
    StoreError,
    StoreUnreachableError,
    UnsupportedFormatError,
)
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.ledger_metadata import LedgerMetadata, parse_ledger_metadata
from ledgerfs.formats.mapfile.first_record import read_metadata_value
from ledgerfs.formats.mapfile.header import SequenceHeader, parse_header
from ledgerfs.formats.mapfile.index import MapFileIndex, parse_index
from ledgerfs.formats.mapfile.window import Window
from ledgerfs.layouts.mapfile.columns import IndexState
from ledgerfs.layouts.mapfile.ends import End, end_of, leads_to_end, walked_end
from ledgerfs.layouts.mapfile.folders import FolderFiles
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

HEAD_BYTES = 64 << 10
"""First bytes of the data to read: all of a small ledger, and the header and metadata of any."""

TAIL_BYTES = 4 << 20
"""Last bytes to read at most: a few blocks, or as many markers as are tried."""

_ENDLESS = 2**63 - 1
"""Size of data for which no missing end is to be reported."""


@dataclass(frozen=True, slots=True)
class Start:
    """Header and metadata of a ledger, from the first bytes of its data."""

    header: SequenceHeader
    metadata: LedgerMetadata


@dataclass(frozen=True, slots=True)
class Loaded:
    """A ledger with all that a catalog needs."""

    files: FolderFiles
    data: ObjectStat
    metadata: LedgerMetadata
    cuts: int
    index_state: IndexState
    end: End


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A ledger's folder that is not readable as one, with the reason, and its metadata if that is readable."""

    files: FolderFiles
    error: LedgerfsError
    metadata: LedgerMetadata | None = None


@dataclass(frozen=True, slots=True)
class _Begun:
    """A ledger whose end is checked next; ``head`` is its data if that was read wholly."""

    files: FolderFiles
    data: ObjectStat
    start: Start
    index: MapFileIndex | None
    cuts: int
    index_state: IndexState
    head: bytes | None

    @property
    def least_start(self) -> int:
        """Offset from which the data is walked without an index."""
        return max(0, self.data.size - TAIL_BYTES)

    @property
    def tail_start(self) -> int:
        """Offset from which the data is walked: the last position of the index, if that is near enough to the end."""
        if self.index is not None and self.index.positions[-1] >= self.least_start:
            return int(self.index.positions[-1])
        return self.least_start

    def reported(self, tail: bytes) -> Loaded | None:
        """Return the ledger by the data's last bytes; None if they contradict the index, and more of them are needed."""
        window, index = self._window(tail), self.index
        if index is None or index.positions[-1] < window.offset:
            return self.loaded(self._end_of(window))
        header, last_entry = self.start.header, self.start.metadata.last_entry
        if leads_to_end(window, int(index.positions[-1]), int(index.keys[-1]), header, last_entry):
            return self.loaded(End.SEEN)
        return self.seen(tail)

    def seen(self, tail: bytes) -> Loaded | None:
        """Return the ledger if the index does not lead to the end; None if the data's last bytes do not contain an end either."""
        window = self._window(tail)
        end = self._end_of(window)
        if end is End.SEEN or window.offset <= self.start.header.size:
            return self.loaded(end, is_contradicted=True)
        return None

    def walked(self, store: ObjectStore) -> Loaded:
        """Return the ledger by a walk through all of its data; raises the errors of reading."""
        end = walked_end(store, self.data, self.start.header, self.start.metadata.last_entry)
        return self.loaded(end, is_contradicted=True)

    def loaded(self, end: End, *, is_contradicted: bool = False) -> Loaded:
        """Return the ledger; its index is wrong if whole data contradicts it."""
        is_wrong = is_contradicted and end is End.SEEN
        cuts, state = (1, IndexState.WRONG) if is_wrong else (self.cuts, self.index_state)
        return Loaded(self.files, self.data, self.start.metadata, cuts, state, end)

    def unloaded(self, error: LedgerfsError) -> Unloaded:
        """Return the ledger as one with an unreadable end."""
        return Unloaded(self.files, error, self.start.metadata)

    def _window(self, tail: bytes) -> Window:
        return Window(memoryview(tail), self.data.size - len(tail), self.data.size, key=self.data.key)

    def _end_of(self, window: Window) -> End:
        return end_of(window, self.start.header, self.start.metadata.last_entry)


def load_folders(
    store: ObjectStore, folders: Sequence[FolderFiles], tell: Callable[[int], None]
) -> Iterator[Loaded | Unloaded]:
    """Read what a catalog needs of ledgers' folders; calls ``tell`` with the number of those that are done.

    Raises `StoreUnreachableError`; yields other errors with their folder.
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
            yield Unloaded(one, error, shown_metadata(head) if isinstance(head, bytes) else None)


def _ended(store: ObjectStore, begun: Iterable[_Begun | Unloaded]) -> Iterator[Loaded | Unloaded]:
    """Yield ledgers after the check of their ends, in any order."""
    made: Loaded | Unloaded | None
    waiting: list[_Begun] = []
    for one in begun:
        if isinstance(one, Unloaded):
            yield one
        elif one.head is None:
            waiting.append(one)
        elif (made := one.reported(one.head)) is not None:
            yield made
    doubted: list[_Begun] = []
    for one, tail in _tails(store, [(one, one.tail_start) for one in waiting]):
        made = one.unloaded(tail) if isinstance(tail, LedgerfsError) else one.reported(tail)
        if made is None:
            doubted.append(one)
        else:
            yield made
    for one, tail in _tails(store, [(one, one.least_start) for one in doubted]):
        made = one.unloaded(tail) if isinstance(tail, LedgerfsError) else one.seen(tail)
        yield _walked(store, one) if made is None else made


def _tails(store: ObjectStore, wanted: Sequence[tuple[_Begun, int]]) -> Iterator[tuple[_Begun, bytes | LedgerfsError]]:
    """Yield ledgers with their data from an offset on, or with its error; raises `StoreUnreachableError`."""
    requests = (ReadRequest(one.data.key, start, one.data.size, one.data.version, False) for one, start in wanted)
    for (one, _), outcome in zip(wanted, store.read_many(requests), strict=True):
        if isinstance(outcome, StoreUnreachableError):
            raise outcome
        yield one, outcome


def _walked(store: ObjectStore, one: _Begun) -> Loaded | Unloaded:
    try:
        return one.walked(store)
    except StoreUnreachableError:
        raise
    except LedgerfsError as error:
        return one.unloaded(error)


def _found(store: ObjectStore, files: FolderFiles) -> FolderFiles | Unloaded:
    """Check again for data that was not listed: pages of a listing are of different moments."""
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
    """Whether the index was deleted as well since the listing."""
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
        return CorruptLedgerError("expected the folder of a ledger, found a file", key=files.folder.key)
    left = "only its index" if files.index is not None else "nothing"
    return CorruptLedgerError(f"the folder of a ledger has no data: it contains {left}", key=files.folder.data_key)


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
    parsed, cuts, state = _parsed_index(files, data, start, index)
    return _Begun(files, data, start, parsed, cuts, state, head if len(head) == data.size else None)


def _parsed_index(
    files: FolderFiles, data: ObjectStat, start: Start, outcome: bytes | LedgerfsError | None
) -> tuple[MapFileIndex | None, int, IndexState]:
    """Return the index, its number of split points, and its state; if it is not right, readers walk through the data."""
    if files.index is None or isinstance(outcome, ObjectNotFoundError):
        return None, 1, IndexState.MISSING
    if isinstance(outcome, AccessDeniedError | StoreError):
        return None, 1, IndexState.UNREAD
    if not isinstance(outcome, bytes):
        return None, 1, IndexState.WRONG
    try:
        index = parse_index(outcome, data_size=data.size, key=files.index.key)
        cuts, _ = cuts_of(index, start.metadata.last_entry, key=files.index.key)
    except (CorruptIndexError, UnsupportedFormatError):
        return None, 1, IndexState.WRONG
    if index.positions[0] < start.header.size:
        return None, 1, IndexState.WRONG
    # Only the last position is needed further.
    last = slice(-1, None)
    return MapFileIndex(np.array(index.keys[last]), np.array(index.positions[last])), len(cuts), IndexState.GOOD


def read_start(head: bytes, data: ObjectStat, read: Callable[[int], bytes]) -> Start:
    """Parse the header and metadata at the beginning of a ledger's data; ``read`` returns more of it, up to an offset.

    Raises `CorruptLedgerError`, `CorruptMetadataError`, `UnsupportedFormatError`, and the errors of ``read``.
    """
    while True:
        window = Window(memoryview(head), 0, data.size, key=data.key)
        header = parse_header(window)
        value = 2 * len(head) if header is None else read_metadata_value(window, header)
        if header is not None and isinstance(value, bytes):
            return Start(header, parse_ledger_metadata(value, key=data.key))
        head = read(min(data.size, max(int(value), 2 * len(head))))


def shown_metadata(head: bytes) -> LedgerMetadata | None:
    """Return the metadata in the first bytes of a ledger's data, even if its record or block is truncated."""
    window = Window(memoryview(head), 0, _ENDLESS)
    try:
        header = parse_header(window)
        value = None if header is None else read_metadata_value(window, header)
        return parse_ledger_metadata(value) if isinstance(value, bytes) else None
    except (CorruptObjectError, UnsupportedFormatError):
        return None


def may_grow(error: LedgerfsError) -> bool:
    """Whether an unreadable folder may be a ledger that is still being written."""
    is_short = isinstance(error, CorruptLedgerError) and not isinstance(error, CorruptMetadataError)
    return isinstance(error, StaleObjectError) or is_short


APART = 1 << 20
"""Least bytes between two positions that are used: fewer are read as fast as a request is answered."""

MAX_INDEX_BYTES = 64 << 20
"""More than any index: it has two numbers, compressed, for 128 records or more."""


def cuts_of(index: MapFileIndex, last_entry: int, *, key: str | None = None) -> tuple[Int64, Int64]:
    """Return entries at which reading can begin, the first one 0, and the position in the data from which a walk reaches each.

    The first position is 0, the start of the file. Raises `CorruptIndexError` for an index without entries, and for one with more entries
    than the ledger.
    """
    if not len(index) or index.keys[-1] > last_entry:
        reason = (
            "the index has no entries"
            if not len(index)
            else f"the index has key {index.keys[-1]}, but the last entry is {last_entry}"
        )
        raise CorruptIndexError(reason, key=key)
    chosen, at = [], 0
    while True:
        row = int(np.searchsorted(index.positions, at + APART))
        if row >= len(index):
            break
        at = int(index.positions[row])
        if index.keys[row] > 0:
            chosen.append(row)
    zero, rows = np.zeros(1, np.int64), np.array(chosen, np.int64)
    return np.concatenate([zero, index.keys[rows]]), np.concatenate([zero, index.positions[rows]])
