"""What two looks of the doctor are sure that nobody names, as values for a plan."""

from collections.abc import Iterator
from dataclasses import replace

from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.tiered_objects import uuid_text
from ledgerfs.errors import LedgerfsError
from ledgerfs.lifecycle.planning.leftovers import OrphanOffload, orphan_ledgers
from ledgerfs.lifecycle.planning.situation import Orphans
from ledgerfs.upkeep.doctor.check import Looks
from ledgerfs.upkeep.doctor.suspects import TierSuspects
from ledgerfs.upkeep.doctor.tier_findings import LeftOut, orphan_pairs
from ledgerfs.upkeep.doctor.tier_listing import Tier


def orphans_of(looks: Looks, unlisted: dict[str, str]) -> Orphans:
    """Return the orphans of two looks at a cluster and its buckets; objects that do not tell their cluster are left out.

    ``unlisted`` has {URL: why} of buckets that could not be listed, and gets those whose objects could not be asked whose they are.
    """
    if looks.second is None:
        return Orphans(unlisted=unlisted)
    sure = looks.sure
    survey, offloads = replace(sure.survey, clusters=looks.survey.clusters), list[OrphanOffload]()
    for tier, found in zip(looks.tiers, sure.tiers, strict=True):
        try:
            offloads += list(_offloads(survey, tier, found))
        except LedgerfsError as error:
            unlisted[found.objects.url] = error.reason
    return Orphans(tuple(orphan_ledgers(sure.survey, sure.unnamed.rows)), tuple(offloads), unlisted)


def _offloads(survey: Survey, tier: Tier, found: TierSuspects) -> Iterator[OrphanOffload]:
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
            int(row["entries"]),
            int(row["length"]),
        )
