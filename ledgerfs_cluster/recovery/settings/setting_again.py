"""Tenants, namespaces and schemas of the topics that are restored: planned, made by the new cluster's brokers, and what is left by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ledgerfs.errors import CorruptMetadataError, InvalidNameError
from ledgerfs.formats.topic_names import parse_managed_ledger_name, split_partition, topic_of
from ledgerfs.schemas.schema_store import SchemaStore
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs_cluster.recovery.planning.topic_plan import TopicPlan
from ledgerfs_cluster.recovery.settings.carried_policies import NewCluster
from ledgerfs_cluster.recovery.settings.namespaces import SettingsPlan, new_cluster, plan_settings
from ledgerfs_cluster.recovery.settings.schema_plan import SchemaPlan, plan_schemas
from ledgerfs_cluster.recovery.settings.schema_sources import known_versions
from ledgerfs_cluster.recovery.settings.schemas import Strategies, StrategyNotes, restore_all_schemas
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.policies import OffloadTarget
from ledgerfs_cluster.zookeeper.changes import ClusterLock


@dataclass(frozen=True, slots=True)
class SettingsOfTopics:
    """What is to be set before topics are restored.

    Attributes
    ----------
    schemas
        By the managed ledger in the new cluster, of all partitions together.
    refused
        {former managed ledger: why its topic is not restored}.
    remarks
        What somebody has to know, a sentence each.

    """

    cluster: NewCluster
    settings: SettingsPlan
    schemas: Mapping[str, SchemaPlan]
    refused: Mapping[str, str]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SettingAgain:
    """Sets them through brokers.

    Attributes
    ----------
    requests
        To any broker of the new cluster, by somebody who may see and make tenants.
    former
        What the dump of the lost cluster tells.
    stores
        Where schemas are saved.
    tier
        Where the new cluster's brokers find the bucket.
    sets_schemas
        Whether schemas are set at all.
    hides_lost
        Whether deletions take the numbers of schemas that are lost.

    """

    requests: AdminRequests
    former: DumpedSettings = field(default_factory=DumpedSettings)
    stores: tuple[SchemaStore, ...] = ()
    tier: OffloadTarget | None = None
    sets_schemas: bool = True
    hides_lost: bool = False

    def plan(self, plans: Sequence[TopicPlan]) -> SettingsOfTopics:
        """Return what has to be set for topics; nothing is changed. Raises the errors of the admin API and of saved schemas."""
        wanted = {one.target: one.source for one in plans if one.refusal is None}
        cluster = new_cluster(self.requests, self.tier)
        settings = plan_settings(self.requests, wanted, self.former, cluster)
        schemas = self._schemas({_whole(target): _whole(source) for target, source in wanted.items()}, settings)
        troubles = {one.name: one.trouble for one in settings.tenants}
        troubles |= {one.name: one.trouble for one in settings.namespaces}
        refused: dict[str, str] = {}
        for target, source in wanted.items():
            namespace = namespace_of(target)
            plan = schemas.get(_whole(target))
            why = troubles.get(namespace) or troubles.get(namespace.partition("/")[0])
            if why := why or (None if plan is None else plan.trouble):
                refused[source] = why
        remarks = [f"namespace {one.name}: {remark}" for one in settings.namespaces for remark in one.remarks]
        remarks += [f"{topic_of(name)}: {remark}" for name, plan in schemas.items() for remark in _remarks(plan)]
        return SettingsOfTopics(cluster, settings, schemas, refused, tuple(remarks))

    def set_schemas(self, lock: ClusterLock, planned: SettingsOfTopics, plans: Sequence[TopicPlan]) -> dict[str, str]:
        """Set the schemas of topics; return {former managed ledger: why not all are there}. Raises what ends all of them."""
        strategies = Strategies(self.requests, StrategyNotes(lock))
        strategies.put_back_all()
        topics = {one.source: topic_of(_whole(one.target)) for one in plans}
        due = [plan for plan in planned.schemas.values() if plan.topic in topics.values()]
        failed = restore_all_schemas(AdminApi(self.requests), strategies, due)
        return {source: str(failed[topic]) for source, topic in topics.items() if topic in failed}

    def _schemas(self, wanted: Mapping[str, str], settings: SettingsPlan) -> dict[str, SchemaPlan]:
        """Return a plan of each topic that has schemas; ``wanted`` is {managed ledger in the new cluster: the former one}."""
        if not self.sets_schemas:
            return {}
        new = {one.name for one in settings.namespaces if one.is_new}
        found: dict[str, SchemaPlan] = {}
        for target, source in wanted.items():
            if parse_managed_ledger_name(source) is None or parse_managed_ledger_name(target) is None:
                continue
            try:
                versions = known_versions(topic_of(source), self.former, self.stores)
            except (CorruptMetadataError, InvalidNameError) as error:
                found[target] = SchemaPlan(
                    topic_of(target), (), conflict=f"what is known of its schemas is damaged: {error}"
                )
                continue
            if versions:
                is_new = namespace_of(target) in new
                there = () if is_new else AdminApi(self.requests).versions(topic_of(target))
                found[target] = plan_schemas(topic_of(target), versions, there, hides_lost=self.hides_lost)
        return found


def _whole(managed_ledger: str) -> str:
    """Return the partitioned topic of a partition, whose schemas are those of all; any other name as it is."""
    return split_partition(managed_ledger)[0]


def _remarks(plan: SchemaPlan) -> list[str]:
    told = []
    if plan.lost and plan.hides_lost:
        told.append(f"schema versions {_listed(plan.lost)} are lost: their messages come as bytes")
    if plan.former:
        told.append(
            f"schema versions {_listed(plan.former)} meant others before a forced deletion: old messages come as bytes"
        )
    return told


def _listed(numbers: "Sequence[int] | Mapping[int, str]") -> str:
    return ", ".join(map(str, sorted(numbers)))
