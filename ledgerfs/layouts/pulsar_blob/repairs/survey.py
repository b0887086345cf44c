"""The input of all parts of a plan: the new catalog of a bucket, the user's options, and the time."""

from dataclasses import dataclass, field, fields

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.fragments import Unreadable
from ledgerfs.catalog.layout import RepairRequest
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import CorruptObjectError, StaleObjectError
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs.layouts.pulsar_blob.fragments import fragments_of
from ledgerfs.layouts.pulsar_blob.ledger_group import LedgerGroup
from ledgerfs.storage.objects import ObjectStat


@dataclass(frozen=True, slots=True)
class Survey(RepairRequest):
    """A bucket to repair.

    Attributes
    ----------
    claims
        By ledger id, of ledgers with a missing or damaged object: the row of every copy, also without its data object, and of other
        layouts.

    """

    claims: dict[int, list[LedgerRef]] = field(default_factory=dict)

    @classmethod
    def of(cls, request: RepairRequest) -> "Survey":
        """Prepare the request."""
        given = {one.name: getattr(request, one.name) for one in fields(RepairRequest)}
        return cls(**given, claims=_claims(request.catalog))

    def is_meant(self, ledger_id: int | None) -> bool:
        """Whether the user chose this ledger, or all."""
        return self.ledgers is None or ledger_id in self.ledgers

    def too_young(self, modified_ms: int) -> str | None:
        """Return why an object with this modification time is too young to repair; None if it is old enough."""
        if modified_ms <= 0:
            return "the store does not report its age, so its upload may still be running"
        age_ms = self.now_ms - modified_ms
        if age_ms < self.older_than_ms:
            return (
                f"it is {_duration(age_ms)} old, and its upload may run until it is {_duration(self.older_than_ms)} old"
            )
        return None

    def copies_of(self, ledger_id: int) -> list[LedgerRef]:
        """Return the complete copies of this id, of any topic and layout; only for ids with a missing or damaged object."""
        return [ref for ref in self.claims.get(ledger_id, []) if ref.is_sound]

    def why_not_seen(self, copy: LedgerRef) -> str | None:
        """Return why this copy does not justify deleting others; None if it does."""
        if copy.layout in self.layouts:
            return None
        return f"left alone: the complete copy {copy.key} has a layout that is not read here; repair without --layout"

    def stats_of(self, copy: LedgerRef) -> tuple[ObjectStat, ...]:
        """Return the present objects of a copy; raises `StaleObjectError` if they differ from the listed ones."""
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
    ids = np.concatenate([catalog.lost["ledger_id"], np.array(list(fragments_of(catalog).ledger_ids()), np.int64)])
    claims: dict[int, list[LedgerRef]] = {}
    for rows in (catalog.ledgers, catalog.lost):
        for row in np.flatnonzero(np.isin(rows["ledger_id"], ids)).tolist():
            claims.setdefault(int(rows["ledger_id"][row]), []).append(catalog.ref_of(rows[row]))
    return claims


def _duration(milliseconds: int) -> str:
    """Return a time in the unit that fits: ``90 min``."""
    seconds = max(0, milliseconds) / 1000
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def claimants(catalog: Catalog, ledger_id: int) -> frozenset[str]:
    """Return the claims on an id, of any topic: keys of offloaded indexes, and ledgers of other layouts in their present versions.

    Such a ledger may lack its end now and be whole later, so a new version is another claim.
    """
    lost = catalog.lost[catalog.lost["ledger_id"] == ledger_id]
    refs = [*catalog.all_of(ledger_id), *map(catalog.ref_of, lost)]
    offloaded = {ref.object("index").key for ref in refs if ref.layout == NUMBER}
    offloaded |= {one.key.index_key for one in fragments_of(catalog).bad_indexes if one.key.ledger_id == ledger_id}
    others = {f"{ref.key} {ref.version}" for ref in refs if ref.layout != NUMBER}
    return frozenset(offloaded | others | {one.key for one in unknown_ones(catalog, ledger_id)})


def unknown_ones(catalog: Catalog, ledger_id: int) -> list[Unreadable]:
    """Return the objects of an id in other layouts that may be whole but are unreadable: access refused, or an unknown version."""
    others = (fragments for number, fragments in catalog.fragments.items() if number != NUMBER)
    shown = (one for fragments in others for one in fragments.unreadable() if one.ledger_id == ledger_id)
    return [one for one in shown if not isinstance(one.error, CorruptObjectError)]
