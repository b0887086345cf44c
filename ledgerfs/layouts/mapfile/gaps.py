"""Which folders without a whole ledger mean that a topic lacks one."""

from collections.abc import Iterator
from typing import Any

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.missing_ledgers import UNKNOWN, GapKind
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.layouts.mapfile.columns import NUMBER
from ledgerfs.layouts.mapfile.remains import PartialLedger, remains_of

WRITING_MS = 10 * 60 * 1000
"""So long after its last byte was written, a ledger that lacks its end may still be under way: writers flush every few MiB."""

CLOCKS_MS = 24 * 60 * 60 * 1000
"""An object that is from later than so far ahead has a time that means nothing."""


def is_young(modified_ms: int, now_ms: int) -> bool:
    """Whether something was written so short a time ago that somebody may be at work on it; the clock of the store may be ahead of ours."""
    return -CLOCKS_MS < now_ms - modified_ms < WRITING_MS


def has_copy(catalog: Catalog, partial: PartialLedger) -> bool:
    """Whether a whole copy of the ledger is in the bucket, in whatever layout: for each topic that it may be of."""
    return all(_has_copy_of(catalog, name, partial) for name in partial.managed_ledgers)


def _has_copy_of(catalog: Catalog, managed_ledger: str | None, partial: PartialLedger) -> bool:
    """Whether a topic has a whole ledger of the same id, and the folder's metadata tells that it is the same one.

    The id alone is not enough where there may be entries: two clusters may share a bucket. Nor are sizes, where the id is a guess: many
    ledgers of a topic may have the same.
    """
    metadata, folder = partial.metadata, partial.folder
    known = catalog.copies_of(managed_ledger, folder.ledger_id)
    copies = [copy for copy in known if copy.is_sound]
    if metadata is None:
        return bool(copies) and partial.is_empty and not (folder.fault or partial.is_refused)
    is_guess = folder.name is not None
    return any(
        copy.agrees_with(metadata) and not (is_guess and None in {copy.created_ms, metadata.created_ms})
        for copy in copies
    )


def find_gaps(catalog: Catalog, now_ms: int) -> Iterator[tuple[Any, ...]]:
    """Yield what is missing, as rows of `GAP`; ``now_ms`` is the time of the listing, ms since 1970 UTC."""
    rows = {place: row for row, place in enumerate(catalog.places)}
    for partial in remains_of(catalog).partial:
        folder = partial.folder
        if partial.is_deleted:
            continue
        kind = _kind_of(partial, now_ms)
        for name in partial.managed_ledgers:
            if _has_copy_of(catalog, name, partial):
                continue
            is_beside = bool(catalog.copies_of(name, folder.ledger_id))
            place = rows[partial.place_of(name)]
            key = (*uuid_halves(folder.uuid), folder.ledger_id, catalog.row_of(name), place)
            yield (*key, NUMBER, kind, is_beside, UNKNOWN, UNKNOWN, 0, partial.modified_ms)


def _kind_of(partial: PartialLedger, now_ms: int) -> GapKind:
    if partial.may_grow and is_young(partial.modified_ms, now_ms):
        return GapKind.BEING_WRITTEN
    if partial.has_data or partial.is_refused:
        return GapKind.UNREADABLE
    return GapKind.DATA_LOST if partial.has_index else GapKind.NOTHING_LEFT
