"""What attempts to offload have left that failed: objects that no list names, and contexts that are not complete."""

from collections.abc import Collection

import numpy as np

from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.tiered_objects import uuid_text
from ledgerfs.display import span
from ledgerfs.lifecycle.planning.actions import Action, ActionKind, AttemptNote, Plan, Reason, Refusal, Waiting
from ledgerfs.lifecycle.planning.routes import direct_route
from ledgerfs.lifecycle.planning.situation import Situation
from ledgerfs.lifecycle.planning.topic_views import ClusterView, TopicView
from ledgerfs.lifecycle.policy.policy_file import Via

_CLEAN = ActionKind.CLEAN


def plan_attempts(plan: Plan, cluster: ClusterView, situation: Situation) -> None:
    """Add the cleaning up of attempts that are noted, and whose objects no list names."""
    for one in situation.notes.attempts:
        if not situation.is_wanted(one.managed_ledger):
            continue
        ids, age_ms = (one.ledger_id,), situation.now_ms - one.began_ms
        if one.managed_ledger in cluster.damaged_lists:
            reason = Reason(
                Refusal.UNREADABLE, f"whether its list names offload {one.uuid} is not known: it could not be read"
            )
            plan.refuse(_CLEAN, one.managed_ledger, reason, ids)
        elif cluster.names_offload(one.ledger_id, one.uuid):
            reason = Reason(
                Refusal.NAMED, f"its list names offload {one.uuid}, whose attempt is noted as one that has not ended"
            )
            plan.refuse(_CLEAN, one.managed_ledger, reason, ids)
        elif age_ms < situation.attempt_grace_ms:
            due_ms = one.began_ms + situation.attempt_grace_ms
            why = f"an attempt to offload ledger {one.ledger_id} began {span(max(0, age_ms))} ago, and may go on"
            plan.waiting.append(Waiting(_CLEAN, one.managed_ledger, ids, 0, due_ms, why))
        else:
            _clean(plan, one, age_ms)


def plan_contexts(
    plan: Plan, cluster: ClusterView, topic: TopicView, situation: Situation, busy: Collection[int]
) -> None:
    """Add the cleaning up of contexts of a topic that are not complete, without those of ledgers that something else is done with."""
    listed = topic.listed
    is_unfinished = (
        listed["has_context"] & ~listed["is_complete"] & ((listed["uuid_high"] != 0) | (listed["uuid_low"] != 0))
    )
    # The line of the greatest id is a broker's, which makes it anew without a context.
    is_unfinished &= listed["ledger_id"] != topic.greatest
    is_unfinished &= ~np.isin(listed["ledger_id"], list(busy))
    rows: list[int] = np.flatnonzero(is_unfinished).tolist()
    if not rows or topic.is_of_brokers or topic.owner is Owner.SOME:
        # With a broker it goes on, or the broker's next attempt cleans up after it.
        return
    due_ms = topic.changed_ms + situation.file.orphan_grace_ms
    if situation.now_ms < due_ms:
        why = f"the list has attempts that are not complete, and changed {span(situation.now_ms - topic.changed_ms)} ago: they may go on"
        plan.waiting.append(Waiting(_CLEAN, topic.name, topic.ids(rows), topic.size(rows), due_ms, why))
        return
    route = direct_route(cluster, topic, deletes=True)
    if not isinstance(route, Reason) and topic.is_being_deleted:
        route = Reason(Refusal.BEING_DELETED, "its namespace is being deleted")
    lost = [row for row in rows if cluster.places.url(int(listed["driver"][row])) is None]
    if not isinstance(route, Reason) and lost:
        which = topic.ids(lost)[0]
        route = Reason(
            Refusal.NO_BUCKET, f"no bucket of the policy file has the objects of an attempt to offload ledger {which}"
        )
    if isinstance(route, Reason):
        plan.refuse(_CLEAN, topic.name, route, topic.ids(rows), topic.size(rows))
        return
    gone = [row for row in rows if not topic.is_there[row] or listed["is_deleted_from_bookkeeper"][row]]
    if gone:
        why = (
            "BookKeeper does not have ledgers with attempts that are not complete: what these left may be the only copy"
        )
        plan.refuse(_CLEAN, topic.name, Reason(Refusal.LOST, why), topic.ids(gone), topic.size(gone))
        rows = [row for row in rows if row not in gone]
        if not rows:
            return
    contexts = tuple((int(listed["ledger_id"][row]), uuid_text(listed[row])) for row in rows)
    since = span(situation.now_ms - topic.changed_ms)
    why = f"{len(rows):,} attempts to offload are not complete, no broker has the topic, and its list has not changed for {since}"
    plan.actions.append(
        Action(_CLEAN, topic.name, topic.ids(rows), 0, Via.DIRECT, due_ms, why, topic.rule, contexts=contexts)
    )


def _clean(plan: Plan, one: AttemptNote, age_ms: int) -> None:
    why = f"the attempt to offload ledger {one.ledger_id} that began {span(max(0, age_ms))} ago did not end, and no list names its objects"
    plan.actions.append(
        Action(_CLEAN, one.managed_ledger, (one.ledger_id,), 0, Via.DIRECT, one.began_ms, why, attempts=(one,))
    )
