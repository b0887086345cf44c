"""Incomplete ledgers in a bucket of MapFiles: of a crash, a deletion or another kind, damaged, or still being written.

Also finds which of them mean that a topic lacks a ledger.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.fragments import Fragments, Unreadable
from ledgerfs.catalog.missing_ledgers import UNKNOWN, GapKind, is_young
from ledgerfs.errors import LedgerfsError, NotFoundError, ObjectNotFoundError
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.layouts.mapfile.columns import NUMBER
from ledgerfs.layouts.mapfile.folders import LedgerFolder
from ledgerfs.storage.failures import is_refusal


@dataclass(frozen=True, slots=True)
class PartialLedger:
    """A ledger's folder that is not readable as a ledger, with the reason.

    Attributes
    ----------
    place, managed_ledger
        Where in the bucket the name begins, and the managed ledger, by the path; None if the path does not show it.
    metadata
        Its metadata; None if it is unreadable.
    modified_ms
        Modification time of its newest object, ms since 1970 UTC; 0 without objects.
    may_grow
        Whether it may still be being written: its end is missing.
    has_data, has_index
        Whether these exist.
    is_empty
        Whether it contains no bytes.

    """

    folder: LedgerFolder
    place: str
    managed_ledger: str | None
    metadata: LedgerMetadata | None
    error: LedgerfsError
    modified_ms: int
    may_grow: bool
    has_data: bool
    has_index: bool
    is_empty: bool

    @property
    def reported(self) -> str | None:
        """The managed ledger by its metadata."""
        return None if self.metadata is None else self.metadata.managed_ledger

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted since the listing."""
        return isinstance(self.error, ObjectNotFoundError)

    @property
    def is_refused(self) -> bool:
        """Whether its contents are unknown because the store refused access."""
        return is_refusal(self.error)

    @property
    def managed_ledgers(self) -> tuple[str | None, ...]:
        """All managed ledgers that it may belong to; (None,) if they are unknown."""
        return tuple(dict.fromkeys(name for name in (self.managed_ledger, self.reported) if name is not None)) or (
            None,
        )

    def place_of(self, managed_ledger: str | None) -> str:
        """Return the place that, with a name of `managed_ledgers`, identifies the folder."""
        is_at_place = not self.folder.fault and managed_ledger == self.managed_ledger
        return self.place if is_at_place else self.folder.exact_place

    @property
    def key(self) -> str:
        """The object to report for it."""
        if self.error.key == self.folder.key:
            return self.folder.key
        if self.has_data:
            return self.folder.data_key
        return self.folder.index_key if self.has_index else self.folder.key


@dataclass(frozen=True, slots=True)
class MapFileFragments(Fragments):
    """Contents of a bucket besides ledgers (`ledgerfs.catalog.fragments.Fragments`)."""

    partial: tuple[PartialLedger, ...] = ()
    is_one_ledger: bool = False
    """Whether the opened folder itself contains a ledger's two files."""

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not self.partial

    @property
    def is_lasting(self) -> bool:
        """False if there are any: they may be whole by the next listing."""
        return not self.partial

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "MapFileFragments":  # noqa: ARG002  (these have names as texts)
        """Return the same."""
        return self

    def why_not(self, ledger_id: int) -> str | None:
        """Raise the error of an incomplete ledger with this id."""
        for one in self.partial:
            if one.folder.ledger_id == ledger_id and not one.is_deleted:
                raise one.error
        return None

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield all of them, except those that were deleted since the listing."""
        for one in self.partial:
            if not one.is_deleted:
                yield Unreadable(one.folder.ledger_id, one.folder.uuid, one.key, one.error)

    def ledger_ids(self) -> Iterator[int]:
        """Yield their ids."""
        return (one.folder.ledger_id for one in self.partial)

    def counts(self) -> dict[str, int]:
        """Return their number."""
        return {"partial MapFiles": len(self.partial)}


def require_top(fragments: MapFileFragments, url: str) -> None:
    """Raise `NotFoundError` if incomplete ledgers show that the opened folder is inside of a bucket."""
    if fragments.is_one_ledger and fragments.is_empty:
        reason = "this is the folder of one ledger (with data and index): open the folder that contains the folders of tenants"
        raise NotFoundError(reason, key=url)
    misplaced = [one for one in fragments.partial if one.managed_ledger is None]
    if not misplaced or len(misplaced) < len(fragments.partial):
        return
    above = {one.reported.removesuffix(one.folder.path).rstrip("/") for one in misplaced if one.reported is not None}
    is_below = len(above) == 1 and all(
        one.reported is None or one.reported.endswith(one.folder.path) for one in misplaced
    )
    where = f"; the opened folder is {above.pop()!r} in it" if is_below else ""
    reason = (
        f"{len(misplaced):,} folders of ledgers, the first {misplaced[0].folder.key!r}, are not in "
        f"tenant/namespace/persistent/topic: open the folder that contains the folders of tenants{where}"
    )
    raise NotFoundError(reason, key=url)


def fragments_of(catalog: "Catalog") -> MapFileFragments:
    """Return the incomplete ledgers of a catalog."""
    found = catalog.fragments.get(NUMBER)
    return MapFileFragments() if found is None else cast("MapFileFragments", found)


def has_copy(catalog: Catalog, partial: PartialLedger) -> bool:
    """Whether a whole copy of the ledger is in the bucket, in any layout: for each topic that it may be of."""
    return all(_has_copy_of(catalog, name, partial) for name in partial.managed_ledgers)


def _has_copy_of(catalog: Catalog, managed_ledger: str | None, partial: PartialLedger) -> bool:
    """Whether a topic has a whole ledger of the same id that the folder's metadata proves to be the same.

    The id alone is not enough if the folder may contain entries: two clusters may share a bucket. Sizes are not enough if the id is a
    guess: many ledgers of a topic may have the same size.
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
    """Yield the missing ledgers, as rows of `GAP`; ``now_ms`` is the time of the listing, ms since 1970 UTC."""
    rows = {place: row for row, place in enumerate(catalog.places)}
    for partial in fragments_of(catalog).partial:
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
