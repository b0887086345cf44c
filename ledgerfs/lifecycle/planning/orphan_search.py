"""What two looks of the doctor are sure that nobody names, as values for a plan."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ledgerfs.clusters.tiered_objects import uuid_text
from ledgerfs.lifecycle.planning.leftovers import OrphanOffload, orphan_ledgers
from ledgerfs.lifecycle.planning.situation import Orphans
from ledgerfs.upkeep.doctor.check import Looks
from ledgerfs.upkeep.doctor.tier_findings import LeftOut, orphan_pairs
from ledgerfs.upkeep.doctor.tier_listing import Tier


def orphans_of(looks: Looks, tiers: Sequence[Tier]) -> Orphans:
    """Return the orphans of two looks at a cluster and these buckets; objects that do not tell their cluster are left out."""
    if looks.second is None:
        return Orphans()
    sure = looks.sure
    return Orphans(tuple(orphan_ledgers(sure.survey, sure.unnamed.rows)), tuple(_offloads(looks, tiers)))


def _offloads(looks: Looks, tiers: Sequence[Tier]) -> Iterator[OrphanOffload]:
    sure = looks.sure
    survey = replace(sure.survey, clusters=looks.survey.clusters)
    for tier, found in zip(tiers, sure.tiers, strict=True):
        for row, told, is_known in orphan_pairs(survey, tier, found, LeftOut()):
            if told.cluster is None:
                # If others use the bucket, it may be theirs.
                continue
            yield OrphanOffload(
                int(row["ledger_id"]),
                uuid_text(row),
                found.objects.url,
                told.managed_ledger,
                is_known,
                sum(max(0, int(row[name])) for name in ("data_size", "index_size")),
                int(row["modified_ms"]),
            )
