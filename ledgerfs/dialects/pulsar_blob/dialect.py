"""Buckets of Pulsar's blob offloader (S3, Google Cloud Storage, Azure, …): flat keys, a data and an index object a ledger.

The catalog costs one listing and one GET an index that was not seen before. The index names the topic; only where it does not (objects from
before Pulsar 2.4, indexes that are lost or damaged) is the user metadata asked for. Nothing in the bucket is fatal: what cannot be read
becomes a `BadIndex`.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ledgerfs.cache.learned_offsets import LearnedOffsets
from ledgerfs.dialects.pulsar_blob.gaps import find_gaps
from ledgerfs.dialects.pulsar_blob.index_digests import IndexDigests
from ledgerfs.dialects.pulsar_blob.reader import PulsarLedgerReader
from ledgerfs.dialects.pulsar_blob.same_uploads import compared_with_copies
from ledgerfs.dialects.pulsar_blob.unpaired_objects import told_bad_indexes, told_orphans, without_false_losses
from ledgerfs.errors import (
    AccessDeniedError,
    CorruptIndexError,
    LedgerfsError,
    NotFoundError,
    StoreError,
    StoreUnreachableError,
)
from ledgerfs.formats.pulsar_blob.index import MAX_INDEX_BYTES, OffloadIndex, parse_index
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey, kind_of_key, parse_ledger_key
from ledgerfs.formats.pulsar_blob.user_metadata import parse_user_metadata
from ledgerfs.ledgers.catalog import (
    LEDGER,
    LISTED,
    BadIndex,
    Catalog,
    LedgerRef,
    OtherKeys,
    Table,
    key_of,
    keys_of,
    listed_row,
    match_rows,
)
from ledgerfs.ledgers.dialect import LedgerReader, Progress
from ledgerfs.storage.object_store import KeepingStore, ObjectStore
from ledgerfs.storage.objects import ReadRequest

_CHUNK = 32768
_SIZE = list(LISTED.names or ()).index("size")
_HEAD_THREADS = 16


class PulsarBlobLayout:
    """`BucketLayout` of a bucket that Pulsar's jclouds offloaders wrote."""

    __slots__ = ("_store",)

    def __init__(self, store: KeepingStore) -> None:
        self._store = store

    def load_catalog(self, previous: Catalog | None = None, progress: Progress | None = None) -> Catalog:
        """List the bucket and read the indexes that ``previous`` does not know in their present version.

        Raises `NotFoundError` (no such bucket), `AccessDeniedError`, `StoreError`; damaged objects raise nothing.
        """
        listed_ms = int(time.time() * 1000)
        listing = _list_bucket(self._store, progress)
        names = _Names()
        known, known_rows = _known_rows(listing.indexes, previous, names)
        unseen = listing.indexes[~known]
        fetched, bad = self._read_indexes(unseen, names, progress)
        if not known_rows.size and bad and len(bad) == unseen.size and all(_is_the_stores(one) for one in bad):
            raise bad[0].error
        self._name_the_nameless(fetched, names)
        ledgers = np.concatenate([known_rows, fetched])
        _set_data_columns(ledgers, listing.data)
        ledgers = without_false_losses(self._store, ledgers, previous)
        unpaired = listing.data[match_rows(listing.data, listing.indexes) < 0]
        orphans = told_orphans(self._store, unpaired, previous, names.row_of, progress)
        bad = told_bad_indexes(self._store, bad, names.row_of)
        catalog = Catalog.of(names.texts, ledgers, orphans, bad, listing.others)
        catalog = compared_with_copies(self._store, catalog)
        return replace(catalog, gaps=find_gaps(catalog, listed_ms))

    def open_ledger(self, ref: LedgerRef, offsets: LearnedOffsets | None = None) -> LedgerReader:
        """Return a reader of one ledger; its index is read when it is first needed."""
        return PulsarLedgerReader(self._store, ref, offsets)

    def _read_indexes(self, unseen: Table, names: "_Names", progress: Progress | None) -> tuple[Table, list[BadIndex]]:
        chunks, bad, digests = [np.empty(0, LEDGER)], [], IndexDigests(self._store)
        for low in range(0, unseen.size, _CHUNK):
            listed = unseen[low : low + _CHUNK]
            keys, rows = keys_of(listed), []
            requests = list(_index_requests(keys, listed))
            outcomes = map(digests.checked, requests, self._store.read_many(requests))
            for i, (key, row, outcome) in enumerate(zip(keys, listed.tolist(), outcomes, strict=True), low + 1):
                if progress is not None and (i % 256 == 0 or i == unseen.size):
                    progress("reading indexes", i, unseen.size)
                try:
                    rows.append(_ledger_row(row, _parsed(outcome, key, row[_SIZE]), names))
                except StoreUnreachableError:
                    raise
                except LedgerfsError as error:
                    # One object that cannot be read hides none of the others.
                    bad.append(BadIndex(key, error))
            chunks.append(np.array(rows, LEDGER))
        return np.concatenate(chunks), bad

    def _name_the_nameless(self, ledgers: Table, names: "_Names") -> None:
        """Look for the topic in user metadata where the index has none; a store without user metadata is asked once."""
        nameless = np.flatnonzero(ledgers["name"] == names.row_of(None))
        if not nameless.size or self._user_metadata_name(ledgers[nameless[0]]) is _KEEPS_NO_METADATA:
            return
        with ThreadPoolExecutor(_HEAD_THREADS, thread_name_prefix="ledgerfs-head") as pool:
            found = pool.map(self._user_metadata_name, ledgers[nameless])
            for row, name in zip(nameless, found, strict=True):
                if isinstance(name, str):
                    ledgers["name"][row] = names.row_of(name)

    def _user_metadata_name(self, ledger: np.void) -> "str | _NoMetadata | None":
        try:
            metadata = self._store.head(key_of(ledger).index_key).metadata
        except NotFoundError:
            return None
        return _KEEPS_NO_METADATA if metadata is None else parse_user_metadata(metadata).managed_ledger


def _is_the_stores(bad: BadIndex) -> bool:
    """Whether not the object is at fault."""
    return isinstance(bad.error, AccessDeniedError | StoreError)


class _NoMetadata:
    """Type of the answer of a store that keeps no user metadata."""


_KEEPS_NO_METADATA = _NoMetadata()


@dataclass(slots=True)
class _Names:
    """Managed-ledger names, each once, in the order seen."""

    texts: list[str | None] = field(default_factory=list)
    _rows: dict[str | None, int] = field(default_factory=dict)

    def row_of(self, name: str | None) -> int:
        row = self._rows.setdefault(name, len(self.texts))
        if row == len(self.texts):
            self.texts.append(name)
        return row


@dataclass(frozen=True, slots=True)
class _Listing:
    """A bucket's listing: rows of `LISTED`, and the keys that are not Pulsar's V1 objects."""

    data: Table
    indexes: Table
    others: OtherKeys


def _list_bucket(store: ObjectStore, progress: Progress | None) -> _Listing:
    data, indexes, others = [np.empty(0, LISTED)], [np.empty(0, LISTED)], OtherKeys()
    seen = 0
    for page in store.list_pages():
        data_rows: list[tuple[object, ...]] = []
        index_rows: list[tuple[object, ...]] = []
        for stat in page:
            key = parse_ledger_key(stat.key)
            if key is None:
                others.add(kind_of_key(stat.key), stat.key)
            else:
                (index_rows if key.is_index else data_rows).append(listed_row(key, stat))
        data.append(np.array(data_rows, LISTED))
        indexes.append(np.array(index_rows, LISTED))
        seen += len(page)
        if progress is not None:
            progress("listing", seen, None)
    return _Listing(np.concatenate(data), np.concatenate(indexes), others)


def _known_rows(indexes: Table, previous: Catalog | None, names: _Names) -> tuple[npt.NDArray[np.bool_], Table]:
    """Return which of ``indexes`` are in ``previous`` unchanged, and their rows of `LEDGER` with names in ``names``."""
    old = np.empty(0, LEDGER) if previous is None else np.concatenate([previous.ledgers, previous.lost])
    if previous is None or not old.size:
        return np.zeros(indexes.size, bool), np.empty(0, LEDGER)
    matches = match_rows(indexes, old)
    candidates = old[matches]
    same_version = (candidates["index_version"] == indexes["version"]) & (indexes["version"] != b"")
    known = (matches >= 0) & same_version & (candidates["index_size"] == indexes["size"])
    rows = candidates[known]
    new_row = np.zeros(len(previous.names), np.int32)
    for row in np.unique(rows["name"]).tolist():
        new_row[row] = names.row_of(previous.names[row])
    rows["name"] = new_row[rows["name"]]
    return known, rows


def _index_requests(keys: list[LedgerKey], listed: Table) -> Iterator[ReadRequest]:
    """Yield the request for each index object whole; what is larger than any index is not read."""
    for key, size, version in zip(keys, listed["size"].tolist(), listed["version"].tolist(), strict=True):
        yield ReadRequest(key.index_key, 0, size if size <= MAX_INDEX_BYTES else 0, version.decode())


def _parsed(outcome: bytes | LedgerfsError, key: LedgerKey, size: int) -> OffloadIndex:
    if isinstance(outcome, LedgerfsError):
        raise outcome
    if size > MAX_INDEX_BYTES:
        raise CorruptIndexError(f"{size} bytes; no index is larger than {MAX_INDEX_BYTES}", key=key.index_key)
    return parse_index(outcome, key=key.index_key)


def _ledger_row(listed: tuple[Any, ...], index: OffloadIndex, names: _Names) -> tuple[Any, ...]:
    """Return a row of `LEDGER` from one of `LISTED`; the columns of the data object are set later, for all rows at once."""
    high, low, ledger_id, size, modified_ms, version = listed
    metadata = index.metadata
    return (
        high,
        low,
        ledger_id,
        names.row_of(metadata.managed_ledger),
        0,
        metadata.last_entry,
        metadata.length,
        index.data_length,
        len(index.blocks),
        index.is_plausible,
        index.oddity is not None,
        metadata.is_in_place,
        metadata.created_ms or 0,
        -1,
        0,
        b"",
        size,
        modified_ms,
        version,
    )


def _set_data_columns(ledgers: Table, data: Table) -> None:
    matches = match_rows(ledgers, data)
    found = matches >= 0
    ledgers["data_size"] = -1
    for column, source in (("data_size", "size"), ("data_modified_ms", "modified_ms"), ("data_version", "version")):
        ledgers[column][found] = data[source][matches[found]]
