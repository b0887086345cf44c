"""Looking at a cluster for a plan: a survey, what is noted, and orphans where the policy wants them deleted."""

from collections.abc import Sequence
from dataclasses import dataclass

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.clusters.answers import BookieReads
from ledgerfs.clusters.asked_brokers import BrokerRequests, ask_brokers
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.surveying import Progress, survey_cluster
from ledgerfs.lifecycle.journal.reading import Journal, read_journal
from ledgerfs.lifecycle.planning.orphan_search import orphans_of
from ledgerfs.lifecycle.planning.situation import Notes, Orphans, Situation
from ledgerfs.lifecycle.policy.policy_file import PolicyFile
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster
from ledgerfs.upkeep.doctor.check import Rules, look_twice
from ledgerfs.upkeep.doctor.tier_listing import Tier

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

    def situation(
        self, file: PolicyFile, now_ms: int, noted_ms: int, *, has_admin: bool, attempt_grace_ms: int = 0
    ) -> Situation:
        """Return what a plan is made for."""
        notes = Notes(self.journal.lines, self.journal.attempts, self.journal.unreadable)
        return Situation(
            file,
            now_ms,
            noted_ms,
            has_admin=has_admin,
            notes=notes,
            orphans=self.orphans,
            attempt_grace_ms=attempt_grace_ms,
        )


@dataclass(frozen=True, slots=True)
class Looking:
    """How a cluster is looked at.

    Attributes
    ----------
    bookies
        None to ask ZooKeeper alone.
    brokers
        Are asked for their bundles where ZooKeeper does not have these; None if none is known.
    pass_s
        Between two looks for orphans.

    """

    cluster: LivingCluster
    file: PolicyFile
    bookies: BookieReads | None
    brokers: BrokerRequests | None
    pass_s: float = PASS_S

    def look(self, progress: Progress) -> Looked:
        """Look; raises as `ledgerfs.clusters.surveying.survey_cluster`, and the errors of listing buckets."""
        ttl_ms = self.file.broker.ttl_ms
        orphans = None
        if self.file.orphans:
            tiers = tiers_of(self.file)
            rules = Rules(self.file.orphan_grace_ms, self.pass_s, ttl_ms)
            looks = look_twice(self.cluster, self.bookies, tiers, rules, progress)
            survey, orphans = looks.survey, orphans_of(looks, tiers)
        else:
            survey = survey_cluster(self.cluster, self.bookies, progress, broker_ttl_ms=ttl_ms)
        # Behind the lists: a line is written before its list is changed.
        journal = read_journal(self.cluster.nodes)
        return Looked(survey if self.brokers is None else ask_brokers(survey, self.brokers), journal, orphans)


def tiers_of(file: PolicyFile) -> Sequence[Tier]:
    """Return the buckets of a policy file, to be listed."""
    return [
        Tier(open_bucket(one.url, one.storage_options), frozenset({one.bucket}), one.endpoint or None)
        for one in file.buckets.values()
    ]
