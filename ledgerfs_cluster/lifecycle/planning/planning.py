"""Make the plan of a cluster: topic by topic, then orphans. Reads and changes nothing."""

from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_of
from ledgerfs_cluster.lifecycle.planning.actions import Plan, Reason, Refusal, Situation
from ledgerfs_cluster.lifecycle.planning.offloading import plan_offloads
from ledgerfs_cluster.lifecycle.planning.records import plan_attempts, plan_deletions
from ledgerfs_cluster.lifecycle.planning.topic_views import ClusterView
from ledgerfs_cluster.lifecycle.planning.trimming import leaving_ids, past_retention, plan_trim
from ledgerfs_cluster.lifecycle.policy.topic_rules import without_topics
from ledgerfs_cluster.snapshot.survey import Survey


def plan_of(survey: Survey, situation: Situation) -> Plan:
    """Return the work on a cluster that is due now, that waits, and that is refused, in the order of display."""
    plan = Plan(situation.now_ms)
    cluster = ClusterView(survey, situation.file)
    for topic in cluster.topics():
        trim = past_retention(cluster, topic, situation)
        via = plan_offloads(plan, cluster, topic, situation, leaving_ids(topic, trim))
        plan_trim(plan, cluster, topic, situation, trim, via)
    _refuse_unreadable(plan, cluster, situation)
    for one in without_topics(situation.file, survey.topics):
        why = "no topic uses this rule: the pattern is misspelt, its topics do not exist yet, or an earlier rule matches them all"
        plan.refuse(None, f"[[topics]] match = {one.match.pattern!r}", Reason(Refusal.NO_TOPIC, why))
    plan_deletions(plan, cluster, situation)
    plan_attempts(plan, cluster, situation)
    return plan.in_order()


def plan_deletions_again(survey: Survey, situation: Situation) -> Plan:
    """Return the deletions of `plan_of`, by the same rules, from a snapshot taken right before they are carried out."""
    plan = Plan(situation.now_ms)
    plan_deletions(plan, ClusterView(survey, situation.file), situation)
    return plan


def _refuse_unreadable(plan: Plan, cluster: ClusterView, situation: Situation) -> None:
    """Refuse work on each node, and each bucket, that could not be read."""
    for one in cluster.survey.damaged:
        plan.refuse(None, managed_ledger_of(one.path) or one.path, Reason(Refusal.UNREADABLE, one.reason))
    for path, reason in situation.journal.unreadable.items():
        plan.refuse(None, path, Reason(Refusal.UNREADABLE, reason))
    for url, reason in ({} if situation.orphans is None else situation.orphans.unlisted).items():
        why = f"no orphans are searched or deleted in this bucket, since it cannot be listed: {reason}"
        plan.refuse(None, url, Reason(Refusal.UNREADABLE, why))
