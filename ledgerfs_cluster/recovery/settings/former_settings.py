"""Settings of the lost cluster that the new one does not have: for people, who set them by hand once they have checked what is restored.

They are compared with what the plan of the new cluster's namespaces says, so a plan that is made after a run has what is left to be done,
and one that is made before it what will be. No setting has credentials.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ledgerfs.display import printable
from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs_cluster.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs_cluster.recovery.settings.carried_policies import BY_CLUSTER, CLUSTERS, OFFLOAD
from ledgerfs_cluster.recovery.settings.namespaces import NamespacePlan, SettingsPlan, TenantPlan, is_within
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.policies import policies_of, without_credentials

_GLOBAL = " global"
"""What the names of policies end with that a topic has in all clusters."""
_UNSAID = frozenset(
    {"deleted", "migrated", "bundles", "allowed_clusters", "latency_stats_sample_rate", "clusterDispatchRate"}
)
"""Policies that are not settings, or that nobody sets by hand."""


@dataclass(frozen=True, slots=True)
class FormerSetting:
    """A setting of the lost cluster that the new one does not have.

    Attributes
    ----------
    owner
        The tenant, namespace or topic in the new cluster that is to have it.
    name
        As ZooKeeper has it.
    value
        As JSON has it, without credentials; None if it is damaged or not known.
    reason
        Why the new cluster does not have it, or why the value is not known; None if it is there already, with another value.

    """

    owner: str
    name: str
    value: Any
    reason: str | None = None

    def __str__(self) -> str:
        """Return a line that does nothing to a terminal."""
        if self.value is None:
            return printable(f"{self.owner}: {self.name} not known: {self.reason}")
        reason = "" if self.reason is None else f" ({self.reason})"
        return printable(f"{self.owner}: {self.name} was {json.dumps(self.value)}: set it by hand{reason}")

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {"owner": self.owner, "name": self.name, "value": self.value, "why": self.reason}


def not_carried_over(settings: DumpedSettings, plan: SettingsPlan) -> list[FormerSetting]:
    """Return each former setting that does not hold: of tenants, namespaces, and single topics; one without a value for a damaged node."""
    found: list[FormerSetting] = []
    owners = [(f"tenant {one.name}", partial(_of_tenant, settings, one)) for one in plan.tenants]
    owners += [(f"namespace {one.name}", partial(_of_namespace, settings, one, plan)) for one in plan.namespaces]
    for owner, settings_of in owners:
        try:
            found += list(settings_of())
        except CorruptMetadataError as error:
            found.append(FormerSetting(owner, "policies", None, f"{error.key}: {error.reason}"))
    return [*found, *_of_topics(settings, plan)]


def _of_tenant(settings: DumpedSettings, tenant: TenantPlan) -> Iterator[FormerSetting]:
    former = settings.tenant(tenant.name) or {}
    roles, there = (_texts(one.get("adminRoles")) for one in (former, tenant.settings))
    if not roles <= there:
        yield FormerSetting(f"tenant {tenant.name}", "adminRoles", sorted(roles))


def _of_namespace(settings: DumpedSettings, namespace: NamespacePlan, plan: SettingsPlan) -> Iterator[FormerSetting]:
    owner = f"namespace {namespace.name}"
    if namespace.former is None:
        former = sorted({namespace_of(old) for new, old in plan.topics.items() if namespace_of(new) == namespace.name})
        yield FormerSetting(
            owner, "policies", None, f"it stands for {', '.join(former)}, whose policies are not compared"
        )
        return
    told = settings.policies(namespace.former) or {}
    local = settings.local_policies(namespace.former) or {}
    for name, value in sorted({**_local(local), **told}.items()):
        if name in _UNSAID or not _is_set(value):
            continue
        if name == CLUSTERS:
            clusters = sorted(_texts(value))
            if len(clusters) > 1:
                yield FormerSetting(owner, name, clusters, "namespaces are in the new cluster alone")
        elif not _holds(name, value, namespace.policies.get(name)):
            yield _setting(owner, name, value, namespace.why_not.get(name))


def _setting(owner: str, name: str, value: Any, reason: str | None = None) -> FormerSetting:  # noqa: ANN401  (JSON)
    if name != OFFLOAD:
        return FormerSetting(owner, name, value, reason)
    try:
        target = policies_of({OFFLOAD: value}, key=owner).target
    except CorruptMetadataError:
        # Its credentials may be anywhere.
        return FormerSetting(owner, name, None, "it is damaged")
    if reason is None and not (target.driver and target.bucket):
        reason = "with a driver and a bucket: without them brokers read nothing that is offloaded"
    return FormerSetting(owner, name, without_credentials(value), reason)


def _holds(name: str, value: object, there: object) -> bool:
    """Whether a former policy holds: what was set by cluster may be so for another name of it."""
    if is_within(value, there):
        return True
    if name == OFFLOAD and isinstance(value, Mapping) and isinstance(there, Mapping):
        return is_within({one: told for one, told in value.items() if one != "offloadersDirectory"}, there)
    if name not in BY_CLUSTER or not isinstance(value, Mapping) or not isinstance(there, Mapping):
        return False
    return len(value) == len(there) == 1 and is_within(next(iter(value.values())), next(iter(there.values())))


def _of_topics(settings: DumpedSettings, plan: SettingsPlan) -> Iterator[FormerSetting]:
    """Yield what single topics had set for themselves, as far as a dump has that, for those that are restored."""
    names: dict[str, str] = {}
    for new, old in plan.topics.items():
        names.setdefault(split_partition(old)[0], split_partition(new)[0])
    for namespace in sorted({namespace_of(old) for old in names}):
        answer = settings.topic_policies.get(namespace)
        if answer is None:
            continue
        if answer.trouble is not None:
            yield FormerSetting(f"topics of {namespace}", "policies", None, answer.trouble)
        for key, told in sorted(answer.policies.items()):
            topic = names.get(key.removesuffix(_GLOBAL))
            if topic is not None:
                owner = f"topic {topic_of(topic)}{' (global)' if key.endswith(_GLOBAL) else ''}"
                yield from (_setting(owner, name, value) for name, value in sorted(told.items()))


def _local(local: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a namespace had in its cluster alone, by names of ours."""
    names = {"bookieAffinityGroup": "bookie_affinity_group", "namespaceAntiAffinityGroup": "anti_affinity_group"}
    return {ours: local[theirs] for theirs, ours in names.items() if local.get(theirs)}


def _texts(value: object) -> set[str]:
    return {str(one) for one in value} if isinstance(value, list) else set()


def _is_set(value: object) -> bool:
    """Whether somebody set a value: brokers write much that is empty, or stands for nothing."""
    return value not in {-1, "UNDEFINED", "None"} if isinstance(value, int | str) else _says_anything(value)


def _says_anything(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_says_anything, value.values()))
    return bool(value) if isinstance(value, list | str) else value is not None
