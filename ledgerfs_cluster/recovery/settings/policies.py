"""Which of a namespace's former policies its successor in the new cluster gets: a pure function of what both clusters are.

Policies that make brokers delete are held back. Time went on while the cluster was lost, so a retention or a time
to live that was right then may have ended for all that is restored, and what brokers trim of offloaded ledgers they delete from the bucket,
which may have the only copy. A namespace without any retention is no safer: there brokers delete whatever no subscription needs.
"""

from collections.abc import Mapping
from typing import Any

from ledgerfs.errors import CorruptMetadataError

RETENTION, TTL, BACKLOG = "retention_policies", "message_ttl_in_seconds", "backlog_quota_map"
EXPIRATION, OFFLOAD, CLUSTERS = "subscription_expiration_time_minutes", "offload_policies", "replication_clusters"
HELD: Mapping[str, Any] = {
    RETENTION: {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
    TTL: 0,
    EXPIRATION: 0,
}
"""What a namespace has while its policies of deleting are held back: nothing ends by itself."""
_EVICTION = "consumer_backlog_eviction"
INTERNAL = frozenset({"deleted", "migrated", "allowed_clusters", "clusterDispatchRate", "latency_stats_sample_rate"})
"""What is no setting of the namespace, or one that its cluster alone has a meaning for."""
_AUTH, _TOPIC_AUTH = "auth_policies", ("destination_auth", "subscription_auth_roles")
_LEFT: Mapping[str, str] = {
    "replicatorDispatchRate": "it is not replicated",
    **dict.fromkeys(
        ("topicDispatchRate", "subscriptionDispatchRate", "clusterSubscribeRate", "publishMaxMessageRate"),
        "it was set for the former cluster",
    ),
    "resource_group_name": "whether the new cluster has this group is not known",
    **dict.fromkeys(
        (OFFLOAD, "offload_threshold", "offload_threshold_in_seconds", "offload_deletion_lag_ms"),
        "it would stand in place of the brokers' own, by which they read what is restored",
    ),
}
"""Policies that are never carried, and why."""


def carried_policies(
    former: Mapping[str, Any] | None, cluster: str, *, key: str, is_renamed: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the policies of a new namespace, as its node in ZooKeeper would have them, and {former policy: why it is not as it was}.

    ``former`` is as its node in ZooKeeper had them, None if nothing is known of it, and ``key`` that node. With ``is_renamed`` topics have
    other names now, of which rights of single topics mean nothing. Raises `CorruptMetadataError` for policies that no broker has written.
    """
    policies = {name: value for name, value in (former or {}).items() if value is not None and name not in INTERNAL}
    why = {name: reason for name, reason in _LEFT.items() if policies.pop(name, None) not in (None, -1)}
    rights = policies.get(_AUTH) or {}
    if not isinstance(rights, Mapping):
        raise CorruptMetadataError(f"{_AUTH} is no JSON object", key=key)
    if is_renamed and any(rights.get(name) for name in _TOPIC_AUTH):
        why[_AUTH] = "rights of single topics and subscriptions are of the former names"
        policies[_AUTH] = {name: value for name, value in rights.items() if name not in _TOPIC_AUTH}
    policies[CLUSTERS] = [cluster]
    _hold(policies, why)
    return policies, why


def _hold(policies: dict[str, Any], why: dict[str, str]) -> None:
    """Let nothing end by itself; quotas of the backlog stay but those that drop what nobody has read yet."""
    for name, held in HELD.items():
        # Older brokers wrote -1 for none.
        if policies.get(name) not in (None, held, -1):
            why[name] = "it is held back, since it may delete what is restored"
        policies[name] = held
    quotas = policies.get(BACKLOG)
    if not isinstance(quotas, Mapping):
        return
    kept = {kind: quota for kind, quota in quotas.items() if not _evicts(quota)}
    if kept != quotas:
        why[BACKLOG] = "it is held back, since it may drop what no subscription has read"
        policies[BACKLOG] = kept


def deleting_policy(policies: Mapping[str, Any]) -> str | None:
    """Return the first policy of a namespace that deletes, or expires, messages, in words; None if there is none."""
    retention = policies.get(RETENTION)
    if not isinstance(retention, dict):
        return "no retention of its own, so that of the brokers, usually none"
    minutes, megabytes = (retention.get(name) for name in HELD[RETENTION])
    if not minutes == megabytes == -1:
        return f"a retention of {minutes} minutes and {megabytes} MB"
    for name, what in ((TTL, "a time to live (s)"), (EXPIRATION, "an expiry of subscriptions (minutes)")):
        value = policies.get(name)
        if isinstance(value, int) and value > 0:
            return f"{what} of {value}"
    quotas = policies.get(BACKLOG)
    if any(map(_evicts, quotas.values() if isinstance(quotas, dict) else ())):
        return f"a backlog quota that evicts ({_EVICTION})"
    return None


def _evicts(quota: object) -> bool:
    return isinstance(quota, Mapping) and quota.get("policy") == _EVICTION
