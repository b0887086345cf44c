"""Policies of retention and offload: a namespace's from ZooKeeper, and the broker's defaults, which only its configuration contains.

Policies of single topics are the last events of each key in a namespace's ``__change_events``, as brokers replay them. An event contains
the topic's name and all its policies, and may be *global*, for all clusters of a replicated namespace: then the topic's others override it.
A partition has the policies of its topic.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from ledgerfs.errors import CorruptMetadataError, InvalidNameError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.snapshot.answers import TopicPoliciesAnswer

NO_LIMIT = -1
BROKERS_DELETION_LAG_MS = 4 * 3_600_000
"""Default of ``managedLedgerOffloadDeletionLagMs``."""
_MINUTE_MS = 60_000
_MIB = 1 << 20
_FIELDS = {
    "retentionPolicies": "retention_policies",
    "offloadPolicies": "offload_policies",
    "messageTTLInSeconds": "message_ttl_in_seconds",
}
"""The policies that are read from an event, and their names in namespaces."""
_POLICIES, _DELETION, _GLOBAL = "TOPIC_POLICY", "DELETE", " global"
Policies = TypeVar("Policies", "NamespacePolicies", "OffloadTarget")


@dataclass(frozen=True, slots=True)
class Retention:
    """Retention of acknowledged data.

    Attributes
    ----------
    time_ms
        Time after a ledger was closed; `NO_LIMIT` for no limit by time.
    size
        Bytes of the topic; `NO_LIMIT` for no limit by size.

    """

    time_ms: int = 0
    size: int = 0

    @classmethod
    def of(cls, minutes: int, megabytes: int) -> "Retention":
        """Return the retention for a broker's two numbers; negative ones are `NO_LIMIT`."""
        return cls(minutes * _MINUTE_MS if minutes >= 0 else NO_LIMIT, megabytes * _MIB if megabytes >= 0 else NO_LIMIT)


@dataclass(frozen=True, slots=True)
class OffloadThresholds:
    """Offload thresholds of a topic: bytes, or ms after a ledger was closed; `NO_LIMIT` for never."""

    size: int = NO_LIMIT
    time_ms: int = NO_LIMIT


@dataclass(frozen=True, slots=True)
class OffloadTarget:
    """Offload target in policies; None for each value that they do not set. Contains no credentials."""

    driver: str | None = None
    bucket: str | None = None
    region: str | None = None
    endpoint: str | None = None

    @property
    def is_set(self) -> bool:
        """Whether it contains a bucket."""
        return self.bucket is not None

    def over(self, lower: "OffloadTarget") -> "OffloadTarget":
        """Return this target, with unset values from ``lower``."""
        return _filled(self, lower)


NO_TARGET = OffloadTarget()


@dataclass(frozen=True, slots=True)
class BrokerDefaults:
    """Policies where no namespace sets others; by default those of unconfigured brokers."""

    retention: Retention = Retention()
    offload: OffloadThresholds = OffloadThresholds()
    deletion_lag_ms: int = BROKERS_DELETION_LAG_MS


@dataclass(frozen=True, slots=True)
class NamespacePolicies:
    """Policies of a namespace or a topic; None where the next lower level applies, and last the broker's defaults.

    Attributes
    ----------
    offload_size, offload_time_ms, deletion_lag_ms
        Independent of each other; a lag below 0 is `NO_LIMIT`: BookKeeper's copies are never deleted.
    is_deleted
        Whether the namespace is being deleted.
    target
        Offload target.

    """

    retention: Retention | None = None
    offload_size: int | None = None
    offload_time_ms: int | None = None
    deletion_lag_ms: int | None = None
    is_deleted: bool = False
    target: OffloadTarget = NO_TARGET

    def offload(self, defaults: OffloadThresholds) -> OffloadThresholds:
        """Return the thresholds, each from the namespace or else the broker."""
        return OffloadThresholds(
            defaults.size if self.offload_size is None else self.offload_size,
            defaults.time_ms if self.offload_time_ms is None else self.offload_time_ms,
        )

    def over(self, lower: "NamespacePolicies") -> "NamespacePolicies":
        """Return these policies, with unset values from ``lower``; each number of offloading independently."""
        filled = _filled(self, lower)
        return replace(filled, is_deleted=self.is_deleted or lower.is_deleted, target=self.target.over(lower.target))


NOTHING_SET = NamespacePolicies()


def _filled(upper: Policies, lower: Policies) -> Policies:
    """Return a value with its unset fields from another one."""
    unset = [one.name for one in fields(upper) if getattr(upper, one.name) is None]
    return replace(upper, **{name: getattr(lower, name) for name in unset})


def parse_policies(data: bytes, *, key: str) -> NamespacePolicies:
    """Parse the value of a namespace's node; raises `CorruptMetadataError` with ``key``."""
    return policies_of(json_object(data, key=key), key=key)


def policies_of(reported: Mapping[str, Any], *, key: str) -> NamespacePolicies:
    """Return the policies in an object of ZooKeeper's form for namespaces; raises `CorruptMetadataError` with ``key``."""
    retention, offload = _part(reported, "retention_policies", key), _part(reported, "offload_policies", key)
    minutes = _number(retention, "retentionTimeInMinutes", key)
    megabytes = _number(retention, "retentionSizeInMB", key)
    seconds = _number(offload, "managedLedgerOffloadThresholdInSeconds", key)
    lag = _number(offload, "managedLedgerOffloadDeletionLagInMillis", key)
    size = _number(offload, "managedLedgerOffloadThresholdInBytes", key)
    # Namespaces had this field before offload policies existed; brokers use it unless these set a value.
    if size is None and (older := _number(reported, "offload_threshold", key)) != NO_LIMIT:
        size = older
    if lag is None:
        lag = _number(reported, "offload_deletion_lag_ms", key)
    return NamespacePolicies(
        # Java reads a missing number as 0.
        retention=Retention.of(minutes or 0, megabytes or 0)
        if reported.get("retention_policies") is not None
        else None,
        offload_size=size,
        offload_time_ms=None if seconds is None else seconds * 1000 if seconds >= 0 else NO_LIMIT,
        deletion_lag_ms=None if lag is None else max(lag, NO_LIMIT),
        is_deleted=reported.get("deleted") is True,
        target=_target(offload, key),
    )


_OFFLOAD_KEYS = (
    "managedLedgerOffloadThresholdInBytes",
    "managedLedgerOffloadThresholdInSeconds",
    "managedLedgerOffloadDeletionLagInMillis",
    "managedLedgerOffloadedReadPriority",
    "managedLedgerOffloadDriver",
    *(
        f"{prefix}anagedLedgerOffload{name}"
        for name in ("Bucket", "Region", "ServiceEndpoint")
        for prefix in ("m", "s3M", "gcsM")
    ),
)
"""Keys of an offload policy that never contain credentials; those with a prefix are older ones, of one driver."""
_OLDER_KEYS = {"aws-s3": "s3M", "google-cloud-storage": "gcsM"}


def _target(offload: Mapping[str, Any], key: str) -> OffloadTarget:
    """Return a policy's offload target: a driver's own older keys take precedence over the common ones, as in brokers.

    A policy without a driver uses that of the brokers' configuration, mostly ``aws-s3``.
    """
    driver = _text(offload, "managedLedgerOffloadDriver", key)
    older = _OLDER_KEYS.get("aws-s3" if driver is None else driver.lower())

    def reported(name: str) -> str | None:
        own = None if older is None else _text(offload, f"{older}anagedLedgerOffload{name}", key)
        return _text(offload, f"managedLedgerOffload{name}", key) if own is None else own

    return OffloadTarget(driver, reported("Bucket"), reported("Region"), reported("ServiceEndpoint"))


def without_credentials(offload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of an offload policy, except credentials."""
    return {name: offload[name] for name in _OFFLOAD_KEYS if offload.get(name) is not None}


def json_object(data: bytes, *, key: str) -> dict[str, Any]:
    """Parse a JSON object; raises `CorruptMetadataError` for anything else."""
    try:
        reported = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise CorruptMetadataError(f"the node is not JSON: {error}", key=key) from error
    if not isinstance(reported, dict):
        raise CorruptMetadataError("the node is not a JSON object", key=key)
    return reported


def _part(reported: Mapping[str, Any], name: str, key: str) -> dict[str, Any]:
    part = reported.get(name)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise CorruptMetadataError(f"{name} is not a JSON object", key=key)
    return part


def _number(reported: Mapping[str, Any], name: str, key: str) -> int | None:
    value = reported.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise CorruptMetadataError(f"{name} is not a number: {value!r}", key=key)
    return value


def _text(reported: Mapping[str, Any], name: str, key: str) -> str | None:
    """Return a text; None for an empty one, too, as in brokers."""
    value = reported.get(name)
    if value is not None and not isinstance(value, str):
        raise CorruptMetadataError(f"{name} is not a text: {value!r}", key=key)
    return value or None


def answer_of(namespace: str, events: Iterable[tuple[str, Any]]) -> TopicPoliciesAnswer:
    """Return an answer from the last events of all keys; raises `CorruptMetadataError` for an event without a topic."""
    found: dict[str, dict[str, Any]] = {}
    for key, event in events:
        reported = _mapping(event, key).get("topicPoliciesEvent")
        if event.get("eventType") != _POLICIES or event.get("actionType") == _DELETION or not reported:
            continue
        policies = _mapping(_mapping(reported, key).get("policies") or {}, key)
        name = _topic_of(reported, key) + (_GLOBAL if policies.get("isGlobal") else "")
        kept = {ours: policies[theirs] for theirs, ours in _FIELDS.items() if policies.get(theirs) is not None}
        if "offload_policies" in kept:
            offload = _mapping(kept["offload_policies"], key)
            kept["offload_policies"] = without_credentials(offload)
        if kept:
            found[name] = kept
    return TopicPoliciesAnswer(namespace, found)


def policies_in(answer: TopicPoliciesAnswer) -> dict[str, NamespacePolicies]:
    """Return {managed ledger: its policies, own before global}; raises `CorruptMetadataError`."""
    found: dict[str, NamespacePolicies] = {}
    # A name sorts before itself with a suffix, so the global policies come second.
    for name, reported in sorted(answer.policies.items()):
        policies, topic = policies_of(reported, key=name), name.removesuffix(_GLOBAL)
        found[topic] = found[topic].over(policies) if topic in found else policies
    return found


def _mapping(value: object, key: str) -> Mapping[str, Any]:
    """Return a record of an event; raises `CorruptMetadataError` if another schema decoded it to something else."""
    if not isinstance(value, Mapping):
        raise CorruptMetadataError("a topic policy event is not a record", key=key)
    return value


def _topic_of(reported: Mapping[str, Any], key: str) -> str:
    parts = [reported.get(one) for one in ("tenant", "cluster", "namespace", "topic")]
    domain = reported.get("domain") or "persistent"
    try:
        return managed_ledger_of(f"{domain}://" + "/".join(str(one) for one in parts if one))
    except InvalidNameError as error:
        raise CorruptMetadataError(f"a topic policy event has no valid topic name: {error.reason}", key=key) from error
