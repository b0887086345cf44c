"""Looking at a cluster for a plan: a survey, what is noted, and orphans where the policy wants them deleted."""

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
"""Between two looks for orphans."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What was seen of a cluster.

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
    """How a cluster is looked at.

    Attributes
    ----------
    bookies
        None to ask ZooKeeper alone.
    pass_s
        Between two looks for orphans.

    """

    cluster: LivingCluster
    file: PolicyFile
    bookies: BookieReads | None
    pass_s: float = PASS_S

    def look(self, progress: Progress) -> Looked:
        """Look; for orphans twice, if the policy file wants these deleted. A bucket that does not answer keeps nothing else back.

        Raises as `ledgerfs_cluster.snapshot.surveying.survey_cluster`.
        """
        # One request; whatever is older than this pass, like what the pass before has done, is no ground for a plan.
        self.cluster.nodes.catch_up()
        orphans = None
        if self.file.orphans:
            unlisted: dict[str, str] = {}
            tiers, rules = _tiers_of(self.file, unlisted), Rules(self.file.orphan_grace_ms, self.pass_s)
            looks = look_twice(self.cluster, self.bookies, tiers, rules, progress, unlisted=unlisted)
            survey, orphans = looks.survey, orphans_of(looks, unlisted)
        else:
            survey = survey_cluster(self.cluster, self.bookies, progress)
        # Behind the lists: the record of an attempt goes with the commit that sets its list.
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
