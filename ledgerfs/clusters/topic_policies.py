"""Policies of single topics: the last events of each key in a namespace's ``__change_events``, as brokers replay them.

An event has the topic's name and all its policies, and may be *global*, for all clusters of a replicated namespace: then it stands below
the topic's others. A partition has the policies of its topic.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ledgerfs.clusters.answers import TopicPoliciesAnswer
from ledgerfs.clusters.policies import NamespacePolicies, policies_of, without_credentials
from ledgerfs.errors import CorruptMetadataError, InvalidNameError
from ledgerfs.formats.topic_names import managed_ledger_of

_FIELDS = {
    "retentionPolicies": "retention_policies",
    "offloadPolicies": "offload_policies",
    "messageTTLInSeconds": "message_ttl_in_seconds",
}
"""What is kept of an event, by the names that namespaces have for it."""
_POLICIES, _DELETION, _GLOBAL = "TOPIC_POLICY", "DELETE", " global"


def answer_of(namespace: str, events: Iterable[tuple[str, Any]]) -> TopicPoliciesAnswer:
    """Return the answer that the last events of all keys are; raises `CorruptMetadataError` for one that names no topic."""
    found: dict[str, dict[str, Any]] = {}
    for key, event in events:
        told = _mapping(event, key).get("topicPoliciesEvent")
        if event.get("eventType") != _POLICIES or event.get("actionType") == _DELETION or not told:
            continue
        policies = _mapping(_mapping(told, key).get("policies") or {}, key)
        name = _topic_of(told, key) + (_GLOBAL if policies.get("isGlobal") else "")
        kept = {ours: policies[theirs] for theirs, ours in _FIELDS.items() if policies.get(theirs) is not None}
        if "offload_policies" in kept:
            offload = _mapping(kept["offload_policies"], key)
            kept["offload_policies"] = without_credentials(offload)
        if kept:
            found[name] = kept
    return TopicPoliciesAnswer(namespace, found)


def policies_in(answer: TopicPoliciesAnswer) -> dict[str, NamespacePolicies]:
    """Return {managed ledger: what is set for the topic, for it alone or globally}; raises `CorruptMetadataError`."""
    found: dict[str, NamespacePolicies] = {}
    # Names sort before themselves with a word behind them: what is global comes second.
    for name, told in sorted(answer.policies.items()):
        policies, topic = policies_of(told, key=name), name.removesuffix(_GLOBAL)
        found[topic] = found[topic].over(policies) if topic in found else policies
    return found


def _mapping(value: object, key: str) -> Mapping[str, Any]:
    """Return a record of an event; raises `CorruptMetadataError` for what another schema made of it."""
    if not isinstance(value, Mapping):
        raise CorruptMetadataError("an event of policies is no record of policies", key=key)
    return value


def _topic_of(told: Mapping[str, Any], key: str) -> str:
    parts = [told.get(one) for one in ("tenant", "cluster", "namespace", "topic")]
    domain = told.get("domain") or "persistent"
    try:
        return managed_ledger_of(f"{domain}://" + "/".join(str(one) for one in parts if one))
    except InvalidNameError as error:
        raise CorruptMetadataError(f"an event of policies names no topic: {error.reason}", key=key) from error
