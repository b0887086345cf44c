"""Listing a bucket: every dialect takes what is its own, and all of it becomes one catalog."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.catalog_rows import LEDGER, Table, agree
from ledgerfs.ledgers.dialect import Dialect, Names, Progress
from ledgerfs.ledgers.missing_ledgers import GAP, GapKind
from ledgerfs.ledgers.remains import OtherKeys
from ledgerfs.storage.object_store import ObjectStore

FOREIGN = "foreign"
"""Kind of the keys that no dialect knows."""


def list_bucket(
    store: ObjectStore, dialects: Sequence[Dialect], previous: Catalog | None = None, progress: Progress | None = None
) -> Catalog:
    """Return the catalog of a bucket: one listing, and what dialects have to read of ledgers that ``previous`` does not know.

    Raises `NotFoundError` (no such bucket), `AccessDeniedError`, `StoreError`; what is damaged raises nothing.
    """
    listed_ms = int(time.time() * 1000)
    listings = [dialect.begin_listing() for dialect in dialects]
    others, seen = OtherKeys(), 0
    for page in store.list_pages():
        rest = page
        for listing in listings:
            rest = listing.take(rest)
        for stat in rest:
            kinds = (dialect.kind_of_other(stat.key) for dialect in dialects)
            others.add(next((kind for kind in kinds if kind is not None), FOREIGN), stat.key)
        seen += len(page)
        if progress is not None:
            progress("listing", seen, None)
    names, places = Names(), Names()
    places.row_of("")
    found = [
        dialect.load(listing, previous, names, places, progress)
        for dialect, listing in zip(dialects, listings, strict=True)
    ]
    ledgers = np.concatenate([np.empty(0, LEDGER), *(one.ledgers for one in found)])
    remains = {dialect.number: one.remains for dialect, one in zip(dialects, found, strict=True)}
    catalog = Catalog.of(names.texts, ledgers, remains, others, places.texts)
    for dialect in dialects:
        catalog = dialect.completed(catalog)
    return replace(catalog, gaps=_gaps(catalog, dialects, listed_ms))


def _gaps(catalog: Catalog, dialects: Sequence[Dialect], now_ms: int) -> Table:
    """Return rows of `GAP`, each ledger of a topic at most once."""
    rows = [row for dialect in dialects for row in dialect.gaps(catalog, now_ms)]
    gaps = np.concatenate([np.array(rows, GAP), _contradictions(catalog)])
    gaps = gaps[np.lexsort((gaps["kind"], gaps["ledger_id"], gaps["name"]))]
    is_first = np.append(True, (np.diff(gaps["ledger_id"]) != 0) | (np.diff(gaps["name"]) != 0))[: gaps.size]
    first: Table = gaps[is_first]
    return first


def _contradictions(catalog: Catalog) -> Table:
    """Return the copies that have other entries than the ones that are read."""
    ledgers = catalog.ledgers
    copies = np.flatnonzero(ledgers["copy"] > 0)
    read = copies - ledgers["copy"][copies]
    hidden = ledgers[copies[~agree(ledgers[copies], ledgers[read])]]
    gaps = np.zeros(hidden.size, GAP)
    for column in (
        "uuid_high",
        "uuid_low",
        "ledger_id",
        "name",
        "place",
        "dialect",
        "last_entry",
        "length",
        "created_ms",
    ):
        gaps[column] = hidden[column]
    gaps["kind"], gaps["is_beside"], gaps["modified_ms"] = GapKind.CONTRADICTED, True, hidden["changed_ms"]
    return gaps
