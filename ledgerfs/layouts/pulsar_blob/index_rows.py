"""Make rows of the catalog from index objects while they are read."""

import hashlib
import re
from dataclasses import replace
from typing import Any

import numpy as np

from ledgerfs.catalog.catalog_rows import LEDGER, Table, origin_columns
from ledgerfs.catalog.layout import Names
from ledgerfs.catalog.ledger_ref import CatalogState
from ledgerfs.errors import CorruptIndexError, LedgerfsError, StoreUnreachableError
from ledgerfs.formats.pulsar_blob.index import MAX_INDEX_BYTES, OffloadIndex, parse_index
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.pulsar_blob.columns import LISTED, NUMBER, pack_own
from ledgerfs.layouts.pulsar_blob.fragments import BadIndex
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ReadRequest

_BATCH = 4096
_SIZE = list(LISTED.names or ()).index("size")


class IndexRows:
    """Collects the outcome of reading each of the ``listed`` index objects, in their order."""

    __slots__ = ("_bad", "_listed", "_names", "_rows", "_tables", "_taken")

    def __init__(self, listed: Table, names: Names) -> None:
        self._listed = listed
        self._names = names
        self._taken = 0
        self._rows: list[tuple[Any, ...]] = []
        self._tables = [np.empty(0, LEDGER)]
        self._bad: list[BadIndex] = []

    def take(self, key: LedgerKey, outcome: bytes | LedgerfsError) -> None:
        """Add the next outcome. Raises `StoreUnreachableError` if that is the outcome; other errors become a `BadIndex`."""
        if isinstance(outcome, StoreUnreachableError):
            raise outcome
        listed = self._listed[self._taken].item()
        self._taken += 1
        try:
            self._rows.append(_row(listed, _parsed(outcome, key, listed[_SIZE]), self._names))
        except LedgerfsError as error:
            # One unreadable object does not hide the others.
            self._bad.append(BadIndex(key, error))
        if len(self._rows) == _BATCH:
            self._make_table()

    def tables(self) -> tuple[Table, list[BadIndex]]:
        """Return rows of `LEDGER`, whose columns of the data object are not set yet, and the unreadable indexes."""
        self._make_table()
        return np.concatenate(self._tables), self._bad

    def _make_table(self) -> None:
        # A table has a tenth of the memory of its tuples.
        self._tables.append(np.array(self._rows, LEDGER))
        self._rows = []


def _parsed(outcome: bytes | LedgerfsError, key: LedgerKey, size: int) -> OffloadIndex:
    if isinstance(outcome, LedgerfsError):
        raise outcome
    if size > MAX_INDEX_BYTES:
        raise CorruptIndexError(
            f"the object has {size} bytes; an index has at most {MAX_INDEX_BYTES}", key=key.index_key
        )
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
        """Return an index as it was read, or an error; rereads it once if its ETag does not match."""
        if not isinstance(outcome, bytes) or not self._is_doubtful(request, outcome):
            return outcome
        # The checksum that the store keeps distinguishes damage in the store from an ETag that is no digest.
        (again,) = self._store.read_many([replace(request, is_checked=True)])
        if again == outcome:
            self._are_digests = False
        elif isinstance(again, bytes) and self._is_doubtful(request, again):
            return CorruptIndexError(
                "two reads of the index returned different bytes, and neither matches its ETag",
                key=request.key,
                offset=0,
            )
        return again

    def _is_doubtful(self, request: ReadRequest, data: bytes) -> bool:
        if not self._are_digests or request.end == request.start:
            return False
        digest = _MD5.fullmatch(request.version)
        return digest is not None and hashlib.md5(data, usedforsecurity=False).hexdigest() != digest[1]
