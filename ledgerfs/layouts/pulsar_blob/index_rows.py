"""Rows of the catalog made of index objects, in batches as they are read.

Of many indexes the plain ones are read by a kernel, and of few none, since numba takes as long to import as 20,000 indexes to parse.
"""

import hashlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog_rows import LEDGER, Table, origin_columns
from ledgerfs.catalog.layout import Names
from ledgerfs.catalog.ledger_ref import CatalogState
from ledgerfs.errors import CorruptIndexError, LedgerfsError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.index import MAX_INDEX_BYTES, OffloadIndex, parse_index
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.pulsar_blob.columns import KEY_COLUMNS, LISTED, NUMBER, own_of, pack_own
from ledgerfs.layouts.pulsar_blob.remains import BadIndex
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest

if TYPE_CHECKING:
    from ledgerfs.formats.array_types import Mask

_MANY = 20_000
_BATCH, _BATCH_BYTES = 4096, 16 << 20
_SIZE = list(LISTED.names or ()).index("size")


class IndexRows:
    """Takes the outcome of reading each of the ``listed`` index objects, in their order."""

    __slots__ = ("_are_many", "_bad", "_listed", "_name_rows", "_names", "_size", "_tables", "_taken", "_waiting")

    def __init__(self, listed: Table, names: Names) -> None:
        self._listed = listed
        self._names = names
        self._are_many = listed.size >= _MANY
        self._name_rows: dict[bytes, int] = {}
        self._taken = self._size = 0
        self._waiting: list[tuple[LedgerKey, bytes | LedgerfsError]] = []
        self._tables = [np.empty(0, LEDGER)]
        self._bad: list[BadIndex] = []

    def take(self, key: LedgerKey, outcome: bytes | LedgerfsError) -> None:
        """Take the next one. Raises `StoreUnreachableError` if that is the outcome; others become a `BadIndex`."""
        if isinstance(outcome, bytes):
            self._size += len(outcome)
        elif isinstance(outcome, StoreUnreachableError):
            raise outcome
        self._waiting.append((key, outcome))
        if len(self._waiting) == _BATCH or self._size >= _BATCH_BYTES:
            self._read_waiting()

    def tables(self) -> tuple[Table, list[BadIndex]]:
        """Return rows of `LEDGER`, whose columns of the data object are not set yet, and the indexes that cannot be read."""
        self._read_waiting()
        return np.concatenate(self._tables), self._bad

    def _read_waiting(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        listed = self._listed[self._taken : self._taken + len(waiting)]
        self._taken += len(waiting)
        rows, is_found = np.zeros(len(waiting), LEDGER), np.zeros(len(waiting), np.bool_)
        if self._are_many:
            is_found = self._fill_plain(rows, listed, [outcome for _, outcome in waiting])
        for i in np.flatnonzero(~is_found).tolist():
            key, outcome = waiting[i]
            try:
                rows[i] = _row(listed[i].item(), _parsed(outcome, key, listed[i].item()[_SIZE]), self._names)
                is_found[i] = True
            except LedgerfsError as error:
                # One unreadable object does not hide the others.
                self._bad.append(BadIndex(key, error))
        self._tables.append(rows[is_found])

    def _fill_plain(self, rows: Table, listed: Table, outcomes: list[bytes | LedgerfsError]) -> "Mask":
        """Fill the rows of plain indexes; return which they are."""
        # numba, which this imports, is not needed for few.
        from ledgerfs.formats.pulsar_blob.plain_indexes import summarise

        parts = [outcome if isinstance(outcome, bytes) else b"" for outcome in outcomes]
        data = b"".join(parts)
        plain, found = summarise(
            np.frombuffer(data, np.uint8), np.cumsum([len(part) for part in parts], dtype=np.int64)
        )
        rows[plain] = _plain_rows(listed[plain], found[plain], self._rows_of_names(data, found[plain]))
        return plain

    def _rows_of_names(self, data: bytes, found: npt.NDArray[np.void]) -> list[int]:
        known, rows = self._name_rows, []
        for start, end in zip(found["name_start"].tolist(), found["name_end"].tolist(), strict=True):
            name = data[start:end]
            row = known.get(name)
            if row is None:
                row = known[name] = self._names.row_of(name.decode("utf-8", "replace") or None)
            rows.append(row)
        return rows


def _plain_rows(listed: Table, found: npt.NDArray[np.void], names: list[int]) -> Table:
    """Return what `_row` does for each, of rows of `SUMMARY`."""
    rows = np.zeros(listed.size, LEDGER)
    for column, _ in KEY_COLUMNS:
        rows[column] = listed[column]
    for column in ("last_entry", "length", "created_ms"):
        rows[column] = found[column]
    rows["name"], rows["layout"], rows["state"] = names, NUMBER, CatalogState.LOST
    rows["ordered"], rows["stored"] = found["in_place"], -1
    rows["expected"], rows["cuts"] = found["data_length"], found["blocks"]
    rows["changed_ms"] = listed["modified_ms"]
    own = own_of(rows)
    own["index_size"], own["index_version"], own["plausible"] = listed["size"], listed["version"], found["plausible"]
    return rows


def _parsed(outcome: bytes | LedgerfsError, key: LedgerKey, size: int) -> OffloadIndex:
    if isinstance(outcome, LedgerfsError):
        raise outcome
    if size > MAX_INDEX_BYTES:
        raise CorruptIndexError(f"{size} bytes; no index is larger than {MAX_INDEX_BYTES}", key=key.index_key)
    return parse_index(outcome, key=key.index_key)


def _row(listed: tuple[Any, ...], index: OffloadIndex, names: Names) -> tuple[Any, ...]:
    """Return a row of `LEDGER` from one of `LISTED`."""
    high, low, ledger_id, size, modified_ms, version = listed
    metadata = index.metadata
    return (
        high,
        low,
        ledger_id,
        names.row_of(metadata.managed_ledger),
        0,
        0,
        NUMBER,
        CatalogState.LOST,
        metadata.is_in_place,
        0,
        metadata.last_entry,
        metadata.length,
        -1,
        index.data_length,
        len(index.blocks),
        metadata.created_ms or 0,
        modified_ms,
        *origin_columns(metadata.origin),
        False,
        pack_own(size, version, is_plausible=index.is_plausible, is_odd=index.oddity is not None),
    )


_MD5 = re.compile(r'"?([0-9a-f]{32})"?')


class IndexDigests:
    """The check of one bucket's indexes; for one thread."""

    __slots__ = ("_are_digests", "_store")

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._are_digests = True

    def checked(self, request: ReadRequest, outcome: bytes | LedgerfsError) -> bytes | LedgerfsError:
        """Return an index as it was read, or an error; if its ETag does not fit, it is read once more."""
        if not isinstance(outcome, bytes) or not self._is_doubtful(request, outcome):
            return outcome
        (again,) = self._store.read_many([request])
        if again == outcome:
            self._are_digests = False
        elif isinstance(again, bytes) and self._is_doubtful(request, again):
            return CorruptIndexError("two reads of it differ, and neither fits its ETag", key=request.key, offset=0)
        return again

    def _is_doubtful(self, request: ReadRequest, data: bytes) -> bool:
        if not self._are_digests or request.end == request.start:
            return False
        digest = _MD5.fullmatch(request.version)
        return digest is not None and hashlib.md5(data, usedforsecurity=False).hexdigest() != digest[1]
