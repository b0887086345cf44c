"""Lines for what nobody names: only what two looks are sure of, and only of topics that this cluster has."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.clusters.ownership import is_in, named_ledgers
from ledgerfs.display import span
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState
from ledgerfs.lifecycle.planning.actions import ActionKind, Plan, Reason, Refusal
from ledgerfs.lifecycle.planning.deletions import Proposal
from ledgerfs.lifecycle.planning.leftovers import OrphanLedger, OrphanOffload
from ledgerfs.lifecycle.planning.routes import direct_route
from ledgerfs.lifecycle.planning.situation import Situation
from ledgerfs.lifecycle.planning.topic_views import ClusterView

_MARK = ActionKind.MARK
_ELSEWHERE = "this cluster has no such topic: it was deleted, or another cluster has the same BookKeeper or bucket"


def orphan_lines(plan: Plan, cluster: ClusterView, situation: Situation) -> Iterator[Proposal]:
    """Yield lines for orphans, if the policy file wants them deleted; adds to ``plan`` what must stay."""
    if situation.orphans is None or not situation.file.orphans:
        return
    named = named_ledgers(cluster.survey)
    for one in situation.orphans.ledgers:
        is_named = bool(is_in(np.array([one.ledger_id], np.int64), named)[0])
        if situation.is_wanted(one.managed_ledger) and not is_named:
            yield from _of_ledger(plan, cluster, situation, one)
    # An attempt that goes on has objects before a list names them; those of others are cleaned up after by their notes.
    noted = {(one.ledger_id, one.uuid) for one in situation.notes.attempts}
    for offload in situation.orphans.offloads:
        is_named = cluster.names_offload(offload.ledger_id, offload.uuid)
        is_named |= (offload.ledger_id, offload.uuid) in noted
        if situation.is_wanted(offload.managed_ledger) and not is_named:
            yield from _of_objects(plan, cluster, situation, offload)


def _of_ledger(plan: Plan, cluster: ClusterView, situation: Situation, one: OrphanLedger) -> Iterator[Proposal]:
    reason = _why_kept(cluster, one)
    if reason is not None:
        plan.refuse(_MARK, one.managed_ledger or f"ledger {one.ledger_id}", reason, (one.ledger_id,), one.size)
        return
    ago = span(max(0, situation.now_ms - one.changed_ms))
    state = "" if one.is_closed else "it was never closed, "
    why = f"nothing names it, {state}it was made for {one.component} {one.owner}, and it was changed last {ago} ago"
    line = TrashLine(
        *(TrashKind.ORPHAN, one.ledger_id, one.managed_ledger, None, None, why[:4000], one.version, one.size),
        *_times(situation),
        TrashState.MARKED,
    )
    yield Proposal(line, one.changed_ms)


def _why_kept(cluster: ClusterView, one: OrphanLedger) -> Reason | None:
    """Return why a ledger must stay; None if it may be marked."""
    if not one.is_closed and (reason := _why_open_one_is_kept(cluster, one)) is not None:
        return reason
    if not one.is_known:
        return Reason(Refusal.ANOTHER_CLUSTERS, f"ledger {one.ledger_id} was made for {one.owner}; {_ELSEWHERE}")
    if one.managed_ledger is not None and one.size and not cluster.has_ledgers(one.managed_ledger):
        why = f"ledger {one.ledger_id} was made for {one.owner}, whose list is empty: it was lost"
        return Reason(Refusal.LOST_LIST, why)
    return None


def _why_open_one_is_kept(cluster: ClusterView, one: OrphanLedger) -> Reason | None:
    """Return why a ledger that is not closed must stay.

    Of a topic with a list it can be made sure that no broker lists it any more; a subscription's node is another matter.
    """
    topic = None if one.managed_ledger is None or one.has_states else cluster.topic(one.managed_ledger)
    if topic is None or topic.is_of_brokers:
        why = f"ledger {one.ledger_id}, which nothing names, is not closed: a writer may live"
        return Reason(Refusal.NOT_CLOSED, why)
    route = direct_route(cluster, topic, deletes=True)
    return route if isinstance(route, Reason) else None


def _of_objects(plan: Plan, cluster: ClusterView, situation: Situation, one: OrphanOffload) -> Iterator[Proposal]:
    if not one.is_known:
        reason = Reason(Refusal.ANOTHER_CLUSTERS, f"objects of offload {one.uuid} in {one.bucket}: {_ELSEWHERE}")
        plan.refuse(_MARK, one.managed_ledger or f"ledger {one.ledger_id}", reason, (one.ledger_id,), one.size)
        return
    if one.managed_ledger is not None and not cluster.has_its_offloads_at(one.managed_ledger, one.bucket):
        why = f"objects of offload {one.uuid} in {one.bucket}, to which {one.managed_ledger} is not offloaded: they may be a backup"
        plan.refuse(_MARK, one.managed_ledger, Reason(Refusal.BACKUP, why), (one.ledger_id,), one.size)
        return
    ago = span(max(0, situation.now_ms - one.modified_ms))
    why = f"no list names this offload in {one.bucket}, whose objects are {ago} old"
    line = TrashLine(
        *(TrashKind.OBJECTS, one.ledger_id, one.managed_ledger, one.uuid, one.bucket, why, -1, one.size),
        *_times(situation),
        TrashState.MARKED,
    )
    yield Proposal(line, one.modified_ms)


def _times(situation: Situation) -> tuple[int, int]:
    return situation.noted_ms, situation.noted_ms + situation.file.trash_grace_ms
