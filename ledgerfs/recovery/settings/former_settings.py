"""What is not as it was in the lost cluster, as command lines for Pulsar's own ``pulsar-admin``: for people, once they have looked at it.

Compared is with what the plan of the new cluster's namespaces says, so a plan that is made after a run tells what is left to be done, and
one that is made before it what will be. No line has credentials; what no command can set is a line of comment.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ledgerfs.clusters.bundles import namespace_of
from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs.recovery.settings.admin_commands import command, comment, namespace_commands, topic_command
from ledgerfs.recovery.settings.carried_policies import BY_CLUSTER, CLUSTERS, OFFLOAD
from ledgerfs.recovery.settings.namespaces import NamespacePlan, SettingsPlan, TenantPlan, is_within

_GLOBAL = " global"
"""What the names of policies end with that a topic has in all clusters."""
_UNSAID = frozenset(
    {"deleted", "migrated", "bundles", "allowed_clusters", "latency_stats_sample_rate", "clusterDispatchRate"}
)
"""What is no setting, or one that nobody sets by a command."""


def to_set_again(settings: DumpedSettings, plan: SettingsPlan) -> list[str]:
    """Return a command line for each former setting that does not hold: of tenants, namespaces, and single topics.

    A damaged node is a line of comment, as is a setting for which there is no command.
    """
    lines: list[str] = []
    for tenant in plan.tenants:
        lines += _damage_told(lambda tenant=tenant: _of_tenant(settings, tenant))  # type: ignore[misc]
    for namespace in plan.namespaces:
        lines += _damage_told(lambda namespace=namespace: _of_namespace(settings, namespace, plan))  # type: ignore[misc]
    lines += _of_topics(settings, plan)
    return lines


def _of_tenant(settings: DumpedSettings, tenant: TenantPlan) -> Iterator[str]:
    former = settings.tenant(tenant.name) or {}
    roles, there = (_texts(one.get("adminRoles")) for one in (former, tenant.settings))
    if not roles <= there:
        both = ",".join(sorted(roles | there))
        yield command("tenants", "update", tenant.name, "--admin-roles", both)


def _of_namespace(settings: DumpedSettings, namespace: NamespacePlan, plan: SettingsPlan) -> Iterator[str]:
    if namespace.former is None:
        former = sorted({namespace_of(old) for new, old in plan.topics.items() if namespace_of(new) == namespace.name})
        yield comment(f"{namespace.name} stands for {', '.join(former)}: their policies are not compared")
        return
    told = settings.policies(namespace.former) or {}
    local = settings.local_policies(namespace.former) or {}
    for name, value in sorted({**_local(local), **told}.items()):
        if name in _UNSAID or not _is_set(value):
            continue
        if name == CLUSTERS:
            clusters = _texts(value)
            if len(clusters) > 1:
                yield comment(f"{namespace.name} was replicated between {', '.join(sorted(clusters))}")
        elif not _holds(name, value, namespace.policies.get(name)):
            why = namespace.why_not.get(name)
            told_why = "" if why is None else f"  {comment(why)}"
            yield from (line + told_why for line in namespace_commands(namespace.name, name, value))


def _holds(name: str, value: object, there: object) -> bool:
    """Whether a former policy holds: what was set by cluster may be so for another name of it."""
    if is_within(value, there):
        return True
    if name == OFFLOAD and isinstance(value, Mapping) and isinstance(there, Mapping):
        return is_within({one: told for one, told in value.items() if one != "offloadersDirectory"}, there)
    if name not in BY_CLUSTER or not isinstance(value, Mapping) or not isinstance(there, Mapping):
        return False
    return len(value) == len(there) == 1 and is_within(next(iter(value.values())), next(iter(there.values())))


def _of_topics(settings: DumpedSettings, plan: SettingsPlan) -> Iterator[str]:
    """Yield what single topics had set for themselves, as far as a dump has that, for those that are restored."""
    names: dict[str, str] = {}
    for new, old in plan.topics.items():
        names.setdefault(split_partition(old)[0], split_partition(new)[0])
    for namespace in sorted({namespace_of(old) for old in names}):
        answer = settings.topic_policies.get(namespace)
        if answer is None:
            continue
        if answer.trouble is not None:
            yield comment(f"what topics of {namespace} had set for themselves is not known: {answer.trouble}")
        for key, told in sorted(answer.policies.items()):
            topic = names.get(key.removesuffix(_GLOBAL))
            if topic is not None:
                for name, value in sorted(told.items()):
                    yield topic_command(topic_of(topic), name, value, is_global=key.endswith(_GLOBAL))


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


def _damage_told(lines: Callable[[], Iterator[str]]) -> list[str]:
    try:
        return list(lines())
    except CorruptMetadataError as error:
        return [comment(f"{error.key}: {error.reason}")]
