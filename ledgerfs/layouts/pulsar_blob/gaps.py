"""Ledgers that are missing by what the catalog knows: rows of `GAP`, each ledger of a topic at most once."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import agree
from ledgerfs.catalog.missing_ledgers import UNKNOWN, GapKind
from ledgerfs.errors import ObjectNotFoundError
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs.layouts.pulsar_blob.remains import remains_of
from ledgerfs.layouts.pulsar_blob.same_ids import SameIds

UPLOAD_MS = 10 * 60 * 1000
"""A younger data object without an index may be of an upload under way: Pulsar puts the index within seconds, and tries for minutes if the
store is slow or fails."""

CLOCKS_MS = 24 * 60 * 60 * 1000
"""The time of an object that is further ahead of our clock means nothing."""

_GROUP_SHIFT = np.uint64(16)
"""Shifts a uuid's upper half to its first 48 bits, which all ledgers of one job share."""

Row = tuple[Any, ...]


def find_gaps(catalog: Catalog, now_ms: int) -> Iterator[Row]:
    """Yield the missing ledgers; ``now_ms`` is the time of the listing, ms since 1970 UTC."""
    near = SameIds(catalog)
    yield from _lost(catalog, near)
    yield from _without_readable_index(catalog, near)
    yield from _orphans(catalog, near, now_ms)


def _lost(catalog: Catalog, near: SameIds) -> Iterator[Row]:
    for lost in catalog.lost[catalog.lost["layout"] == NUMBER]:
        name, ledger_id = int(lost["name"]), int(lost["ledger_id"])
        if catalog.names[name] is None:
            if any(agree(copy, lost) for copy in near.sound(ledger_id)):
                continue
            name, copy = UNKNOWN, None
        else:
            copy = near.of_topic(ledger_id, name)
        if copy is None or not agree(copy, lost):
            told = tuple(int(lost[column]) for column in ("last_entry", "length", "created_ms", "changed_ms"))
            yield (*_key(lost), name, 0, NUMBER, GapKind.DATA_LOST, copy is not None, *told)


def _without_readable_index(catalog: Catalog, near: SameIds) -> Iterator[Row]:
    for bad in remains_of(catalog).bad_indexes:
        # An index that is not found was deleted since the listing, with its ledger: the index is deleted first.
        if not (bad.has_copy or isinstance(bad.error, ObjectNotFoundError)):
            ledger_id, name = bad.key.ledger_id, catalog.row_of(bad.managed_ledger)
            key, is_beside = (*uuid_halves(bad.key.uuid), ledger_id), near.of_topic(ledger_id, name) is not None
            yield (*key, name, 0, NUMBER, GapKind.INDEX_UNREADABLE, is_beside, UNKNOWN, UNKNOWN, 0, 0)


def _orphans(catalog: Catalog, near: SameIds, now_ms: int) -> Iterator[Row]:
    orphans = remains_of(catalog).orphans
    age_ms = now_ms - orphans["modified_ms"]
    # The clock of the store may be ahead of ours, but not by days.
    is_young = (age_ms < UPLOAD_MS) & (age_ms > -CLOCKS_MS)
    published = np.concatenate([catalog.ledgers["uuid_high"], catalog.lost["uuid_high"]]) >> _GROUP_SHIFT
    is_unpublished = orphans["is_of_job"] & ~np.isin(orphans["uuid_high"] >> _GROUP_SHIFT, published)
    for orphan, is_being_written in zip(orphans, is_young | is_unpublished, strict=True):
        if not orphan["has_copy"]:
            kind = GapKind.BEING_WRITTEN if is_being_written else GapKind.INDEX_LOST
            ledger_id, name = int(orphan["ledger_id"]), max(int(orphan["name"]), UNKNOWN)
            is_beside = near.of_topic(ledger_id, name) is not None
            yield (*_key(orphan), name, 0, NUMBER, kind, is_beside, UNKNOWN, UNKNOWN, 0, int(orphan["modified_ms"]))


def _key(row: np.void) -> tuple[int, int, int]:
    return int(row["uuid_high"]), int(row["uuid_low"]), int(row["ledger_id"])
