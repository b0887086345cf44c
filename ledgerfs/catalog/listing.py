"""List a bucket: every layout takes its objects, and all become one catalog, without saved schemas."""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER, Table, agree
from ledgerfs.catalog.fragments import OtherKeys
from ledgerfs.catalog.layout import Layout, Listing, Names, Progress
from ledgerfs.catalog.layouts_known import layout_rows
from ledgerfs.catalog.missing_ledgers import GAP, GapKind
from ledgerfs.errors import AccessDeniedError
from ledgerfs.formats.schemas.saved_schema import is_saved_schema, is_schemas_folder
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat

_log = logging.getLogger("ledgerfs.store")
_MANY_KEYS = 100_000
"""Foreign keys in a folder after which a log line recommends the layout without folders."""

FOREIGN = "foreign"
"""Kind of the keys outside of all layouts."""

_SYSTEM_FOLDERS = frozenset({"lost+found", "System Volume Information"})
"""Folders of file systems themselves, which users cannot list."""


def list_bucket(
    store: ObjectStore, layouts: Sequence[Layout], previous: Catalog | None = None, progress: Progress | None = None
) -> Catalog:
    """List a bucket, read the metadata of ledgers that are not in ``previous``, and return the catalog.

    Raises `NotFoundError` (no such bucket), `AccessDeniedError`, `StoreError`; damaged objects do not raise.
    """
    listed_ms = int(time.time() * 1000)
    survey = _Survey(store, layouts, progress)
    for page in store.list_pages():
        survey.take(page)
    listings, others = survey.listings, survey.others
    names, places = Names(), Names()
    places.row_of("")
    found = [
        layout.load(listing, previous, names, places, progress)
        for layout, listing in zip(layouts, listings, strict=True)
    ]
    ledgers = np.concatenate([np.empty(0, LEDGER), *(one.ledgers for one in found)])
    fragments = {layout.number: one.fragments for layout, one in zip(layouts, found, strict=True)}
    catalog = Catalog.of([*names], ledgers, fragments, others, [*places])
    catalog = replace(catalog, unlisted=survey.unlisted(), closed=survey.closed(), archived=frozenset(survey.archived))
    for layout in layouts:
        catalog = layout.completed(catalog)
    return with_gaps(catalog, (row for layout in layouts for row in layout.gaps(catalog, listed_ms)))


class _Survey:
    """The objects of a listing by layout, and foreign keys."""

    def __init__(self, store: ObjectStore, layouts: Sequence[Layout], progress: Progress | None) -> None:
        self.listings: list[Listing] = [layout.begin_listing() for layout in layouts]
        self.others = OtherKeys()
        self.archived: set[str] = set()
        self._denied: list[ObjectStat] = []
        self._closed: list[ObjectStat] = []
        self._links: list[ObjectStat] = []
        self._store = store
        self._layouts = layouts
        self._progress = progress
        self._seen = 0

    def take(self, page: Sequence[ObjectStat]) -> None:
        """Take a page of the bucket itself; list its folders if a layout has ledgers in folders."""
        looks = any(layout.is_in_folders for layout in self._layouts)
        for stat in self._not_taken(page):
            if stat.refused:
                self._links.append(stat)
            if not (looks and stat.key.endswith("/") and self._take_folder(stat.key)):
                self._add_other(stat.key)

    def unlisted(self) -> tuple[AccessDeniedError, ...]:
        """Return the errors of unlistable folders that contain ledgers."""
        links = (stat for stat in self._links if any(one.may_be_behind(stat.key) for one in self.listings))
        return self._errors(*self._denied, *links)

    def closed(self) -> tuple[AccessDeniedError, ...]:
        """Return the errors of other unlistable folders, which may contain ledgers."""
        return self._errors(*self._closed)

    def _errors(self, *stats: ObjectStat) -> tuple[AccessDeniedError, ...]:
        names = [layout_rows(one.number).NAME for one in self._layouts if not one.is_in_folders]
        hint = f" (--layout {names[0]} lists no folders)" if names else ""
        return tuple(AccessDeniedError(stat.refused + hint, key=stat.key) for stat in stats)

    def _take_folder(self, folder: str) -> bool:
        """Take the objects below a folder; return whether a layout took any, or it cannot be listed. Otherwise it is a foreign key.

        Lists all keys below it, since any folder may be the base of ledgers, and a page of keys costs less than a request for each folder.
        """
        is_ours, rest = False, OtherKeys()
        links: list[ObjectStat] = []
        denied: list[ObjectStat] = []
        for page in self._store.list_folder(folder):
            left = self._not_taken(page)
            is_ours |= len(left) < len(page)
            for stat in left:
                is_folder = stat.key.endswith("/")
                if stat.refused and is_folder and stat.key.rstrip("/") not in _SYSTEM_FOLDERS:
                    denied.append(stat)
                    continue
                if stat.refused and not is_folder:
                    links.append(stat)
                if not is_schemas_folder(stat.key):
                    rest.add(self._kind_of(stat.key), stat.key)
            if not is_ours and sum(rest.counts.values()) >= _MANY_KEYS:
                for one in self._layouts:
                    if not one.is_in_folders:
                        _log_many_keys(self._store.url, folder, layout_rows(one.number).NAME)
        # A folder of links only may be a tenant with namespaces elsewhere.
        is_all = not is_ours and 0 < len(links) == sum(rest.counts.values())
        (self._closed if is_all else self._links).extend(links)
        (self._denied if is_ours else self._closed).extend(denied)
        if is_ours:
            self.others.join(rest)
        return is_ours or any(stat.key == folder for stat in denied)

    def _not_taken(self, page: Sequence[ObjectStat]) -> list[ObjectStat]:
        rest = [stat for stat in page if not is_saved_schema(stat.key)]
        for listing in self.listings:
            rest = listing.take(rest)
        self.archived |= {stat.key for stat in page if stat.archived}.difference(stat.key for stat in rest)
        self._seen += len(page)
        if self._progress is not None:
            self._progress("listing", self._seen, None)
        return rest

    def _add_other(self, key: str) -> None:
        if not is_schemas_folder(key):
            self.others.add(self._kind_of(key), key)

    def _kind_of(self, key: str) -> str:
        kinds = (layout.kind_of_other(key) for layout in self._layouts)
        return next((kind for kind in kinds if kind is not None), FOREIGN)


@cache
def _log_many_keys(url: str, folder: str, layout: str) -> None:
    """Log once in a process that a folder takes long to list, with the layout that avoids it."""
    _log.warning(
        "%s: %s has many keys that are not Pulsar's; all are listed, because some may be ledgers. "
        'layout="%s" (--layout %s) lists no folders',
        url, folder, layout, layout,
    )  # fmt: skip


def with_gaps(catalog: Catalog, rows: Iterable[tuple[Any, ...]]) -> Catalog:
    """Return a catalog with its missing ledgers from rows of `GAP`, each ledger of a topic at most once."""
    gaps = np.concatenate([np.array(list(rows), GAP), _contradictions(catalog)])
    # A refusal is the first reason of its ledger, since with other reasons the rest of a topic may be read.
    refusals = catalog.refusals()
    keys = zip(*(gaps[name].tolist() for name in ("uuid_high", "uuid_low", "ledger_id")), strict=True)
    is_other = np.array([key not in refusals for key in keys], np.bool_)
    gaps = gaps[np.lexsort((gaps["kind"], is_other, gaps["ledger_id"], gaps["name"]))]
    is_first = np.append(True, (np.diff(gaps["ledger_id"]) != 0) | (np.diff(gaps["name"]) != 0))[: gaps.size]
    return replace(catalog, gaps=gaps[is_first])


def _contradictions(catalog: Catalog) -> Table:
    """Return the copies whose entries differ from those of the used copies."""
    ledgers = catalog.ledgers
    copies = np.flatnonzero(ledgers["copy"] > 0)
    read = copies - ledgers["copy"][copies]
    is_other = ~agree(ledgers[copies], ledgers[read])
    hidden = ledgers[copies[is_other]]
    gaps = np.zeros(hidden.size, GAP)
    for column in set(GAP.names or ()) & set(LEDGER.names or ()):
        gaps[column] = hidden[column]
    gaps["kind"], gaps["is_beside"], gaps["modified_ms"] = GapKind.CONTRADICTED, True, hidden["changed_ms"]
    return gaps
