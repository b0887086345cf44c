"""Plan trims by brokers: ledgers past retention, and BookKeeper's copies of offloaded ledgers past their lag.

ledgerfs removes no listed ledger. A broker that is asked loads the topic, and decides by its own policies; the same rules predict its
result here (`ledgerfs_cluster.rules.retention`), so that no broker is asked in vain.
"""

import numpy as np

from ledgerfs.display import human_size, span
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind, Plan, Reason, Refusal, Situation
from ledgerfs_cluster.lifecycle.planning.topic_views import ClusterView, TopicView, refuse
from ledgerfs_cluster.lifecycle.policy.policy_file import Via
from ledgerfs_cluster.rules.retention import Trim, keeps_its_last, slowest_of, trim_of

_TRIM = ActionKind.TRIM
_POLICIES = (
    "its retention is unknown: its namespace policies or topic policies could not be read, or are not in this ZooKeeper"
)
_RETENTION = "its retention comes from the brokers' configuration: set retention_minutes and retention_megabytes in [broker] of POLICY"
_LAG = "its deletion lag comes from the brokers' configuration: set deletion_lag in [broker] of POLICY"


def past_retention(cluster: ClusterView, topic: TopicView, situation: Situation) -> Trim:
    """Return a topic's ledgers that are past retention, and that all subscriptions have passed, with their current positions."""
    has_current = keeps_its_last(topic.owner, topic.ledgers.last_end, is_terminated=topic.is_terminated)
    slowest = slowest_of(cluster.survey.cursors_of(topic.row))
    return trim_of(topic.ledgers, slowest, topic.rule.retention, situation.now_ms, has_current=has_current)


def leaving_ids(topic: TopicView, trim: Trim) -> tuple[int, ...]:
    """Return the ledgers that a broker will trim, and that need not be offloaded."""
    is_known = (
        topic.rule.trim and topic.are_policies_known and topic.rule.is_retention_reported and not topic.is_of_brokers
    )
    return topic.ids(list(trim.going)) if is_known else ()


def plan_trim(  # noqa: PLR0917  (the input of a plan, and its results so far)
    plan: Plan, cluster: ClusterView, topic: TopicView, situation: Situation, trim: Trim, offloads: Via | None
) -> None:
    """Add a trim if a broker would delete any ledger of a topic; ``offloads`` is who offloads its ledgers now."""
    if not topic.rule.trim or topic.is_of_brokers:
        return
    past, lagging = list(trim.going), _past_lag(topic, topic.ids(list(trim.going)), situation.now_ms)
    for rows, is_reported, why in (
        (past, topic.rule.is_retention_reported, _RETENTION),
        (lagging, topic.rule.is_lag_reported, _LAG),
    ):
        if rows and not is_reported:
            refuse(plan, _TRIM, topic, Reason(Refusal.UNKNOWN_POLICIES, why), rows)
            rows.clear()
    rows = sorted({*past, *lagging})
    if not rows:
        return
    reason = _why_not(cluster, topic, rows)
    if reason is not None:
        refuse(plan, _TRIM, topic, reason, rows)
        return
    why, since = "; ".join(_reasons(topic, past, lagging)), int(topic.ledgers.closed_ms[rows[0]]) or None
    ids, size = topic.ids(rows), topic.size(rows)
    if not situation.has_admin:
        plan.wait(
            _TRIM,
            topic.name,
            ids,
            size,
            None,
            f"{why}: a broker has to trim, but its address is missing: set admin in the policy file, or pass --admin",
        )
    elif offloads is Via.DIRECT:
        why = f"{why}: waits until its due ledgers are offloaded, since a broker loads the topic to trim it"
        plan.wait(_TRIM, topic.name, ids, size, None, why)
    else:
        plan.actions.append(Action(_TRIM, topic.name, ids, size, Via.BROKER, since, why, topic.rule))


def _why_not(cluster: ClusterView, topic: TopicView, rows: list[int]) -> Reason | None:
    if topic.is_being_deleted:
        return Reason(Refusal.BEING_DELETED, "its namespace is being deleted")
    if not topic.are_policies_known:
        return Reason(Refusal.UNKNOWN_POLICIES, _POLICIES)
    shared = [one for one in topic.ids(rows) if cluster.is_shared(one)]
    if shared:
        why = (
            f"several ledger lists contain ledger {shared[0]}: a trim of one topic would delete it for the others, too"
        )
        return Reason(Refusal.SHARED, why)
    return None


def _reasons(topic: TopicView, past: list[int], lagging: list[int]) -> list[str]:
    rule = topic.rule.retention
    time = "no time limit" if rule.time_ms < 0 else f"{span(rule.time_ms)}"
    size = "no size limit" if rule.size < 0 else f"{human_size(rule.size)}"
    reported = []
    if past:
        limits = f"{time} and {size} ({topic.rule.retention_from})"
        reported.append(f"{len(past):,} ledgers are consumed by all subscriptions and past the retention of {limits}")
    if lagging:
        reported.append(
            f"{len(lagging):,} offloaded ledgers are past the deletion lag of {span(topic.rule.deletion_lag_ms)}"
        )
    return reported


def _past_lag(topic: TopicView, leaving: tuple[int, ...], now_ms: int) -> list[int]:
    """Return the rows whose copies in BookKeeper are past their lag, of ledgers that stay."""
    listed, lag_ms = topic.listed, topic.rule.deletion_lag_ms
    if lag_ms < 0:
        return []
    is_past = listed["is_complete"] & ~listed["is_deleted_from_bookkeeper"] & topic.is_there
    is_past &= listed["ledger_id"] != topic.greatest
    is_past &= ~np.isin(listed["ledger_id"], list(leaving))
    is_past &= (listed["offloaded_ms"] > 0) & (now_ms - listed["offloaded_ms"] > lag_ms)
    rows: list[int] = np.flatnonzero(is_past).tolist()
    return rows
