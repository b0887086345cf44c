"""Read a cluster for a plan: a snapshot, the journal, and orphans if the policy wants them deleted."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.check.check import Looks, Rules, look_twice
from ledgerfs_cluster.check.suspects import TierSuspects
from ledgerfs_cluster.check.tier_findings import LeftOut, orphan_pairs
from ledgerfs_cluster.check.tier_listing import Tier
from ledgerfs_cluster.lifecycle.planning.actions import Orphans
from ledgerfs_cluster.lifecycle.planning.orphans import OrphanOffload, orphan_ledgers
from ledgerfs_cluster.lifecycle.policy.policy_file import PolicyFile
from ledgerfs_cluster.offload.journal import Journal, read_journal
from ledgerfs_cluster.rules.tiered_objects import uuid_text
from ledgerfs_cluster.snapshot.answers import BookieReads
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.surveying import Progress, survey_cluster
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

PASS_S = 5.0
"""Seconds between two checks for orphans."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The state of a cluster.

    Attributes
    ----------
    orphans
        None if the policy wants none deleted.

    """

    survey: Survey
    journal: Journal
    orphans: Orphans | None


@dataclass(frozen=True, slots=True)
class Looking:
    """Options for reading a cluster.

    Attributes
    ----------
    bookies
        None to ask ZooKeeper alone.
    pass_s
        Seconds between two checks for orphans.

    """

    cluster: LivingCluster
    file: PolicyFile
    bookies: BookieReads | None
    pass_s: float = PASS_S

    def look(self, progress: Progress) -> Looked:
        """Take a snapshot; check for orphans twice, if the policy file wants these deleted. An unreachable bucket stops nothing else.

        Raises as `ledgerfs_cluster.snapshot.surveying.survey_cluster`.
        """
        # One request; a plan must not use data from before this iteration, whose own changes it would lack.
        self.cluster.nodes.catch_up()
        orphans = None
        if self.file.orphans:
            unlisted: dict[str, str] = {}
            tiers, rules = _tiers_of(self.file, unlisted), Rules(self.file.orphan_grace_ms, self.pass_s)
            looks = look_twice(self.cluster, self.bookies, tiers, rules, progress, unlisted=unlisted)
            survey, orphans = looks.survey, orphans_of(looks, unlisted)
        else:
            survey = survey_cluster(self.cluster, self.bookies, progress)
        # After the lists: the record of an attempt is deleted by the commit that sets its list.
        journal = read_journal(self.cluster.nodes)
        return Looked(survey, journal, orphans)


def _tiers_of(file: PolicyFile, unlisted: dict[str, str]) -> Sequence[Tier]:
    """Return the buckets of a policy file, to be listed; adds those that cannot be opened to ``unlisted``."""
    tiers = []
    for one in file.buckets.values():
        try:
            bucket = open_bucket(one.url, one.storage_options)
        except LedgerfsError as error:
            unlisted[one.url] = error.reason
        else:
            tiers.append(Tier(bucket, frozenset({one.bucket}), one.endpoint or None))
    return tiers


def orphans_of(looks: Looks, unlisted: dict[str, str]) -> Orphans:
    """Return the orphans of two checks of a cluster and its buckets; omits objects without their cluster's name.

    ``unlisted`` has {URL: reason} of buckets that could not be listed; adds those whose objects' metadata could not be read.
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
    for row, reported, is_known in orphan_pairs(survey, tier, found, LeftOut()):
        if reported.cluster is None:
            # If several clusters use the bucket, it may be another one's.
            continue
        yield OrphanOffload(
            int(row["ledger_id"]),
            uuid_text(row),
            found.objects.url,
            reported.managed_ledger,
            is_known,
            sum(max(0, int(row[name])) for name in ("data_size", "index_size")),
            int(row["modified_ms"]),
            int(row["entries"]),
            int(row["length"]),
        )
