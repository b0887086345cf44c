"""What all parts of a plan work from: the bucket as it was just listed, the user's options, and the time."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.layout import OpenLedger, Progress, RepairRequest
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import StaleObjectError
from ledgerfs.layouts.pulsar_blob.ledger_group import LedgerGroup
from ledgerfs.layouts.pulsar_blob.remains import remains_of
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat


@dataclass(frozen=True, slots=True)
class Survey:
    """A bucket that is to be repaired.

    Attributes
    ----------
    store
        Where its objects are, without a cache.
    list_all
        Lists the bucket once more, in every layout.
    layouts
        Numbers of the layouts that the bucket is read in.
    open_ledger
        Returns a reader that asks the store itself for every byte.
    managed_ledger
        The user's, for ledgers whose topic nothing else names; None if the user named none.
    ledgers
        The ledger ids that are repaired; None for all.
    older_than_ms
        A younger object may still be written, and is left alone.
    claims
        By ledger id, of ledgers of which an object is missing or damaged: the row of every copy, also without its data object, and of other
        layouts.

    """

    store: RawStore
    catalog: Catalog
    managed_ledger: str | None
    ledgers: frozenset[int] | None
    older_than_ms: int
    now_ms: int
    claims: dict[int, list[LedgerRef]]
    list_all: Callable[[], Catalog]
    layouts: frozenset[int]
    open_ledger: OpenLedger
    progress: Progress | None

    @classmethod
    def of(cls, request: RepairRequest) -> "Survey":
        """Prepare what is asked for."""
        return cls(
            store=request.store,
            catalog=request.catalog,
            managed_ledger=request.managed_ledger,
            ledgers=None if request.ledgers is None else frozenset(request.ledgers),
            older_than_ms=int(request.older_than_s * 1000),
            now_ms=int(time.time() * 1000),
            claims=_claims(request.catalog),
            list_all=request.list_all,
            layouts=request.layouts,
            open_ledger=request.open_ledger,
            progress=request.progress,
        )

    def is_meant(self, ledger_id: int | None) -> bool:
        """Whether a ledger is one of those to repair."""
        return self.ledgers is None or ledger_id in self.ledgers

    def too_young(self, modified_ms: int) -> str | None:
        """Return why an object of this time is left alone; None if it is old enough."""
        if modified_ms <= 0:
            return "the store does not tell how old it is, so it may still be written"
        age_ms = self.now_ms - modified_ms
        if age_ms < self.older_than_ms:
            return f"it is {_duration(age_ms)} old, and until it is {_duration(self.older_than_ms)} old it may still be written"
        return None

    def copies_of(self, ledger_id: int) -> list[LedgerRef]:
        """Return the complete copies of this id, of any topic and layout; only for ids of which an object is missing or damaged."""
        return [ref for ref in self.claims.get(ledger_id, []) if ref.is_sound]

    def why_not_seen(self, copy: LedgerRef) -> str | None:
        """Return why nothing is deleted for the sake of this copy; None if it may be."""
        if copy.layout in self.layouts:
            return None
        return f"left alone: the complete copy {copy.key} is in a layout that is not read here; repair without --layout"

    def stats_of(self, copy: LedgerRef) -> tuple[ObjectStat, ...]:
        """Return what the store tells now of the objects of a copy; raises `StaleObjectError` if they are not those listed."""
        stats = tuple(self.store.head(stat.key).stat for _, stat in copy.objects)
        for stat, (_, listed) in zip(stats, copy.objects, strict=True):
            if stat.size != listed.size or listed.version not in {"", stat.version}:
                raise StaleObjectError("the object was replaced", key=stat.key)
        return stats

    def has_ledger_of(self, group: LedgerGroup) -> bool:
        """Whether one of the ledgers that a job wrote together is published: then all of them should be."""
        return bool((self.catalog.ledgers["uuid_high"] >> np.uint64(16) == int(group.digits, 16)).any())

    def say(self, what: str, done: int, total: int | None) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(what, done, total)


def _claims(catalog: Catalog) -> dict[int, list[LedgerRef]]:
    ids = np.concatenate([catalog.lost["ledger_id"], np.array(list(remains_of(catalog).ledger_ids()), np.int64)])
    claims: dict[int, list[LedgerRef]] = {}
    for rows in (catalog.ledgers, catalog.lost):
        for row in np.flatnonzero(np.isin(rows["ledger_id"], ids)).tolist():
            claims.setdefault(int(rows["ledger_id"][row]), []).append(catalog.ref_of(rows[row]))
    return claims


def _duration(milliseconds: int) -> str:
    """Return a time as a user would say it: ``90 min``."""
    seconds = max(0, milliseconds) / 1000
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
