"""Plan due offloads by the thresholds of the topic's rule; `ledgerfs_cluster.rules.offload_thresholds` has the thresholds' rule."""

from collections.abc import Collection, Iterable, Iterator

from ledgerfs.display import human_size, span
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind, Plan, Reason, Refusal, Situation
from ledgerfs_cluster.lifecycle.planning.topic_views import (
    ClusterView,
    Route,
    TopicView,
    refuse,
    route_of,
)
from ledgerfs_cluster.lifecycle.policy.policy_file import Via
from ledgerfs_cluster.offload.candidates import why_not_readable
from ledgerfs_cluster.rules.offload_thresholds import chosen_of

_OFFLOAD = ActionKind.OFFLOAD
_WHOSE = {True: "the policy file", False: "the cluster's policies"}


def plan_offloads(
    plan: Plan, cluster: ClusterView, topic: TopicView, situation: Situation, leaving: Collection[int]
) -> Via | None:
    """Add a topic's due offloads, without ids that are ``leaving`` it; return who does them, None without any."""
    if not topic.rule.offload:
        return None
    chosen = chosen_of(topic.ledgers, topic.rule.thresholds, situation.now_ms)
    rows = list(_due_rows(plan, topic, chosen.tolist(), leaving))
    if not rows:
        return None
    via = _route(cluster, topic, situation)
    if isinstance(via, Reason):
        refuse(plan, _OFFLOAD, topic, via, rows)
        return None
    if via is Via.DIRECT:
        rows = [row for row in rows if _is_readable(plan, cluster, topic, row)]
    if not rows:
        return None
    ids = topic.ids(rows)
    since = int(topic.ledgers.closed_ms[rows[0]])
    why = why_due(topic, rows, situation.now_ms)
    plan.actions.append(Action(_OFFLOAD, topic.name, ids, topic.size(rows), via, since, why, topic.rule))
    return via


def why_due(topic: TopicView, rows: list[int], now_ms: int) -> str:
    """Return the reason why the oldest of some ledgers is due, with numbers."""
    thresholds, ledgers, first = topic.rule.thresholds, topic.ledgers, rows[0]
    age = now_ms - int(ledgers.closed_ms[first])
    if thresholds.time_ms >= 0 and age >= thresholds.time_ms:
        limit = f"{span(thresholds.time_ms)} by {_WHOSE[topic.rule.is_time_the_files]}"
        return f"ledger {ledgers.ids[first]} was closed {span(age)} ago, and the limit is {limit}"
    is_closed = ledgers.closed_ms != 0
    is_closed[:first] = False
    size = human_size(int(ledgers.sizes[is_closed].sum()))
    limit = f"{human_size(thresholds.size)} by {_WHOSE[topic.rule.is_size_the_files]}"
    return f"the closed ledgers from {ledgers.ids[first]} on have {size}, and the limit is {limit}"


def _route(cluster: ClusterView, topic: TopicView, situation: Situation) -> Route:
    """Return whether a broker or this program offloads a topic's due ledgers, or the reason against both."""
    if not (topic.are_policies_known or topic.rule.are_thresholds_the_files):
        why = (
            "its offload thresholds are unknown: its namespace policies or topic policies could not be read, "
            "or are not in this ZooKeeper"
        )
        return Reason(Refusal.UNKNOWN_POLICIES, why)
    via = route_of(cluster, topic, has_admin=situation.has_admin)
    if via is Via.DIRECT and topic.rule.bucket is None:
        why = "it has no bucket: the policy file sets none for it, and the cluster's policies have no bucket of the policy file"
        return Reason(Refusal.NO_BUCKET, why)
    theirs, ours = topic.rule.brokers_bucket, topic.rule.bucket
    if via is Via.BROKER and topic.rule.is_bucket_the_files and theirs and ours and theirs != ours:
        why = f"by the cluster's policies brokers offload it to bucket {theirs.name}, but the policy file sets bucket {ours.name}"
        return Reason(Refusal.OTHER_BUCKET, why)
    return via


def _due_rows(plan: Plan, topic: TopicView, chosen: Iterable[int], leaving: Collection[int]) -> Iterator[int]:
    """Yield the chosen rows that have entries, and stay."""
    for row in chosen:
        ledger_id = int(topic.ledgers.ids[row])
        if ledger_id == topic.greatest:
            why = f"ledger {ledger_id} is the last one in the ledger list: a broker that loads the topic writes its record again"
            refuse(plan, _OFFLOAD, topic, Reason(Refusal.GREATEST, why), [row])
        elif ledger_id not in leaving and topic.ledgers.entries[row] > 0:
            yield row


def _is_readable(plan: Plan, cluster: ClusterView, topic: TopicView, row: int) -> bool:
    """Return whether BookKeeper has the ledger closed, as in the list, and no other list names it; refuse it otherwise."""
    ledger_id, node = int(topic.ledgers.ids[row]), topic.nodes[row]
    listed = int(topic.ledgers.entries[row]), int(topic.ledgers.sizes[row])
    is_closed = bool(node["state"] == LedgerState.CLOSED)
    if cluster.is_shared(ledger_id):
        found = Refusal.SHARED, f"several ledger lists contain ledger {ledger_id}"
    elif not topic.is_there[row] and ledger_id in cluster.survey.damaged_ledgers:
        found = Refusal.UNREADABLE, f"BookKeeper's metadata of ledger {ledger_id} could not be read"
    elif not topic.is_there[row]:
        found = Refusal.LOST, f"BookKeeper lacks ledger {ledger_id}, and no complete offload of it exists"
    else:
        entries, length = int(node["last_entry"]) + 1, int(node["length"])
        why = why_not_readable(listed, entries, length, is_closed=is_closed)
        if why is None:
            return True
        found = Refusal.DIFFERENT if is_closed else Refusal.NOT_CLOSED, f"ledger {ledger_id}: {why}"
    refuse(plan, _OFFLOAD, topic, Reason(*found), [row])
    return False
