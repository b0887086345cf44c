"""Tenants and namespaces of the topics that are restored, made by the new cluster's brokers: what is missing, and with which policies.

What is there is never changed: whoever made it may have meant it so. So what a run that was ended has made is as good as made by somebody
else, and `ledgerfs_cluster.recovery.settings.former_settings` compares former settings with what is there, whoever set it.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from ledgerfs.errors import CorruptMetadataError, InvalidNameError
from ledgerfs.formats.topic_names import parse_managed_ledger_name
from ledgerfs_cluster.errors import AdminApiError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests, Answer
from ledgerfs_cluster.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs_cluster.recovery.settings.carried_policies import (
    CLUSTERS,
    HELD,
    RETENTION,
    TTL,
    NewCluster,
    carried_policies,
)
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.policies import OffloadTarget
from ledgerfs_cluster.snapshot.survey_builder import POLICIES

_TENANTS = "/admin/v2/tenants"
_CONFIGURATION = "/admin/v2/brokers/configuration/runtime"
_IS_THERE, _REFUSED = 409, 412
_OF_LEGACY = {RETENTION: "retention", TTL: "messageTTL"}
"""Policies without which a namespace of a V1 name would delete, and where each is set: it cannot be made with any."""


@dataclass(frozen=True, slots=True)
class TenantPlan:
    """A tenant of restored topics: its roles and clusters, as it is or will be, and why its namespaces cannot be made."""

    name: str
    is_new: bool
    settings: Mapping[str, Any]
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class NamespacePlan:
    """A namespace of restored topics.

    Attributes
    ----------
    name
        In the new cluster.
    former
        The namespace in the lost one whose policies it has or would have; None where it stands for several.
    is_new
        Whether it is to be made.
    policies
        What holds for it, as it is or will be.
    why_not
        {former policy: why it will not be as it was}.
    remarks
        What to know of it before topics are restored there.
    trouble
        Why it cannot be made; None if it can, or is there.

    """

    name: str
    former: str | None
    is_new: bool
    policies: Mapping[str, Any]
    why_not: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    trouble: str | None = None


@dataclass(frozen=True, slots=True)
class SettingsPlan:
    """All that topics need to be served before they are restored: tenants, then namespaces, by their names.

    ``topics`` are the former managed ledgers of the restored ones.
    """

    tenants: tuple[TenantPlan, ...]
    namespaces: tuple[NamespacePlan, ...]
    topics: Mapping[str, str]


def new_cluster(requests: AdminRequests, tier: OffloadTarget | None = None) -> NewCluster:
    """Return what brokers tell of their cluster; raises the errors of the admin API. ``tier`` is where they have the bucket."""
    told = requests.told(_CONFIGURATION)
    if not isinstance(told, dict) or not isinstance(name := told.get("clusterName"), str) or not name:
        raise AdminApiError("the broker does not tell the name of its cluster", key=requests.address + _CONFIGURATION)
    folder = told.get("offloadersDirectory")
    has_transactions = str(told.get("transactionCoordinatorEnabled")).lower() == "true"
    return NewCluster(name, tier, folder if isinstance(folder, str) and folder else None, has_transactions)


def plan_settings(
    requests: AdminRequests,
    topics: Mapping[str, str],
    settings: DumpedSettings,
    cluster: NewCluster,
) -> SettingsPlan:
    """Return which tenants and namespaces topics need; nothing is changed.

    Parameters
    ----------
    requests
        To any broker of the new cluster, by somebody who may see all tenants.
    topics
        {managed ledger in the new cluster: the former one}.
    settings
        What the dump of the lost cluster tells.
    cluster
        The new one (`new_cluster`).

    Raises
    ------
    AdminApiError, AccessDeniedError, AuthenticationError
        The broker does not tell what is there.
    InvalidNameError
        A managed ledger is none of a topic.

    """
    formers: dict[str, set[str]] = {}
    for name, former in topics.items():
        formers.setdefault(namespace_of(name), set()).add(namespace_of(former))
    tenants = tuple(
        _tenant(requests, name, settings, cluster) for name in sorted({one.partition("/")[0] for one in formers})
    )
    troubles = {one.name: one.trouble for one in tenants}
    namespaces = []
    for name in sorted(formers):
        planned = _namespace(requests, name, sorted(formers[name]), settings, cluster)
        trouble = troubles[name.partition("/")[0]] if planned.is_new else None
        namespaces.append(planned if trouble is None else replace(planned, trouble=trouble))
    return SettingsPlan(tenants, tuple(namespaces), topics)


def make_namespaces(requests: AdminRequests, plan: SettingsPlan, wanted: Collection[str]) -> list[str]:
    """Make the tenants and namespaces that are not there, and return those namespaces; made twice is as good as once.

    ``wanted`` are the namespaces whose topics are restored. Raises the errors of the admin API, and `InvalidNameError`: what was made
    before stays.
    """
    new = [one for one in plan.namespaces if one.is_new and one.trouble is None and one.name in wanted]
    needed = {one.name.partition("/")[0] for one in new}
    for tenant in plan.tenants:
        if tenant.is_new and tenant.name in needed:
            answer = requests.change("PUT", f"{_TENANTS}/{tenant.name}", dict(tenant.settings), is_repeatable=True)
            _required(answer)
    for namespace in new:
        _make(requests, namespace)
    return [one.name for one in new]


def namespace_path(namespace: str) -> str:
    """Return the path of a namespace; raises `InvalidNameError` for what is none, since its name stands in the path as it is."""
    if parse_managed_ledger_name(f"{namespace}/persistent/x") is None:
        raise InvalidNameError("not the name of a namespace", key=namespace)
    version = "/admin" if is_legacy_namespace(namespace) else "/admin/v2"
    return f"{version}/namespaces/{namespace}"


def is_legacy_namespace(namespace: str) -> bool:
    """Whether a namespace's name has a cluster in it (V1)."""
    return namespace.count("/") == 2


def _make(requests: AdminRequests, plan: NamespacePlan) -> None:
    """Make a namespace; one that somebody else made meanwhile stays as it is."""
    path, is_legacy = namespace_path(plan.name), is_legacy_namespace(plan.name)
    answer = requests.change("PUT", path, None if is_legacy else dict(plan.policies), is_repeatable=True)
    _required(answer)
    if is_legacy and (answer.status != _IS_THERE or answer.is_repeated):
        for name, where in _OF_LEGACY.items():
            requests.change("POST", f"{path}/{where}", plan.policies[name], is_repeatable=True).require_ok()


def is_within(value: object, there: object) -> bool:
    """Whether what is there has all that a value tells; of an object a broker does not keep what is empty."""
    if isinstance(value, Mapping):
        told = there or {}
        return isinstance(told, Mapping) and all(
            is_within(one, told.get(name)) for name, one in value.items() if one is not None
        )
    if isinstance(value, list):
        return sorted(map(str, value)) == sorted(map(str, there if isinstance(there, list) else []))
    return value == there


def _tenant(requests: AdminRequests, name: str, settings: DumpedSettings, cluster: NewCluster) -> TenantPlan:
    answer = requests.get(f"{_TENANTS}/{name}", accept=frozenset({404}))
    if answer.status == 404 and answer.reason:
        told: object = None
        with suppress(CorruptMetadataError):
            # A damaged node is reported with the former settings.
            told = (settings.tenant(name) or {}).get("adminRoles")
        roles = [str(one) for one in told] if isinstance(told, list) else []
        return TenantPlan(name, True, {"adminRoles": roles, "allowedClusters": [cluster.name]})
    there = _object(answer.require_ok())
    allowed = there.get("allowedClusters")
    is_allowed = isinstance(allowed, list) and cluster.name in allowed
    trouble = None if is_allowed else f"the tenant may not use the cluster {cluster.name}"
    return TenantPlan(name, False, there, trouble=trouble)


def _namespace(
    requests: AdminRequests,
    name: str,
    formers: Sequence[str],
    settings: DumpedSettings,
    cluster: NewCluster,
) -> NamespacePlan:
    # Of several namespaces in one none is more right than the others.
    former = formers[0] if len(formers) == 1 else None
    answer = requests.get(namespace_path(name), accept=frozenset({404}))
    if answer.status != 404 or not answer.reason:
        there = _object(answer.require_ok())
        return NamespacePlan(name, former, False, there)
    remarks = [] if former is not None else [f"its topics are of {', '.join(formers)}, so it gets the policies of none"]
    told = None
    if former is not None:
        try:
            told = settings.policies(former)
            policies, why = carried_policies(told, cluster, key=f"{POLICIES}/{former}", is_renamed=name != former)
        except CorruptMetadataError as error:
            remarks.append(f"its former policies are damaged, so it gets none of them: {error}")
            told = None
    if told is None:
        if former is not None and not remarks:
            remarks.append("its former policies are not known")
        policies, why = carried_policies(None, cluster, key=name, is_renamed=True)
    if told is not None and told.get("deleted") is True:
        remarks.append("it was being deleted when the dump was made")
    remarks.append("it keeps all until its retention and time to live are set")
    if is_legacy_namespace(name):
        return _legacy(name, former, told, cluster, remarks)
    return NamespacePlan(name, former, True, policies, why, tuple(remarks))


def _legacy(
    name: str, former: str | None, told: Mapping[str, Any] | None, cluster: NewCluster, remarks: list[str]
) -> NamespacePlan:
    """Return the plan of a V1 namespace: brokers make it with no policies, so that it only gets what keeps it from deleting."""
    owner = name.split("/")[1]
    trouble = (
        None
        if owner == cluster.name
        else f"its name has the cluster {owner}, and brokers of {cluster.name} serve none of it"
    )
    why = "brokers make a namespace of a V1 name without it"
    lost = {one: why for one, value in (told or {}).items() if value and one not in {CLUSTERS, "bundles"}}
    policies = {one: HELD[one] for one in _OF_LEGACY}
    return NamespacePlan(name, former, True, policies, lost, tuple(remarks), trouble)


def _required(answer: Answer) -> None:
    """Take it for done if it is there."""
    if answer.status == _REFUSED and answer.reason:
        raise AdminApiError(f"the broker does not take these settings: {answer.reason}", key=answer.where)
    if answer.status != _IS_THERE:
        answer.require_ok()


def _object(answer: Answer) -> Mapping[str, Any]:
    told = answer.json()
    if not isinstance(told, dict):
        raise answer.unexpected("no object of settings")
    return told
