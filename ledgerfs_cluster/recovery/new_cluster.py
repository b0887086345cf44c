"""Existing contents of the new cluster: topics, ledger ids, and namespace policies that would delete restored data.

For clients a topic and its partitions have one name. They would treat partitions of two topics as one topic; and they get no messages of a
topic beside partitions with its name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs.schemas.saved_schemas import SchemaStore
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_id_at
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_of
from ledgerfs_cluster.offload.offload_driver import OffloadDriver
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.recovery.dumped_cluster import partitioned_path
from ledgerfs_cluster.recovery.journal import (
    NEW_IDS,
    is_of_note,
    new_ids_of,
    nodes_below,
    note_path,
    parse_new_ids,
    parse_note,
)
from ledgerfs_cluster.recovery.report import TopicRecovery
from ledgerfs_cluster.recovery.settings.namespaces import deleting_policy
from ledgerfs_cluster.snapshot.answered_nodes import answered, paths_below
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.managed_ledger_paths import managed_ledger_paths
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.snapshot.survey_builder import POLICIES
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from ledgerfs_cluster.zookeeper.node import Node
from ledgerfs_cluster.zookeeper.nodes import Nodes

END_OF_IDS = 1 << 35
"""Pulsar Functions with effectively-once processing count by ``ledgerId << 28 | entryId`` (``FunctionCommon.getSequenceId``): 63 bits."""
_OTHER_NAME = "restore under another name (--as)"

Publish = Callable[[str, str, bytes], None]
"""Sends one message: topic, key, and value."""


@dataclass(frozen=True, slots=True)
class NewCluster:
    """The new cluster, and options for restoring topics into it.

    Attributes
    ----------
    cluster
        Its ZooKeeper.
    requests
        To any of its brokers, with permission to list and create tenants.
    driver
        The driver with which its brokers find the objects.
    publish
        Sends snapshots of aborted transactions; None if no restored topic has transactions.
    looks_for_transactions
        Whether all entries are searched for transactions; otherwise brokers show aborted messages, if there are any.
    gives_new_ids
        Whether ledgers with conflicting ids are copied under new ones.
    stores
        Places of saved schemas.
    sets_schemas
        Whether schemas are restored at all.

    """

    cluster: LivingCluster
    requests: AdminRequests
    driver: OffloadDriver
    publish: Publish | None = None
    looks_for_transactions: bool = True
    gives_new_ids: bool = False
    stores: tuple[SchemaStore, ...] = ()
    sets_schemas: bool = True

    @property
    def nodes(self) -> Nodes:
        """Its metadata."""
        return self.cluster.nodes

    @property
    def ledgers_path(self) -> str:
        """Root of its BookKeeper's nodes."""
        return self.cluster.reading.ledgers_path


@dataclass(frozen=True, slots=True)
class Found:
    """Existing contents of the new cluster that concern a recovery.

    Attributes
    ----------
    owners
        {id of a ledger to restore that exists in the cluster: managed ledgers that list it, "" for BookKeeper}.
    named
        Offloaded ledgers in its lists: the id, and the first half of the uuid.
    noted
        Ids that runs have recorded for copies of ledgers.
    ours
        (source, target) of topics that were restored before, from the same bucket.
    taken
        {managed ledger that cannot be created in the new cluster: the conflict, and how to resolve it}.
    own
        Managed ledgers of the bucket that are the new cluster's own: its lists contain all their ledgers, and no dump contains them.

    """

    owners: Mapping[int, tuple[str, ...]]
    named: AbstractSet[tuple[int, int]]
    noted: AbstractSet[int]
    ours: AbstractSet[tuple[str, str]]
    taken: Mapping[str, str]
    own: AbstractSet[str]

    def clash(self, topic: TopicRecovery) -> str | None:
        """Return why the ledgers of a topic cannot keep their ids; None if they can."""
        large = [ref.ledger_id for ref in topic.ledgers if ref.ledger_id >= END_OF_IDS]
        if large:
            return f"{len(large):,} of its ledger ids are too large for a cluster (2^35 or more), such as {large[0]}"
        found: dict[int, str] = {}
        for ref in topic.ledgers:
            others = [one for one in self.owners.get(ref.ledger_id, ()) if one != topic.target]
            if others:
                # Prefer a topic's name over BookKeeper's.
                found[ref.ledger_id] = max(others)
        if not found:
            return None
        ledger_id, owner = next(iter(found.items()))
        whose = topic_of(owner) if owner else "BookKeeper"
        return f"{len(found):,} of its ledger ids are already used in the new cluster, such as {ledger_id} (by {whose})"


def look(nodes: Nodes, topics: Sequence[TopicRecovery], bucket: str, ledgers_path: str = "/ledgers") -> Found:
    """Return the new cluster's current contents.

    Reads all lists: an id in a list must not become another ledger's, since brokers address BookKeeper and caches by id alone.
    Raises the errors of ZooKeeper, and `CorruptMetadataError` for an unreadable list or record.
    """
    nodes.catch_up()
    wanted = {ref.ledger_id for one in topics for ref in one.ledgers}
    owners: dict[int, tuple[str, ...]] = {}
    # List folders: the ids of a bucket are close together, and a new cluster has few of them.
    folders = sorted({ledger_path(one, ledgers_path).rpartition("/")[0] for one in wanted})
    for path in paths_below(nodes, folders):
        ledger_id = ledger_id_at(path, ledgers_path)
        if ledger_id in wanted:
            owners[ledger_id] = ("",)
    lists = dict[str, Node]()
    named: set[tuple[int, int]] = set()
    for path, node in answered(nodes.get_many, managed_ledger_paths(nodes)):
        name = managed_ledger_of(path)
        if name is not None:
            lists[name] = node
            for one in _ledgers_in(node):
                if one.ledger_id in wanted:
                    owners[one.ledger_id] = (*owners.get(one.ledger_id, ()), name)
                if one.context is not None and one.context.uuid is not None:
                    named.add((one.ledger_id, uuid_halves(one.context.uuid)[0]))
    noted = {one for node in nodes_below(nodes, NEW_IDS) for one in parse_new_ids(node).new}
    return Found(owners, named, noted, *_places(nodes, lists, topics, bucket))


def _places(
    nodes: Nodes, lists: Mapping[str, Node], topics: Sequence[TopicRecovery], bucket: str
) -> tuple[set[tuple[str, str]], dict[str, str], set[str]]:
    """Return topics restored before, conflicts of others, and the new cluster's own topics (`Found`)."""
    near: dict[str, list[str]] = {one.whole: [] for one in topics}
    for name in lists:
        if (stem := split_partition(name)[0]) in near:
            near[stem].append(name)
    sources = _restored_from(nodes, lists, [name for names in near.values() for name in names])
    partitioned = dict(answered(nodes.get_many, (partitioned_path(one.target) for one in topics)))
    # Several topics may have one target.
    ours = {(one.source, one.target) for one in topics if sources.get(one.target) == (one.source, bucket)}
    taken: dict[str, str] = {}
    own: set[str] = set()
    # Targets of a template are copies, and not sources of further copies.
    made = {one.target for one in topics if one.source != one.target}
    for one in topics:
        if (one.source, one.target) in ours:
            continue
        is_made = one.source == one.target or one.source in made
        # A topic beside partitions of its own name was so in the lost cluster: only a warning (`together`).
        others = [
            name
            for name in near[one.whole]
            if split_partition(sources.get(name, ("", ""))[0])[0] != split_partition(one.source)[0]
        ]
        if is_made and one.source in lists and _has_all(lists[one.source], one):
            # Another topic may have been restored under its name.
            own.add(one.source)
        elif one.target in lists:
            taken[one.target] = f"the new cluster already has a topic with this name: {_OTHER_NAME}"
        elif partitioned_path(one.target) in partitioned and not near[one.whole]:
            reason = "the new cluster already has a partitioned topic with this name, and clients would use that one"
            taken[one.target] = f"{reason}: {_OTHER_NAME}"
        elif others:
            reason = f"the new cluster has {topic_of(others[0])}, which clients would treat as the same topic"
            taken[one.target] = f"{reason}: {_OTHER_NAME}"
    return ours, taken, own


def _restored_from(nodes: Nodes, lists: Mapping[str, Node], names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return {restored topic: (former managed ledger, bucket)} from the cluster's records."""
    found: dict[str, tuple[str, str]] = {}
    by_path = {note_path(name): name for name in sorted(names)}
    for path, node in answered(nodes.get_many, by_path):
        if is_of_note(lists[by_path[path]], node):
            note = parse_note(node)
            found[by_path[path]] = (note.source, note.bucket)
    return found


def _has_all(node: Node, topic: TopicRecovery) -> bool:
    """Return whether a list contains all copies to restore; False with a dump, which may list more ledgers than the bucket has."""
    if topic.info is not None or not topic.ledgers:
        return False
    named = {(one.ledger_id, one.context.uuid) for one in _ledgers_in(node) if one.context is not None}
    return {(ref.ledger_id, ref.uuid) for ref in topic.ledgers} <= named


def _ledgers_in(node: Node) -> tuple[LedgerInfo, ...]:
    return parse_managed_ledger_info(node.data, key=node.path).ledgers if node.data else ()


def beside_others(nodes: Nodes, topics: Iterable[TopicRecovery], catalog: Catalog) -> dict[str, str]:
    """Return {source: reason} of topics whose new name already has other ledgers in the bucket.

    Ignores copies that an interrupted run has made of the topic under that name, by its record of new ids.
    Raises `CorruptMetadataError` for an invalid record, and the errors of ZooKeeper.
    """
    reasons: dict[str, str] = {}
    for one in topics:
        if one.target == one.source:
            continue
        ids = {lacking.ledger_id for lacking in catalog.absent_of(one.target)}
        ids |= {ref.ledger_id for ref in catalog.refs_of(one.target)}
        noted = new_ids_of(nodes, one.target) if ids else None
        others = sorted(ids if noted is None else ids.difference(noted.new))
        if others:
            reasons[one.source] = (
                f"the bucket already has other ledgers of {one.target_topic}, such as {others[0]}, which are not of {one.topic}: readers "
                "of the bucket would see both as one topic, but brokers only one of them. Choose another name (--as)"
            )
    return reasons


def deleting(nodes: Nodes, topics: Iterable[TopicRecovery]) -> dict[str, str]:
    """Return {source: reason} of planned topics whose restored data brokers would delete or acknowledge.

    A restored ledger that a broker trims is deleted in the bucket. Ignores namespaces that do not exist yet.
    """
    planned = {one.source: namespace_of(one.target) for one in topics if one.is_planned}
    paths = {f"{POLICIES}/{one}": one for one in sorted({*planned.values()})}
    found = {
        paths[path]: deleting_policy(json_object(node.data, key=path)) for path, node in answered(nodes.get_many, paths)
    }
    return {
        source: (
            f"brokers would delete or expire the restored messages, also in the bucket: {namespace} has {policy}. Remove this policy "
            f"first (retention with `pulsar-admin namespaces set-retention {namespace} --time -1 --size -1`)"
        )
        for source, namespace in planned.items()
        if (policy := found.get(namespace)) is not None
    }
