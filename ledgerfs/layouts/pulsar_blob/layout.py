"""Buckets of Pulsar's blob offloader (S3, Google Cloud Storage, Azure, …): flat keys, a data and an index object per ledger.

The catalog costs one listing and one GET per new index. The index names the topic; only if it does not (objects from before Pulsar 2.4,
lost or damaged indexes) is the user metadata read. Nothing in the bucket is fatal: an unreadable index becomes a `BadIndex`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER, Table
from ledgerfs.catalog.findings import Finding
from ledgerfs.catalog.layout import FoundLedgers, Names, OpenLedger, Progress, RepairRequest
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.reader import LedgerReader, OnRead
from ledgerfs.catalog.repairs import Repair
from ledgerfs.formats.pulsar_blob.index import MAX_INDEX_BYTES
from ledgerfs.formats.pulsar_blob.object_names import KeyKind, LedgerKey, kind_of_key, parse_ledger_key
from ledgerfs.layouts.pulsar_blob.checks.catalog_checks import check_catalog, metadata_remark
from ledgerfs.layouts.pulsar_blob.columns import (
    LISTED,
    NUMBER,
    keys_of,
    listed_row,
    match_rows,
    own_of,
    rows_of,
    set_states,
)
from ledgerfs.layouts.pulsar_blob.fragments import REPAIRED_KINDS, BadIndex, BlobFragments, find_gaps
from ledgerfs.layouts.pulsar_blob.index_rows import IndexDigests, IndexRows
from ledgerfs.layouts.pulsar_blob.reader import PulsarLedgerReader
from ledgerfs.layouts.pulsar_blob.same_uploads import compared_with_copies
from ledgerfs.layouts.pulsar_blob.unpaired_objects import (
    named_bad_indexes,
    named_orphans,
    topics_of_objects,
    without_false_losses,
)
from ledgerfs.storage.object_store import KeepingStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

if TYPE_CHECKING:
    from hashlib import blake2b

    from ledgerfs.catalog.fragments import Unreadable
    from ledgerfs.layouts.pulsar_blob.checks.ledger_checks import PulsarLedgerCheck

_CHUNK = 32768
_MOST_KEPT = 16384
"""Most new indexes of a listing to cache: of a longer listing, most ledgers are not read soon."""


class PulsarBlob:
    """`Layout` of buckets that Pulsar's jclouds offloaders write."""

    __slots__ = ("_store",)

    number = NUMBER
    is_in_folders = False
    repaired_kinds = REPAIRED_KINDS

    def __init__(self, store: KeepingStore) -> None:
        self._store = store

    def begin_listing(self) -> "BlobListing":
        """Return a collector of data and index objects."""
        return BlobListing()

    def kind_of_other(self, key: str) -> str | None:
        """Return the kind of a key left by interrupted uploads or other offloaders; None for a foreign one."""
        kind = kind_of_key(key)
        return None if kind is KeyKind.FOREIGN else kind.value

    def load(
        self,
        listing: "BlobListing",
        previous: Catalog | None,
        names: Names,
        places: Names,  # noqa: ARG002  (keys are flat)
        progress: Progress | None,
    ) -> FoundLedgers:
        """Read the indexes that are new or changed since ``previous``; damaged objects raise nothing."""
        data, indexes = listing.tables()
        known, known_rows = _known_rows(indexes, previous, names)
        unseen = indexes[~known]
        fetched, bad = self._read_indexes(unseen, names, progress)
        self._name_the_nameless(fetched, names)
        ledgers = np.concatenate([known_rows, fetched])
        _set_data_columns(ledgers, data)
        refused: list[Unreadable] = []
        ledgers = without_false_losses(self._store, ledgers, previous, refused)
        set_states(ledgers)
        unpaired = data[match_rows(data, indexes) < 0]
        orphans = named_orphans(self._store, unpaired, previous, names.row_of, progress=progress, refused=refused)
        bad_indexes = tuple(named_bad_indexes(self._store, bad, names.row_of))
        return FoundLedgers(ledgers, BlobFragments(orphans, bad_indexes, tuple(refused)))

    def completed(self, catalog: Catalog) -> Catalog:
        """Compare data objects without a readable index with the complete ledgers of the same ids."""
        return compared_with_copies(self._store, catalog)

    def gaps(self, catalog: Catalog, now_ms: int) -> Iterator[tuple[Any, ...]]:
        """Yield rows of `GAP`: ledgers of which only one object exists."""
        return find_gaps(catalog, now_ms)

    def check_catalog(self, catalog: Catalog, open_ledger: OpenLedger) -> Iterator[Finding]:
        """Yield findings from listing and indexes alone: objects without a partner, sizes that do not agree."""
        return check_catalog(catalog, cast("Callable[[LedgerRef], PulsarLedgerReader]", open_ledger))

    def check_ledger(
        self, ledger: LedgerReader, on_read: OnRead, digest: "blake2b | None" = None
    ) -> "PulsarLedgerCheck":
        """Read every byte of a ledger's two objects."""
        # This imports numba, which a quick check does not need.
        from ledgerfs.layouts.pulsar_blob.checks.ledger_checks import PulsarLedgerCheck

        return PulsarLedgerCheck(cast("PulsarLedgerReader", ledger), on_read, digest=digest).run()

    def remarks(self, catalog: Catalog) -> list[Finding]:
        """Return a remark if the store keeps no user metadata."""
        return metadata_remark(catalog, self._store)

    def repairs(self, request: RepairRequest) -> Iterator[Repair]:
        """Yield repairs of the objects."""
        from ledgerfs.layouts.pulsar_blob.repairs.plan import plan_repairs
        from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey

        return plan_repairs(Survey.of(request), metadata=request.metadata)

    def open_ledger(self, ref: LedgerRef) -> LedgerReader:
        """Return a reader of one ledger, which reads the index when it first needs it."""
        return PulsarLedgerReader(self._store, ref)

    def _read_indexes(self, unseen: Table, names: Names, progress: Progress | None) -> tuple[Table, list[BadIndex]]:
        rows, digests = IndexRows(unseen, names), IndexDigests(self._store)
        for low in range(0, unseen.size, _CHUNK):
            listed = unseen[low : low + _CHUNK]
            keys = keys_of(listed)
            requests = list(_index_requests(keys, listed))
            outcomes = map(digests.checked, requests, self._store.read_many(requests))
            for i, (key, request, outcome) in enumerate(zip(keys, requests, outcomes, strict=True), low + 1):
                rows.take(key, outcome)
                if unseen.size <= _MOST_KEPT and isinstance(outcome, bytes):
                    # Its ledger is likely to be read next.
                    self._store.keep(request, outcome)
                if progress is not None and (i % 256 == 0 or i == unseen.size):
                    progress("reading indexes", i, unseen.size)
        return rows.tables()

    def _name_the_nameless(self, ledgers: Table, names: Names) -> None:
        """Read the topic from user metadata if the index does not contain it."""
        nameless = np.flatnonzero(ledgers["name"] == names.row_of(None))
        keys = [key.index_key for key in keys_of(ledgers[nameless])]
        for row, reported in zip(nameless.tolist(), topics_of_objects(self._store, keys), strict=True):
            if reported.error is not None:
                raise reported.error
            if reported.managed_ledger is not None:
                ledgers["name"][row] = names.row_of(reported.managed_ledger)


class BlobListing:
    """Collects the data and index objects of a listing, page by page."""

    __slots__ = ("_data", "_indexes")

    def __init__(self) -> None:
        self._data, self._indexes = [np.empty(0, LISTED)], [np.empty(0, LISTED)]

    def take(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        """Take the objects with Pulsar's names; return the others."""
        data_rows: list[tuple[object, ...]] = []
        index_rows: list[tuple[object, ...]] = []
        rest = []
        for stat in page:
            key = parse_ledger_key(stat.key)
            if key is None:
                rest.append(stat)
            else:
                (index_rows if key.is_index else data_rows).append(listed_row(key, stat))
        self._data.append(np.array(data_rows, LISTED))
        self._indexes.append(np.array(index_rows, LISTED))
        return rest

    def may_be_behind(self, key: str) -> bool:  # noqa: ARG002
        """Return False: ledgers are in no folders, and links with their names count as their objects."""
        return False

    def tables(self) -> tuple[Table, Table]:
        """Return the data objects and the index objects, as rows of `LISTED`."""
        return np.concatenate(self._data), np.concatenate(self._indexes)


def _known_rows(indexes: Table, previous: Catalog | None, names: Names) -> tuple[npt.NDArray[np.bool_], Table]:
    """Return which of ``indexes`` are unchanged since ``previous``, and their rows of `LEDGER`, whose names are rows of ``names``."""
    old = np.empty(0, LEDGER) if previous is None else rows_of(previous)
    if previous is None or not old.size:
        return np.zeros(indexes.size, bool), np.empty(0, LEDGER)
    matches = match_rows(indexes, old)
    candidates = old[matches]
    own = own_of(candidates)
    same_version = (own["index_version"] == indexes["version"]) & (indexes["version"] != b"")
    known = (matches >= 0) & same_version & (own["index_size"] == indexes["size"])
    rows = candidates[known]
    new_row = np.zeros(len(previous.names), np.int32)
    for row in np.unique(rows["name"]).tolist():
        new_row[row] = names.row_of(previous.names[row])
    rows["name"] = new_row[rows["name"]]
    return known, rows


def _index_requests(keys: list[LedgerKey], listed: Table) -> Iterator[ReadRequest]:
    """Yield a request for each whole index object; requests no bytes of an object larger than any index."""
    for key, size, version in zip(keys, listed["size"].tolist(), listed["version"].tolist(), strict=True):
        yield ReadRequest(key.index_key, 0, size if size <= MAX_INDEX_BYTES else 0, version.decode())


def _set_data_columns(ledgers: Table, data: Table) -> None:
    matches = match_rows(ledgers, data)
    found = matches >= 0
    own = own_of(ledgers)
    ledgers["stored"] = -1
    ledgers["stored"][found] = data["size"][matches[found]]
    own["data_modified_ms"][found] = data["modified_ms"][matches[found]]
    own["data_version"][found] = data["version"][matches[found]]
