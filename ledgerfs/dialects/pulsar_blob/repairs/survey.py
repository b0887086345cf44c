"""What all parts of a plan look at: the bucket as it was just listed, what the user said, and the time."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from ledgerfs.dialects.pulsar_blob.ledger_group import LedgerGroup
from ledgerfs.errors import StaleObjectError
from ledgerfs.ledgers.catalog import Catalog, LedgerRef, key_of
from ledgerfs.ledgers.dialect import LedgerReader, Progress
from ledgerfs.storage.object_store import RawStore
from ledgerfs.storage.objects import ObjectStat


@dataclass(frozen=True, slots=True)
class Survey:
    """A bucket that is to be repaired.

    Attributes
    ----------
    store
        Where its objects are, without a cache.
    open_ledger
        Returns a reader that asks the store itself for every byte.
    managed_ledger
        Of ledgers whose topic nothing tells, as the user says it; None where nobody does.
    ledgers
        The ledger ids that are looked at; None for all.
    older_than_ms
        How old an object has to be before nobody may be about to go on with it.
    claims
        By ledger id, what indexes say of those ledgers of which an object is missing or damaged: every copy, also without its data.

    """

    store: RawStore
    catalog: Catalog
    managed_ledger: str | None
    ledgers: frozenset[int] | None
    older_than_ms: int
    now_ms: int
    claims: dict[int, list[LedgerRef]]
    open_ledger: Callable[[LedgerRef], LedgerReader]
    progress: Progress | None

    @classmethod
    def of(
        cls,
        store: RawStore,
        catalog: Catalog,
        open_ledger: Callable[[LedgerRef], LedgerReader],
        *,
        managed_ledger: str | None,
        ledgers: Collection[int] | None,
        older_than_s: float,
        progress: Progress | None,
    ) -> "Survey":
        """Take a catalog that was listed just now: nothing is ever decided by what was known of the bucket."""
        return cls(
            store=store,
            catalog=catalog,
            managed_ledger=managed_ledger,
            ledgers=None if ledgers is None else frozenset(ledgers),
            older_than_ms=int(older_than_s * 1000),
            now_ms=int(time.time() * 1000),
            claims=_claims(catalog),
            open_ledger=open_ledger,
            progress=progress,
        )

    def is_meant(self, ledger_id: int | None) -> bool:
        """Whether a ledger is one of those that are looked at."""
        return self.ledgers is None or ledger_id in self.ledgers

    def too_young(self, modified_ms: int) -> str | None:
        """Return why what was last written then is left alone; None where it is old enough."""
        if modified_ms <= 0:
            return "the store does not tell how old it is, so it may still be written"
        age_ms = self.now_ms - modified_ms
        if age_ms < self.older_than_ms:
            return f"it is {_duration(age_ms)} old, and until it is {_duration(self.older_than_ms)} old it may still be written"
        return None

    def copies_of(self, ledger_id: int) -> list[LedgerRef]:
        """Return the complete copies of the ledgers of this id, of whichever topic, for an id that lacks an object or its index."""
        return [ref for ref in self.claims.get(ledger_id, []) if ref.is_sound]

    def index_keys_of(self, ledger_id: int) -> frozenset[str]:
        """Return the keys of all indexes of this id, of whatever topic, that the listing had."""
        lost = (key_of(row) for row in self.catalog.lost if int(row["ledger_id"]) == ledger_id)
        bad = (one.key for one in self.catalog.bad_indexes if one.key.ledger_id == ledger_id)
        whole = (ref.index.key for ref in self.catalog.all_of(ledger_id))
        return frozenset([*whole, *(key.index_key for key in (*lost, *bad))])

    def stats_of(self, copy: LedgerRef) -> tuple[ObjectStat, ObjectStat]:
        """Return what the store tells now of both objects of a copy; raises `StaleObjectError` when that is not what was listed."""
        data, index = (self.store.head(stat.key).stat for stat in (copy.data, copy.index))
        if (data.size, index.size) != (copy.data.size, copy.index.size):
            raise StaleObjectError("the object was replaced", key=copy.data.key)
        return data, index

    def has_ledger_of(self, group: LedgerGroup) -> bool:
        """Whether one of the ledgers that a job wrote together is published: then all are to be."""
        return bool((self.catalog.ledgers["uuid_high"] >> np.uint64(16) == int(group.digits, 16)).any())

    def say(self, what: str, done: int, total: int | None) -> None:
        """Tell how far the work is."""
        if self.progress is not None:
            self.progress(what, done, total)


def _claims(catalog: Catalog) -> dict[int, list[LedgerRef]]:
    bad = [index.key.ledger_id for index in catalog.bad_indexes]
    ids = np.concatenate([catalog.orphans["ledger_id"], catalog.lost["ledger_id"], np.array(bad, np.int64)])
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
