"""Remains of offloads that are not whole: data objects without an index, and indexes that cannot be read.

`verify` and repairs name the kinds of what they find alike (``docs/operating/verify.md``, ``docs/operating/repair.md``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.remains import Unreadable
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.layouts.pulsar_blob.columns import NUMBER, ORPHAN

if TYPE_CHECKING:
    from ledgerfs.catalog.catalog import Catalog
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
    """An index object that could not be read or parsed, and why.

    Attributes
    ----------
    managed_ledger
        Of its topic, by user metadata; None if that does not name it.
    has_copy
        Whether a complete ledger of this id and topic has a data object of the same size and first bytes.

    """

    key: LedgerKey
    error: LedgerfsError
    managed_ledger: str | None = None
    has_copy: bool = False


@dataclass(frozen=True, slots=True)
class BlobRemains:
    """What is in a bucket besides ledgers (`ledgerfs.catalog.remains.Remains`).

    Attributes
    ----------
    orphans
        Rows of `ORPHAN`: data objects without an index.
    bad_indexes
        Index objects that cannot be read.
    refused
        Data objects of which the store refused to answer whether they are there, whose they are, or whether they are copies.

    """

    orphans: "Table" = field(default_factory=lambda: np.empty(0, ORPHAN))
    bad_indexes: tuple[BadIndex, ...] = ()
    refused: tuple[Unreadable, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there are no remains."""
        return not (self.orphans.size or self.bad_indexes or self.refused)

    @property
    def is_lasting(self) -> bool:
        """False with bad indexes and refused objects: the next listing finds them again."""
        return not (self.bad_indexes or self.refused)

    @property
    def topics(self) -> frozenset[int]:
        """None: what has no entries is no ledger here."""
        return frozenset()

    def renamed(self, new_row: npt.NDArray[np.int32]) -> "BlobRemains":
        """Return the same with other rows of names: ``new_row`` of each old one."""
        orphans = self.orphans.copy()
        is_named = orphans["name"] >= 0
        orphans["name"][is_named] = new_row[orphans["name"][is_named]]
        return replace(self, orphans=orphans)

    def why_not(self, ledger_id: int) -> str | None:
        """Return why there is no ledger of this id, None if nothing is left of it; raises the error of its index."""
        if (self.orphans["ledger_id"] == ledger_id).any():
            return "its data object is in the bucket, but no index: the upload is unfinished or failed"
        for bad in self.bad_indexes:
            if bad.key.ledger_id == ledger_id:
                raise bad.error
        return None

    def unreadable(self) -> Iterator[Unreadable]:
        """Yield the objects that cannot be read, except those that were deleted since the listing."""
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
    """Return a data object that the store refused to show, and its error."""
    return Unreadable(key.ledger_id, key.uuid, key.data_key, error)


def remains_of(catalog: "Catalog") -> BlobRemains:
    """Return this layout's remains in a catalog."""
    found = catalog.remains.get(NUMBER)
    return BlobRemains() if found is None else cast("BlobRemains", found)
