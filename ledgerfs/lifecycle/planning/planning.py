"""Making the plan of a cluster: topic by topic, then what is noted of work that began. Nothing is read here, and nothing changed."""

from ledgerfs.clusters.survey import Survey
from ledgerfs.formats.managed_ledgers.names import managed_ledger_of
from ledgerfs.lifecycle.journal.trash_line import TrashKind
from ledgerfs.lifecycle.planning.actions import Plan, Reason, Refusal
from ledgerfs.lifecycle.planning.cleaning import plan_attempts, plan_contexts
from ledgerfs.lifecycle.planning.deletions import Deletions, Proposal
from ledgerfs.lifecycle.planning.offloading import plan_offloads
from ledgerfs.lifecycle.planning.orphaned import orphan_lines
from ledgerfs.lifecycle.planning.situation import Situation
from ledgerfs.lifecycle.planning.topic_views import ClusterView
from ledgerfs.lifecycle.planning.trash import TrashPlanner
from ledgerfs.lifecycle.policy.topic_rules import without_topics


def plan_of(survey: Survey, situation: Situation) -> Plan:
    """Return what is to be done with a cluster now, what waits, and what must not be done, in the order in which it is shown."""
    plan = Plan.empty(situation.now_ms)
    cluster = ClusterView(survey, situation.file)
    deletions = Deletions(plan, cluster, situation)
    # What is to be trimmed is left alone by all else.
    noted = {line.ledger_id for line in situation.notes.lines if line.kind is TrashKind.TRIMMED}
    wanted: list[Proposal] = []
    for topic in cluster.topics():
        if not situation.is_wanted(topic.name):
            continue
        found = deletions.of(topic)
        wanted += found.lines
        leaving = {*found.leaving, *noted.intersection(topic.ledgers.ids.tolist())}
        offloaded = plan_offloads(plan, cluster, topic, situation, leaving)
        plan_contexts(plan, cluster, topic, situation, {*offloaded, *leaving})
    _refuse_unreadable(plan, cluster, situation)
    for one in without_topics(situation.file, survey.topics):
        why = "no topic of the cluster comes to it: it is misspelt, or for topics to come, or all are those of an earlier one"
        plan.refuse(None, f"[[topics]] match = {one.match.pattern!r}", Reason(Refusal.NO_TOPIC, why))
    wanted += orphan_lines(plan, cluster, situation)
    TrashPlanner(plan, cluster, situation, wanted).add()
    plan_attempts(plan, cluster, situation)
    return plan.in_order()


def _refuse_unreadable(plan: Plan, cluster: ClusterView, situation: Situation) -> None:
    """Say of each node, and each bucket, that could not be read that nothing is done with what it is about."""
    for one in cluster.survey.damaged:
        name = managed_ledger_of(one.path)
        if name is None or situation.is_wanted(name):
            plan.refuse(None, name or one.path, Reason(Refusal.UNREADABLE, one.reason))
    for path, reason in situation.notes.unreadable.items():
        plan.refuse(None, path, Reason(Refusal.UNREADABLE, reason))
    for url, reason in ({} if situation.orphans is None else situation.orphans.unlisted).items():
        why = f"nobody could look for orphans there, and nothing that was marked there is deleted: {reason}"
        plan.refuse(None, url, Reason(Refusal.UNREADABLE, why))
