"""Create tenants and namespaces of restored topics through the new cluster's brokers, and list settings to set by hand.

Existing ones are never changed: their settings may be intended. Former settings are compared with the existing or the planned ones,
so that a plan after a run lists the settings that are left to do. No listed setting contains credentials.

Policies that make brokers delete are held back. Time went on while the cluster was lost, so a retention or a time
to live that was right then may have expired for all restored data, and brokers delete trimmed offloaded ledgers from the bucket,
which may have the only copy. A namespace without any retention is no safer: there brokers delete all data that no subscription needs.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ledgerfs.display import printable
from ledgerfs.errors import CorruptMetadataError, InvalidNameError
from ledgerfs.formats.topic_names import parse_managed_ledger_name, split_partition, topic_of
from ledgerfs_cluster.errors import AdminApiError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests, Answer
from ledgerfs_cluster.recovery.dumped_cluster import DumpedSettings
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.policies import policies_of, without_credentials
from ledgerfs_cluster.snapshot.survey_builder import POLICIES

_TENANTS = "/admin/v2/tenants"
_CONFIGURATION = "/admin/v2/brokers/configuration/runtime"
_IS_THERE, _REFUSED = 409, 412
_GLOBAL = " global"
"""Suffix of the names of topic policies that apply to all clusters."""
_STRATEGY, _PERMISSIVE, _UNDEFINED = "schema_compatibility_strategy", "ALWAYS_COMPATIBLE", "UNDEFINED"
"""Schema compatibility of a namespace: any schema, or the brokers' default."""
RETENTION, TTL, BACKLOG = "retention_policies", "message_ttl_in_seconds", "backlog_quota_map"
EXPIRATION, OFFLOAD, CLUSTERS = "subscription_expiration_time_minutes", "offload_policies", "replication_clusters"
HELD: Mapping[str, Any] = {
    RETENTION: {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
    TTL: 0,
    EXPIRATION: 0,
}
"""Policies of a namespace while deletion is held back: no data expire."""
_EVICTION = "consumer_backlog_eviction"
INTERNAL = frozenset({"deleted", "migrated", "allowed_clusters", "clusterDispatchRate", "latency_stats_sample_rate"})
"""Internal fields, and settings with a meaning only in their own cluster."""
_AUTH, _TOPIC_AUTH = "auth_policies", ("destination_auth", "subscription_auth_roles")
_LEFT: Mapping[str, str] = {
    "replicatorDispatchRate": "it is not replicated",
    **dict.fromkeys(
        ("topicDispatchRate", "subscriptionDispatchRate", "clusterSubscribeRate", "publishMaxMessageRate"),
        "it was chosen for the lost cluster",
    ),
    "resource_group_name": "it is unknown whether the new cluster has this resource group",
    **dict.fromkeys(
        (OFFLOAD, "offload_threshold", "offload_threshold_in_seconds", "offload_deletion_lag_ms"),
        "it would override the brokers' own offload settings, which they need to read restored topics",
    ),
}
"""Policies that are never carried over, and the reasons."""


@dataclass(frozen=True, slots=True)
class FormerSetting:
    """A setting of the lost cluster that the new one does not have.

    Attributes
    ----------
    owner
        The tenant, namespace or topic in the new cluster.
    name
        Name in ZooKeeper.
    value
        JSON value without credentials; None if damaged or unknown.
    reason
        Why the new cluster does not have it, or why the value is unknown; None if it has another value.

    """

    owner: str
    name: str
    value: Any
    reason: str | None = None

    def __str__(self) -> str:
        """Return a line without control characters for the terminal."""
        if self.value is None:
            return printable(f"{self.owner}: {self.name} unknown: {self.reason}")
        reason = "" if self.reason is None else f" ({self.reason})"
        return printable(f"{self.owner}: {self.name} was {json.dumps(self.value)}: set it by hand{reason}")

    def as_json(self) -> dict[str, Any]:
        """Return all fields."""
        return {"owner": self.owner, "name": self.name, "value": self.value, "why": self.reason}


@dataclass(frozen=True, slots=True)
class OwnerPlan:
    """A tenant or a namespace of restored topics.

    Attributes
    ----------
    name
        In the new cluster.
    is_new
        Whether it is to be created.
    settings
        Its existing or planned settings.
    by_hand
        Former settings that do not apply.
    remarks
        Warnings before topics are restored there.
    trouble
        Why topics cannot be restored there; None if they can.

    """

    name: str
    is_new: bool
    settings: Mapping[str, Any]
    by_hand: tuple[FormerSetting, ...] = ()
    remarks: tuple[str, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class SettingsPlan:
    """Everything topics need before they are restored: tenants, then namespaces, and the settings to set by hand."""

    tenants: tuple[OwnerPlan, ...]
    namespaces: tuple[OwnerPlan, ...]
    by_hand: tuple[FormerSetting, ...]


def broker_settings(requests: AdminRequests) -> tuple[str, bool]:
    """Return the cluster's name and whether transactions are enabled, as brokers report; raises the errors of the admin API."""
    reported = requests.reported(_CONFIGURATION)
    if not isinstance(reported, dict) or not isinstance(name := reported.get("clusterName"), str) or not name:
        raise AdminApiError("the broker does not report the name of its cluster", key=requests.address + _CONFIGURATION)
    return name, str(reported.get("transactionCoordinatorEnabled")).lower() == "true"


def plan_settings(
    requests: AdminRequests, topics: Mapping[str, str], settings: DumpedSettings, cluster: str
) -> SettingsPlan:
    """Plan the tenants and namespaces of topics, given as {managed ledger in the new cluster: the former one}; read-only.

    ``requests`` need permission to read all tenants; ``settings`` are those in the lost cluster's dump. Raises `AdminApiError`,
    `AccessDeniedError` and `AuthenticationError` if the broker does not report the existing settings, and `InvalidNameError`.
    """
    formers: dict[str, set[str]] = {}
    for name, former in topics.items():
        formers.setdefault(namespace_of(name), set()).add(namespace_of(former))
    tenants = {
        name: _tenant(requests, name, settings, cluster) for name in sorted({one.partition("/")[0] for one in formers})
    }
    namespaces = []
    for name in sorted(formers):
        planned = _namespace(requests, name, sorted(formers[name]), settings, cluster)
        trouble = tenants[name.partition("/")[0]].trouble
        namespaces.append(planned if trouble is None or not planned.is_new else replace(planned, trouble=trouble))
    owners = (*tenants.values(), *namespaces)
    by_hand = [*(setting for owner in owners for setting in owner.by_hand), *_of_topics(settings, topics)]
    return SettingsPlan(tuple(tenants.values()), tuple(namespaces), tuple(by_hand))


def make_namespaces(requests: AdminRequests, plan: SettingsPlan, wanted: Collection[str]) -> list[str]:
    """Create missing tenants and namespaces, and return the new namespaces; idempotent.

    In these any schema may follow another until `set_strategies`. ``wanted`` are the namespaces of restored topics. Raises the errors of
    the admin API, and `InvalidNameError`: namespaces created before stay. Namespaces that another client creates meanwhile stay unchanged.
    """
    new = [one for one in plan.namespaces if one.is_new and one.trouble is None and one.name in wanted]
    needed = {one.name.partition("/")[0] for one in new}
    for tenant in plan.tenants:
        if tenant.is_new and tenant.name in needed:
            _made(requests, f"{_TENANTS}/{tenant.name}", dict(tenant.settings))
    return [
        one.name for one in new if _made(requests, _namespace_path(one.name), {**one.settings, _STRATEGY: _PERMISSIVE})
    ]


def set_strategies(requests: AdminRequests, plan: SettingsPlan, made: Collection[str]) -> None:
    """Set the planned schema strategy of namespaces from `make_namespaces`.

    An earlier interruption leaves them the permissive one, which later plans report. Raises the errors of the admin API.
    """
    for one in plan.namespaces:
        if one.name in made:
            path = f"{_namespace_path(one.name)}/schemaCompatibilityStrategy"
            requests.change("PUT", path, one.settings.get(_STRATEGY, _UNDEFINED), is_repeatable=True).require_ok()


def _made(requests: AdminRequests, path: str, settings: dict[str, Any]) -> bool:
    """Create a tenant or namespace, and return whether this run did; an existing one is no error."""
    answer = requests.change("PUT", path, settings, is_repeatable=True)
    if answer.status == _REFUSED and answer.reason:
        raise AdminApiError(f"the broker does not accept these settings: {answer.reason}", key=answer.where)
    if answer.status == _IS_THERE:
        return answer.is_repeated
    answer.require_ok()
    return True


def _namespace_path(namespace: str) -> str:
    """Return the path of a namespace; raises `InvalidNameError` for an invalid name, since the path contains it unencoded."""
    if parse_managed_ledger_name(f"{namespace}/persistent/x") is None:
        raise InvalidNameError("not a valid namespace", key=namespace)
    return f"/admin/v2/namespaces/{namespace}"


def _tenant(requests: AdminRequests, name: str, settings: DumpedSettings, cluster: str) -> OwnerPlan:
    owner = f"tenant {name}"
    answer = requests.get(f"{_TENANTS}/{name}", accept=frozenset({404}))
    try:
        roles, by_hand = sorted(_texts((settings.policies(name) or {}).get("adminRoles"))), []
    except CorruptMetadataError as error:
        roles, by_hand = [], [FormerSetting(owner, "policies", None, f"{error.key}: {error.reason}")]
    if answer.status == 404 and answer.reason:
        return OwnerPlan(name, True, {"adminRoles": roles, "allowedClusters": [cluster]}, tuple(by_hand))
    there = _object(answer.require_ok())
    is_allowed = cluster in _texts(there.get("allowedClusters"))
    trouble = (
        None
        if is_allowed
        else f"the tenant has no permission to use cluster {cluster}; allow it with `pulsar-admin tenants update`"
    )
    if not _texts(there.get("adminRoles")).issuperset(roles):
        by_hand = [FormerSetting(owner, "adminRoles", roles)]
    return OwnerPlan(name, False, there, tuple(by_hand), trouble=trouble)


def _namespace(
    requests: AdminRequests, name: str, formers: Sequence[str], settings: DumpedSettings, cluster: str
) -> OwnerPlan:
    owner = f"namespace {name}"
    if name.count("/") == 2:
        return OwnerPlan(
            name,
            False,
            {},
            trouble=f"{name} is a namespace of Pulsar 1, with a cluster in its name: restore under another name (--as)",
        )
    answer = requests.get(_namespace_path(name), accept=frozenset({404}))
    is_new = answer.status == 404 and bool(answer.reason)
    there = {} if is_new else _object(answer.require_ok())
    remarks: list[str] = []
    by_hand: list[FormerSetting] = []
    policies, why = carried_policies(None, cluster, key=name, is_renamed=True)
    if len(formers) > 1:
        # Of several source namespaces none takes precedence.
        several = ", ".join(formers)
        remarks.append(f"its topics come from several namespaces ({several}), so none of their policies are set")
        reason = f"it replaces several namespaces ({several}), whose policies are not compared"
        by_hand.append(FormerSetting(owner, "policies", None, reason))
    else:
        former: dict[str, Any] | None = None
        try:
            former = settings.policies(formers[0])
            if is_new and former is not None:
                key = f"{POLICIES}/{formers[0]}"
                policies, why = carried_policies(former, cluster, key=key, is_renamed=name != formers[0])
        except CorruptMetadataError as error:
            by_hand.append(FormerSetting(owner, "policies", None, f"{error.key}: {error.reason}"))
            remarks.append(f"its former policies are damaged, so none are set: {error}")
        if former is None and not remarks:
            remarks.append("its former policies are unknown")
        by_hand += _left(owner, former or {}, policies if is_new else there, why)
    if not is_new:
        is_cut = there.get(_STRATEGY) == _PERMISSIVE and "its former policies are unknown" in remarks
        remark = "its schema compatibility strategy is ALWAYS_COMPATIBLE: if an interrupted run created it, set the right strategy"
        return OwnerPlan(name, False, there, tuple(by_hand), (remark,) if is_cut else ())
    remarks.append("it keeps all messages until you set its retention and time to live")
    return OwnerPlan(name, True, policies, tuple(by_hand), tuple(remarks))


def _left(
    owner: str, former: Mapping[str, Any], there: Mapping[str, Any], why: Mapping[str, str]
) -> Iterator[FormerSetting]:
    """Yield the former policies of a namespace that do not apply."""
    for name, value in sorted(former.items()):
        if name in INTERNAL or name == "bundles" or not (_is_set(value) or name == _STRATEGY):
            continue
        if name == CLUSTERS:
            if len(_texts(value)) > 1:
                yield _setting(owner, name, sorted(_texts(value)), "namespaces are only in the new cluster")
        elif not _holds(name, value, there.get(name)):
            yield _setting(owner, name, value, why.get(name))


def _of_topics(settings: DumpedSettings, topics: Mapping[str, str]) -> Iterator[FormerSetting]:
    """Yield the own policies of restored topics, as far as a dump contains them."""
    names: dict[str, str] = {}
    for new, old in topics.items():
        names.setdefault(split_partition(old)[0], split_partition(new)[0])
    for namespace in sorted({namespace_of(old) for old in names}):
        answer = settings.topic_policies.get(namespace)
        if answer is None:
            continue
        if answer.trouble is not None:
            yield FormerSetting(f"topics of {namespace}", "policies", None, answer.trouble)
        for key, reported in sorted(answer.policies.items()):
            topic = names.get(key.removesuffix(_GLOBAL))
            if topic is not None:
                owner = f"topic {topic_of(topic)}{' (global)' if key.endswith(_GLOBAL) else ''}"
                yield from (_setting(owner, name, value) for name, value in sorted(reported.items()))


def _setting(owner: str, name: str, value: Any, reason: str | None = None) -> FormerSetting:  # noqa: ANN401  (JSON)
    if name != OFFLOAD:
        return FormerSetting(owner, name, value, reason)
    try:
        policies_of({OFFLOAD: value}, key=owner)
    except CorruptMetadataError:
        # Credentials may be anywhere in it.
        return FormerSetting(owner, name, None, "it is damaged")
    reason = "if you set driver and bucket, use those of the restored topics: brokers cannot read them with others"
    return FormerSetting(owner, name, without_credentials(value), reason)


def _holds(name: str, value: object, there: object) -> bool:
    """Return whether a former policy applies; ignores the folder of offloaders."""
    if name == OFFLOAD and isinstance(value, Mapping):
        value = {one: reported for one, reported in value.items() if one != "offloadersDirectory"}
    return _is_within(value, there or _UNDEFINED if name == _STRATEGY else there)


def _is_within(value: object, there: object) -> bool:
    """Return whether ``there`` contains all of ``value``; brokers do not store empty fields of an object."""
    if isinstance(value, Mapping):
        reported = there or {}
        return isinstance(reported, Mapping) and all(
            _is_within(one, reported.get(name)) for name, one in value.items() if one is not None
        )
    if isinstance(value, list):
        return sorted(map(str, value)) == sorted(map(str, there if isinstance(there, list) else []))
    return value == there


def _is_set(value: object) -> bool:
    """Return whether a user set a value: brokers write many empty ones, and ones without effect."""
    return value not in {-1, "UNDEFINED", "None"} if isinstance(value, int | str) else _says_anything(value)


def _says_anything(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_says_anything, value.values()))
    return bool(value) if isinstance(value, list | str) else value is not None


def _texts(value: object) -> set[str]:
    return {str(one) for one in value} if isinstance(value, list) else set()


def _object(answer: Answer) -> Mapping[str, Any]:
    reported = answer.json()
    if not isinstance(reported, dict):
        raise answer.unexpected("no JSON object with settings")
    return reported


def carried_policies(
    former: Mapping[str, Any] | None, cluster: str, *, key: str, is_renamed: bool
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the policies of a new namespace, in ZooKeeper's form, and {former policy: why it changed}.

    ``former`` is in ZooKeeper's form, None if unknown, and ``key`` its node. With ``is_renamed`` topics have other names now,
    so permissions of single topics are dropped. Raises `CorruptMetadataError` for policies that no broker has written.
    """
    policies = {name: value for name, value in (former or {}).items() if value is not None and name not in INTERNAL}
    why = {name: reason for name, reason in _LEFT.items() if policies.pop(name, None) not in (None, -1)}
    rights = policies.get(_AUTH) or {}
    if not isinstance(rights, Mapping):
        raise CorruptMetadataError(f"{_AUTH} is not a JSON object", key=key)
    if is_renamed and any(rights.get(name) for name in _TOPIC_AUTH):
        why[_AUTH] = "permissions of single topics and subscriptions use the former names"
        policies[_AUTH] = {name: value for name, value in rights.items() if name not in _TOPIC_AUTH}
    policies[CLUSTERS] = [cluster]
    _hold(policies, why)
    return policies, why


def _hold(policies: dict[str, Any], why: dict[str, str]) -> None:
    """Prevent expiry; keep backlog quotas, except those that drop unread messages."""
    for name, held in HELD.items():
        # Older brokers wrote -1 for none.
        if policies.get(name) not in (None, held, -1):
            why[name] = "not set yet, since it could delete restored messages"
        policies[name] = held
    quotas = policies.get(BACKLOG)
    if not isinstance(quotas, Mapping):
        return
    kept = {kind: quota for kind, quota in quotas.items() if not _evicts(quota)}
    if kept != quotas:
        why[BACKLOG] = "not set yet, since it could delete unread messages"
        policies[BACKLOG] = kept


def deleting_policy(policies: Mapping[str, Any]) -> str | None:
    """Return the first policy of a namespace that deletes or expires messages, in words; None if there is none."""
    retention = policies.get(RETENTION)
    if not isinstance(retention, dict):
        return "no retention policy, so the brokers' default applies, which is usually none"
    minutes, megabytes = (retention.get(name) for name in HELD[RETENTION])
    if not minutes == megabytes == -1:
        return f"a retention of {minutes} minutes and {megabytes} MB"
    for name, what in ((TTL, "a time to live (s)"), (EXPIRATION, "an expiry of subscriptions (minutes)")):
        value = policies.get(name)
        if isinstance(value, int) and value > 0:
            return f"{what} of {value}"
    quotas = policies.get(BACKLOG)
    if any(map(_evicts, quotas.values() if isinstance(quotas, dict) else ())):
        return f"a backlog quota that deletes unread messages ({_EVICTION})"
    return None


def _evicts(quota: object) -> bool:
    return isinstance(quota, Mapping) and quota.get("policy") == _EVICTION
