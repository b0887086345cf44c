"""Policies as command lines of ``pulsar-admin``, by their names and values in ZooKeeper."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ledgerfs.clusters.policies import policies_of
from ledgerfs.display import printable
from ledgerfs.errors import CorruptMetadataError
from ledgerfs.recovery.settings.carried_policies import EXPIRATION, OFFLOAD, RETENTION, TTL

_Options = Callable[[Any], list[str]]
_MOST_SHOWN = 200
_DAMAGE = (AttributeError, KeyError, TypeError, ValueError, CorruptMetadataError)


def command(*words: str) -> str:
    """Return a command line, quoted for a shell."""
    return shlex.join(["pulsar-admin", *words])


def comment(text: str) -> str:
    """Return a line that no shell takes for a command, and that does nothing to a terminal."""
    return "# " + printable(" ".join(text.split()))


def namespace_commands(namespace: str, name: str, value: Any) -> list[str]:  # noqa: ANN401  (JSON)
    """Return the lines that set one policy of a namespace; a comment for one that no command sets, or whose value is damaged."""
    try:
        if name in _SEVERAL:
            return list(_SEVERAL[name](namespace, value))
        if name in _COMMANDS:
            told, options = _COMMANDS[name]
            return [_warned(name, value, command("namespaces", told, namespace, *options(value)))]
    except _DAMAGE:
        return [_not_a_command(namespace, name, value)]
    return [_not_a_command(namespace, name, value)]


def topic_command(topic: str, name: str, value: Any, *, is_global: bool) -> str:  # noqa: ANN401  (JSON)
    """Return the line that sets one policy of a topic, ``persistent://…``, for its cluster or for all."""
    try:
        told, options = _OF_TOPICS[name]
        line = command("topicPolicies", told, *(["--global"] if is_global else []), topic, *options(value))
        return _warned(name, value, line)
    except _DAMAGE:
        return _not_a_command(topic, name, value)


def _warned(name: str, value: Any, line: str) -> str:  # noqa: ANN401  (JSON)
    """Return a line with what to do before it is run: any policy of offloading stands in place of all that brokers are configured with."""
    if name != OFFLOAD:
        return line
    target = policies_of({OFFLOAD: value}, key=OFFLOAD).target
    is_whole = target.driver and target.bucket
    return (
        line
        if is_whole
        else f"{line}  # add --driver and --bucket: without them brokers read nothing that is offloaded"
    )


def _not_a_command(owner: str, name: str, value: object) -> str:
    # Policies of offloading have credentials, and a damaged one may have them anywhere.
    return comment(f"{owner}: {name} was {'damaged' if name == OFFLOAD else repr(value)[:_MOST_SHOWN]}")


def _retention(value: Mapping[str, int]) -> list[str]:
    minutes, megabytes = value.get("retentionTimeInMinutes", 0), value.get("retentionSizeInMB", 0)
    return [
        "--time",
        f"{minutes}m" if minutes > 0 else str(minutes),
        "--size",
        f"{megabytes}M" if megabytes > 0 else str(megabytes),
    ]


def _offload(value: Mapping[str, Any]) -> list[str]:
    """Return where to and when; without credentials, which are in policies, too."""
    told = policies_of({OFFLOAD: value}, key=OFFLOAD)
    options = {
        "--driver": told.target.driver,
        "--bucket": told.target.bucket,
        "--region": told.target.region,
        "--endpoint": told.target.endpoint,
        "--offloadAfterThreshold": told.offload_size,
        "--offloadAfterThresholdInSeconds": None if told.offload_time_ms is None else told.offload_time_ms // 1000,
        "--offloadAfterElapsed": None if told.deletion_lag_ms is None else f"{told.deletion_lag_ms // 1000}s",
        "--offloadedReadPriority": value.get("managedLedgerOffloadedReadPriority"),
    }
    return [word for name, one in options.items() if one not in {None, -1} for word in (name, str(one))]


def _dispatch(value: Mapping[str, Any]) -> list[str]:
    (rate,) = value.values()
    return [
        *("--msg-dispatch-rate", str(rate["dispatchThrottlingRateInMsg"])),
        *("--byte-dispatch-rate", str(rate["dispatchThrottlingRateInByte"])),
        *("--dispatch-rate-period", str(rate["ratePeriodInSecond"])),
        *(["--relative-to-publish-rate"] if rate.get("relativeToPublishRate") else []),
    ]


def _publish(value: Mapping[str, Any]) -> list[str]:
    (rate,) = value.values()
    return [
        "--msg-publish-rate",
        str(rate["publishThrottlingRateInMsg"]),
        "--byte-publish-rate",
        str(rate["publishThrottlingRateInByte"]),
    ]


def _subscribe(value: Mapping[str, Any]) -> list[str]:
    (rate,) = value.values()
    return [
        "--subscribe-rate",
        str(rate["subscribeThrottlingRatePerConsumer"]),
        "--subscribe-rate-period",
        str(rate["ratePeriodInSecond"]),
    ]


def _persistence(value: Mapping[str, Any]) -> list[str]:
    return [
        *("--bookkeeper-ensemble", str(value["bookkeeperEnsemble"])),
        *("--bookkeeper-write-quorum", str(value["bookkeeperWriteQuorum"])),
        *("--bookkeeper-ack-quorum", str(value["bookkeeperAckQuorum"])),
        *("--ml-mark-delete-max-rate", str(value["managedLedgerMaxMarkDeleteRate"])),
    ]


def _inactive(value: Mapping[str, Any]) -> list[str]:
    return [
        "--enable-delete-while-inactive" if value["deleteWhileInactive"] else "--disable-delete-while-inactive",
        *("--max-inactive-duration", f"{int(value['maxInactiveDurationSeconds'])}s"),
        *("--delete-mode", str(value["inactiveTopicDeleteMode"])),
    ]


def _bookies(value: Mapping[str, Any]) -> list[str]:
    secondary = value.get("bookkeeperAffinityGroupSecondary")
    return [
        "--primary-group",
        str(value["bookkeeperAffinityGroupPrimary"]),
        *(["--secondary-group", str(secondary)] if secondary else []),
    ]


def _number(option: str) -> _Options:
    return lambda value: [option, str(int(value))]


def _text(option: str) -> _Options:
    return lambda value: [option, str(value)]


def _switch(value: object) -> list[str]:
    return ["--enable" if value else "--disable"]


_COMMANDS: Mapping[str, tuple[str, _Options]] = {
    RETENTION: ("set-retention", _retention),
    TTL: ("set-message-ttl", _number("--messageTTL")),
    EXPIRATION: ("set-subscription-expiration-time", _number("--time")),
    OFFLOAD: ("set-offload-policies", _offload),
    "persistence": ("set-persistence", _persistence),
    "inactive_topic_policies": ("set-inactive-topic-policies", _inactive),
    "deduplicationEnabled": ("set-deduplication", _switch),
    "encryption_required": ("set-encryption-required", _switch),
    "schema_validation_enforced": ("set-schema-validation-enforce", _switch),
    "is_allow_auto_update_schema": ("set-is-allow-auto-update-schema", _switch),
    "schema_compatibility_strategy": ("set-schema-compatibility-strategy", _text("--compatibility")),
    "subscription_auth_mode": ("set-subscription-auth-mode", _text("--subscription-auth-mode")),
    "resource_group_name": ("set-resource-group", _text("--resource-group-name")),
    "compaction_threshold": ("set-compaction-threshold", _number("--threshold")),
    "max_producers_per_topic": ("set-max-producers-per-topic", _number("--max-producers-per-topic")),
    "max_consumers_per_topic": ("set-max-consumers-per-topic", _number("--max-consumers-per-topic")),
    "max_consumers_per_subscription": (
        "set-max-consumers-per-subscription",
        _number("--max-consumers-per-subscription"),
    ),
    "max_subscriptions_per_topic": ("set-max-subscriptions-per-topic", _number("--max-subscriptions-per-topic")),
    "max_unacked_messages_per_consumer": ("set-max-unacked-messages-per-consumer", _number("-c")),
    "max_unacked_messages_per_subscription": ("set-max-unacked-messages-per-subscription", _number("-c")),
    "topicDispatchRate": ("set-dispatch-rate", _dispatch),
    "subscriptionDispatchRate": ("set-subscription-dispatch-rate", _dispatch),
    "publishMaxMessageRate": ("set-publish-rate", _publish),
    "clusterSubscribeRate": ("set-subscribe-rate", _subscribe),
    "bookie_affinity_group": ("set-bookie-affinity-group", _bookies),
    "anti_affinity_group": ("set-anti-affinity-group", _text("--group")),
}
"""By the name of a policy: the command that sets it for a namespace, and its options."""
_OF_TOPICS: Mapping[str, tuple[str, _Options]] = {
    RETENTION: _COMMANDS[RETENTION],
    OFFLOAD: _COMMANDS[OFFLOAD],
    TTL: ("set-message-ttl", _number("--ttl")),
}
"""The same of single topics, of which dumps have no others."""


def _quotas(namespace: str, value: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for kind, quota in sorted(value.items()):
        size, seconds = quota.get("limitSize", quota.get("limit", -1)), quota.get("limitTime", -1)
        limits = [("--limit", str(size))] if size != -1 else []
        limits += [("--limitTime", str(seconds))] if seconds != -1 else []
        words = [word for limit in limits for word in limit]
        told = ["--type", kind, "--policy", str(quota["policy"]), *words]
        yield command("namespaces", "set-backlog-quota", namespace, *told)


def _properties(namespace: str, value: Mapping[str, str]) -> Iterator[str]:
    for key, text in sorted(value.items()):
        yield command("namespaces", "set-property", namespace, "--key", key, "--value", text)


def _rights(namespace: str, value: Mapping[str, Any]) -> Iterator[str]:
    for role, actions in sorted((value.get("namespace_auth") or {}).items()):
        told = ["--role", role, "--actions", ",".join(sorted(actions))]
        yield command("namespaces", "grant-permission", namespace, *told)
    for subscription, roles in sorted((value.get("subscription_auth_roles") or {}).items()):
        told = ["--subscription", subscription, "--roles", ",".join(sorted(roles))]
        yield command("namespaces", "grant-subscription-permission", namespace, *told)
    for topic, rights in sorted((value.get("destination_auth") or {}).items()):
        for role, actions in sorted(rights.items()):
            told = ["--role", role, "--actions", ",".join(sorted(actions))]
            line = command("topics", "grant-permission", topic, *told)
            is_here = topic.partition("://")[2].startswith(f"{namespace}/")
            yield line if is_here else comment(f"of a topic with another name now: {line}")


_SEVERAL: Mapping[str, Callable[[str, Any], Iterator[str]]] = {
    "backlog_quota_map": _quotas,
    "properties": _properties,
    "auth_policies": _rights,
}
"""Policies that take a command for each of their parts."""
