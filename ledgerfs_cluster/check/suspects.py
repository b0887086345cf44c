"""Suspects of one check of a cluster and its buckets, and those that a second check confirms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.rules.gone import gone_ledgers
from ledgerfs_cluster.rules.loss import lost_ledgers, missing_bookies, unequal_ledgers
from ledgerfs_cluster.rules.orphans import Unnamed, flagged_ledgers, unnamed_ledgers
from ledgerfs_cluster.rules.ownership import is_in
from ledgerfs_cluster.rules.tiered_objects import (
    TieredObjects,
    are_in,
    completely_offloaded,
    pair_keys,
    unnamed_pairs,
    with_broken_objects,
    without_objects,
)
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.tables import Table


@dataclass(frozen=True, slots=True)
class TierSuspects:
    """Suspect objects of one bucket.

    Attributes
    ----------
    objects
        The listing.
    unnamed
        Rows of `PAIR` that no ledger list names.
    young
        Number of further ones that are too young, or of unknown age.
    former
        Number of further ones with ids from before a restore into the cluster.
    offloaded
        Rows of `LISTED` that are in this bucket.
    missing
        Those of which an object is missing.
    broken, reasons
        Those whose objects do not match the ledger, and the reasons.

    """

    objects: TieredObjects
    unnamed: Table
    young: int
    former: int
    offloaded: Table
    missing: Table
    broken: Table
    reasons: tuple[str, ...]

    def confirmed(self, before: "TierSuspects") -> "TierSuspects":
        """Return the suspects that an earlier check found, too."""
        is_broken = np.isin(pair_keys(self.broken), pair_keys(before.broken))
        return replace(
            self,
            unnamed=_also_in(self.unnamed, before.unnamed),
            missing=_also_in(self.missing, before.missing),
            broken=self.broken[is_broken],
            reasons=tuple(why for why, also in zip(self.reasons, is_broken.tolist(), strict=True) if also),
        )


@dataclass(frozen=True, slots=True)
class Suspects:
    """Suspects of a cluster.

    Attributes
    ----------
    unnamed
        Ledgers without a reference.
    flagged
        Rows of `LISTED` that are marked as deleted from BookKeeper but exist; ``flagged_young`` more are of lists that changed lately.
    lost
        Rows of `LISTED` that are neither in BookKeeper nor offloaded.
    unequal
        Rows of `LISTED` for which BookKeeper has another end.
    gone
        Rows of `GONE`: missing ledgers that something other than a ledger list refers to.
    missing_bookies
        Unavailable bookies of ensembles.
    tiers
        Suspects of each bucket.

    """

    survey: Survey
    unnamed: Unnamed
    flagged: Table
    flagged_young: int
    lost: Table
    unequal: Table
    gone: Table
    missing_bookies: frozenset[str]
    tiers: tuple[TierSuspects, ...]

    @property
    def are_none(self) -> bool:
        """Whether nothing is suspect: then a second check is not needed."""
        return not (self.ledger_ids.size or self.missing_bookies or self.are_in_tiers)

    @property
    def are_in_tiers(self) -> bool:
        """Whether a bucket has suspects."""
        return any(one.unnamed.size or one.missing.size or one.broken.size for one in self.tiers)

    @property
    def ledger_ids(self) -> Int64:
        """Ids of the suspect ledgers, sorted."""
        found = (self.unnamed.rows, self.flagged, self.lost, self.unequal, self.gone)
        return reduce(np.union1d, (one["ledger_id"] for one in found))

    def confirmed(self, before: "Suspects") -> "Suspects":
        """Return the suspects that an earlier check found, too."""
        return replace(
            self,
            unnamed=replace(self.unnamed, rows=_ids_also_in(self.unnamed.rows, before.unnamed.rows)),
            flagged=_ids_also_in(self.flagged, before.flagged),
            lost=_ids_also_in(self.lost, before.lost),
            unequal=_ids_also_in(self.unequal, before.unequal),
            gone=_ids_also_in(self.gone, before.gone),
            missing_bookies=before.missing_bookies - self.survey.bookies,
            tiers=tuple(now.confirmed(then) for now, then in zip(self.tiers, before.tiers, strict=True)),
        )


def suspects_of(
    survey: Survey, listings: Sequence[TieredObjects], now_ms: int, grace_ms: int, *, former_ids: int = 0
) -> Suspects:
    """Return the suspects of a snapshot and of listings of buckets from before it.

    ``former_ids`` is the result of `ledgerfs_cluster.snapshot.next_ids.end_of_former_ids`.
    """
    flagged, flagged_young = flagged_ledgers(survey, now_ms, grace_ms)
    return Suspects(
        survey,
        unnamed_ledgers(survey, now_ms, grace_ms),
        flagged,
        flagged_young,
        lost_ledgers(survey),
        unequal_ledgers(survey),
        gone_ledgers(survey),
        missing_bookies(survey),
        tuple(_in_tier(survey, one, now_ms, grace_ms, former_ids) for one in listings),
    )


def _in_tier(survey: Survey, objects: TieredObjects, now_ms: int, grace_ms: int, former_ids: int) -> TierSuspects:
    complete = completely_offloaded(survey)
    offloaded = complete[are_in(survey, complete, objects)]
    unnamed = unnamed_pairs(survey, objects, now_ms, grace_ms, former_ids)
    broken = with_broken_objects(offloaded, objects)
    rows = np.array([row for row, _ in broken], offloaded.dtype)
    reasons = tuple(why for _, why in broken)
    return TierSuspects(objects, *unnamed, offloaded, without_objects(offloaded, objects), rows, reasons)


def _also_in(rows: Table, others: Table) -> Table:
    found: Table = rows[np.isin(pair_keys(rows), pair_keys(others))]
    return found


def _ids_also_in(rows: Table, others: Table) -> Table:
    found: Table = rows[is_in(rows["ledger_id"], np.sort(others["ledger_id"]))]
    return found
