"""What is in a bucket of MapFiles that is not a whole ledger: of a crash, of a deletion, damaged, of another kind, or just being written.

And which of it means that a topic lacks a ledger.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.missing_ledgers import UNKNOWN, GapKind, is_young
from ledgerfs.catalog.remains import Remains, Unreadable
from ledgerfs.errors import LedgerfsError, NotFoundError, ObjectNotFoundError
from ledgerfs.formats.ledger_metadata import LedgerMetadata
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.layouts.mapfile.columns import NUMBER
from ledgerfs.layouts.mapfile.folders import LedgerFolder
from ledgerfs.storage.failures import is_refusal


@dataclass(frozen=True, slots=True)
class PartialLedger:
    """A ledger's folder that cannot be read as a ledger, and why.

    Attributes
    ----------
    place, managed_ledger
        Where in the bucket the name begins, and whose it is, by the path; None where that does not tell.
    metadata
        Its metadata; None if that cannot be read.
    modified_ms
        When the last of what is there was written; 0 where nothing is.
    may_grow
        Whether it looks like one that is written just now: its end is missing.
    has_data, has_index
        Whether these are there.
    is_empty
        Whether not one byte of it is there.

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
    def told(self) -> str | None:
        """Whose it is by its metadata."""
        return None if self.metadata is None else self.metadata.managed_ledger

    @property
    def is_deleted(self) -> bool:
        """Whether it was there when the bucket was listed, and is not any more."""
        return isinstance(self.error, ObjectNotFoundError)

    @property
    def is_refused(self) -> bool:
        """Whether nobody knows what is there, since the store did not let us look."""
        return is_refusal(self.error)

    @property
    def managed_ledgers(self) -> tuple[str | None, ...]:
        """All whose it may be; None alone where nothing tells."""
        return tuple(dict.fromkeys(name for name in (self.managed_ledger, self.told) if name is not None)) or (None,)

    def place_of(self, managed_ledger: str | None) -> str:
        """Return the place that, with a name of `managed_ledgers`, tells the folder."""
        is_at_place = not self.folder.fault and managed_ledger == self.managed_ledger
        return self.place if is_at_place else self.folder.exact_place

    @property
    def key(self) -> str:
        """The object that tells of it."""
        if self.error.key == self.folder.key:
            return self.folder.key
        if self.has_data:
            return self.folder.data_key
        return self.folder.index_key if self.has_index else self.folder.key


@dataclass(frozen=True, slots=True)
class MapFileRemains(Remains):
    """What is in a bucket besides ledgers (`ledgerfs.catalog.remains.Remains`)."""

    partial: tuple[PartialLedger, ...] = ()
    is_one_ledger: bool = False
    """Whether what was opened has a ledger's two files itself."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing."""
        return not self.partial

    @property
    def is_lasting(self) -> bool:
        """False where there is anything: it may be whole by now."""
        return not self.partial

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "MapFileRemains":  # noqa: ARG002  (these have names as texts)
        """Return the same."""
        return self

    def why_not(self, ledger_id: int) -> str | None:
        """Raise the error of one of this id."""
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
        """Return how many there are."""
        return {"partial MapFiles": len(self.partial)}


def require_top(remains: MapFileRemains, url: str) -> None:
    """Raise `NotFoundError` where all that is left shows that a folder inside of a bucket was opened, instead of the bucket."""
    if remains.is_one_ledger and remains.is_empty:
        reason = "the folder of one ledger (it has data and index): open the folder that has those of the tenants in it"
        raise NotFoundError(reason, key=url)
    misplaced = [one for one in remains.partial if one.managed_ledger is None]
    if not misplaced or len(misplaced) < len(remains.partial):
        return
    above = {one.told.removesuffix(one.folder.path).rstrip("/") for one in misplaced if one.told is not None}
    is_below = len(above) == 1 and all(one.told is None or one.told.endswith(one.folder.path) for one in misplaced)
    where = f", which is {above.pop()!r} below that" if is_below else ""
    reason = (
        f"{len(misplaced):,} folders of ledgers are here, the first {misplaced[0].folder.key!r}, and none is in "
        f"tenant/namespace/persistent/topic: open the folder that has those of the tenants in it{where}"
    )
    raise NotFoundError(reason, key=url)


def remains_of(catalog: "Catalog") -> MapFileRemains:
    """Return what a catalog has of these."""
    found = catalog.remains.get(NUMBER)
    return MapFileRemains() if found is None else cast("MapFileRemains", found)


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
