"""Orphans of incomplete offloads, and the ledgers that are missing because of them: data without an index, unreadable indexes.

`verify` and repairs use the same names for their kinds (``docs/operating/verify.md``, ``docs/operating/repair.md``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import agree, is_sound
from ledgerfs.catalog.fragments import Fragments, Unreadable
from ledgerfs.catalog.missing_ledgers import UNKNOWN, GapKind, is_young
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.layouts.pulsar_blob.columns import NUMBER, ORPHAN

if TYPE_CHECKING:
    from ledgerfs.catalog.catalog_rows import Table

DATA_WITHOUT_INDEX = "data-without-index"
INDEX_WITHOUT_DATA = "index-without-data"
UNREADABLE_INDEX = "unreadable-index"
NO_VERSION_KEY = "no-version-key"
UNFINISHED_UPLOAD = "unfinished-upload"
GCS_PART = "gcs-part"

REPAIRED_KINDS = frozenset({DATA_WITHOUT_INDEX, INDEX_WITHOUT_DATA, UNREADABLE_INDEX, NO_VERSION_KEY})
"""Of these kinds repairs find all that `verify` finds."""


@dataclass(frozen=True, slots=True)
class BadIndex:
    """An index object that could not be read or parsed, with the reason.

    Attributes
    ----------
    managed_ledger
        Of its topic, by user metadata; None if the metadata does not contain it.
    has_copy
        Whether a complete ledger of this id and topic has a data object of the same size and first bytes.

    """

    key: LedgerKey
    error: LedgerfsError
    managed_ledger: str | None = None
    has_copy: bool = False


@dataclass(frozen=True, slots=True)
class BlobFragments(Fragments):
    """Contents of a bucket besides ledgers (`ledgerfs.catalog.fragments.Fragments`).

    Attributes
    ----------
    orphans
        Rows of `ORPHAN`: data objects without an index.
    bad_indexes
        Unreadable index objects.
    refused
        Data objects for which the store refused to answer whether they exist, which topic they have, or whether they are copies.

    """

    orphans: "Table" = field(default_factory=lambda: np.empty(0, ORPHAN))
    bad_indexes: tuple[BadIndex, ...] = ()
    refused: tuple[Unreadable, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return not (self.orphans.size or self.bad_indexes or self.refused)

    @property
    def is_lasting(self) -> bool:
        """False with bad indexes and refused objects: the next listing finds them again."""
        return not (self.bad_indexes or self.refused)

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "BlobFragments":
        """Return the same with other rows of names: ``new_row`` of each old one."""
        orphans = self.orphans.copy()
        is_named = orphans["name"] >= 0
        orphans["name"][is_named] = new_row[orphans["name"][is_named]]
        return replace(self, orphans=orphans)

    def why_not(self, ledger_id: int) -> str | None:
        """Return why there is no ledger of this id, None without an orphan of it; raises the error of its index."""
        if (self.orphans["ledger_id"] == ledger_id).any():
            return "its data object is in the bucket, but no index: the upload is unfinished or failed"
        for bad in self.bad_indexes:
            if bad.key.ledger_id == ledger_id:
                raise bad.error
        return None

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield the unreadable objects, except those that were deleted since the listing."""
        yield from self.refused
        for bad in self.bad_indexes:
            if not isinstance(bad.error, ObjectNotFoundError):
                yield Unreadable(bad.key.ledger_id, bad.key.uuid, bad.key.index_key, bad.error)

    def ledger_ids(self) -> Iterator[int]:
        """Yield the ledger ids of both."""
        yield from self.orphans["ledger_id"].tolist()
        yield from (bad.key.ledger_id for bad in self.bad_indexes)

    def counts(self) -> dict[str, int]:
        """Return how many there are of each kind."""
        return {"unreadable indexes": len(self.bad_indexes), "data objects without index": int(self.orphans.size)}


def refused_data(key: LedgerKey, error: LedgerfsError) -> Unreadable:
    """Return a data object for which the store refused access, and its error."""
    return Unreadable(key.ledger_id, key.uuid, key.data_key, error)


def fragments_of(catalog: "Catalog") -> BlobFragments:
    """Return this layout's orphans and bad indexes of a catalog."""
    found = catalog.fragments.get(NUMBER)
    return BlobFragments() if found is None else cast("BlobFragments", found)


class SameIds:
    """The ledgers of a catalog by their ids; of every layout."""

    __slots__ = ("_by_id", "_ledgers")

    def __init__(self, catalog: Catalog) -> None:
        ledgers, self._ledgers = catalog.ledgers, catalog.ledgers
        left = np.array(list(fragments_of(catalog).ledger_ids()), np.int64)
        ids = np.concatenate([catalog.lost["ledger_id"], left])
        self._by_id: dict[int, list[int]] = {}
        for row in np.flatnonzero(np.isin(ledgers["ledger_id"], ids)).tolist() if ids.size else []:
            self._by_id.setdefault(int(ledgers["ledger_id"][row]), []).append(row)

    @property
    def ids(self) -> list[int]:
        """The ids of all ledgers."""
        return list(self._by_id)

    def of_topic(self, ledger_id: int, name: int) -> np.void | None:
        """Return the copy of a ledger that is read; None if there is none."""
        rows = (self._ledgers[row] for row in self._by_id.get(ledger_id, ()))
        return next((row for row in rows if row["name"] == name and row["copy"] == 0), None)

    def sound(self, ledger_id: int) -> Iterator[np.void]:
        """Yield the complete ledgers of this id, of any topic."""
        rows = (self._ledgers[row] for row in self._by_id.get(ledger_id, ()))
        return (row for row in rows if is_sound(row))


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
            reported = tuple(int(lost[column]) for column in ("last_entry", "length", "created_ms", "changed_ms"))
            yield (*_key(lost), name, 0, NUMBER, GapKind.DATA_LOST, copy is not None, *reported)


def _without_readable_index(catalog: Catalog, near: SameIds) -> Iterator[Row]:
    for bad in fragments_of(catalog).bad_indexes:
        # A missing index was deleted since the listing, with its ledger: the index is deleted first.
        if not (bad.has_copy or isinstance(bad.error, ObjectNotFoundError)):
            ledger_id, name = bad.key.ledger_id, catalog.row_of(bad.managed_ledger)
            key, is_beside = (*uuid_halves(bad.key.uuid), ledger_id), near.of_topic(ledger_id, name) is not None
            yield (*key, name, 0, NUMBER, GapKind.INDEX_UNREADABLE, is_beside, UNKNOWN, UNKNOWN, 0, 0)


def _orphans(catalog: Catalog, near: SameIds, now_ms: int) -> Iterator[Row]:
    orphans = fragments_of(catalog).orphans
    are_young = is_young(orphans["modified_ms"], now_ms)
    published = np.concatenate([catalog.ledgers["uuid_high"], catalog.lost["uuid_high"]]) >> _GROUP_SHIFT
    is_unpublished = orphans["is_of_job"] & ~np.isin(orphans["uuid_high"] >> _GROUP_SHIFT, published)
    for orphan, is_being_written in zip(orphans, are_young | is_unpublished, strict=True):
        if not orphan["has_copy"]:
            kind = GapKind.BEING_WRITTEN if is_being_written else GapKind.INDEX_LOST
            ledger_id, name = int(orphan["ledger_id"]), max(int(orphan["name"]), UNKNOWN)
            is_beside = near.of_topic(ledger_id, name) is not None
            yield (*_key(orphan), name, 0, NUMBER, kind, is_beside, UNKNOWN, UNKNOWN, 0, int(orphan["modified_ms"]))


def _key(row: np.void) -> tuple[int, int, int]:
    return int(row["uuid_high"]), int(row["uuid_low"]), int(row["ledger_id"])
