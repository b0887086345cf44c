"""What the new cluster has already: topics, ids of ledgers, and what its namespaces would have brokers delete."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.errors import ObjectNotFoundError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.formats.uuid_halves import uuid_halves
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_id_at
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.formats.managed_ledgers.node_kinds import managed_ledger_at
from ledgerfs_cluster.recovery.planning.topic_plan import TopicPlan
from ledgerfs_cluster.recovery.settings.carried_policies import deleting_policy
from ledgerfs_cluster.recovery.topics.journal import (
    NEW_IDS,
    Note,
    is_of_note,
    new_ids_path,
    nodes_below,
    note_path,
    parse_new_ids,
    parse_note,
)
from ledgerfs_cluster.recovery.topics.places import places_of
from ledgerfs_cluster.snapshot.answered_nodes import answered, paths_below
from ledgerfs_cluster.snapshot.managed_ledger_paths import managed_ledger_paths
from ledgerfs_cluster.snapshot.policies import json_object
from ledgerfs_cluster.snapshot.survey_builder import POLICIES
from ledgerfs_cluster.zookeeper.node import Node
from ledgerfs_cluster.zookeeper.nodes import Nodes

END_OF_IDS = 1 << 35
"""Functions of Pulsar that process each message once count by ``ledgerId << 28 | entryId`` (``FunctionCommon.getSequenceId``): 63 bits."""


@dataclass(frozen=True, slots=True)
class Found:
    """What there is in the new cluster of what is to be restored.

    Attributes
    ----------
    ours
        (Source, target) of the topics that were restored before, from the same bucket.
    owners
        {id of a ledger that is to be restored, and is known in the cluster: managed ledgers that list it, "" for BookKeeper}.
    taken
        {managed ledger that cannot be made in the new cluster: what is there, and what to do about it, in words}.
    own
        Managed ledgers of the bucket that are the new cluster's own: there is nothing to restore of them.
    named
        Offloaded ledgers that its lists name: the id, and the first half of the uuid.
    noted
        Ids that runs have noted for copies of ledgers.

    """

    ours: frozenset[tuple[str, str]]
    owners: Mapping[int, tuple[str, ...]]
    taken: Mapping[str, str]
    own: frozenset[str]
    named: AbstractSet[tuple[int, int]] = frozenset()
    noted: AbstractSet[int] = frozenset()

    def clash(self, plan: TopicPlan) -> str | None:
        """Return why the ledgers of a topic cannot keep their ids; None if they can."""
        large = [ref.ledger_id for ref in plan.ledgers if ref.ledger_id >= END_OF_IDS]
        if large:
            return f"{len(large):,} of its ids are greater than those of a cluster (2^35), such as {large[0]}"
        found = [
            (ref.ledger_id, other)
            for ref in plan.ledgers
            for other in self.owners.get(ref.ledger_id, ())
            if other != plan.target
        ]
        if not found:
            return None
        ledger_id = found[0][0]
        # A name tells more than that BookKeeper has it, too.
        owner = max(other for one, other in found if one == ledger_id)
        whose = topic_of(owner) if owner else "BookKeeper"
        return (
            f"{len({one for one, _ in found}):,} of its ids are taken in the new cluster, such as {ledger_id} ({whose})"
        )


def look(nodes: Nodes, plans: Sequence[TopicPlan], bucket: str, ledgers_path: str = "/ledgers") -> Found:
    """Return what the new cluster has, no older than this moment. Raises `CorruptMetadataError` for a list that cannot be read.

    All lists are read: an id that one of them has must not be another ledger's, since a broker asks BookKeeper and its caches by the id.
    """
    nodes.catch_up()
    wanted = {ref.ledger_id for plan in plans for ref in plan.ledgers}
    owners: dict[int, tuple[str, ...]] = {}
    # By their folders: ids of a bucket are near each other, and a new cluster has few of them.
    folders = sorted({ledger_path(one, ledgers_path).rpartition("/")[0] for one in wanted})
    for path in paths_below(nodes, folders):
        ledger_id = ledger_id_at(path, ledgers_path)
        if ledger_id in wanted:
            owners[ledger_id] = ("",)
    lists = dict[str, Node]()
    named: set[tuple[int, int]] = set()
    for path, node in answered(nodes.get_many, managed_ledger_paths(nodes)):
        name = managed_ledger_at(path, node.data)
        if name is not None:
            lists[name] = node
            ledgers = parse_managed_ledger_info(node.data, key=path).ledgers if node.data else ()
            for one in ledgers:
                if one.ledger_id in wanted:
                    owners[one.ledger_id] = (*owners.get(one.ledger_id, ()), name)
                if one.context is not None and one.context.uuid is not None:
                    named.add((one.ledger_id, uuid_halves(one.context.uuid)[0]))
    ours, taken, own = places_of(nodes, lists, plans, bucket)
    noted = {one for node in nodes_below(nodes, NEW_IDS) for one in parse_new_ids(node).new}
    return Found(ours, owners, taken, own, named, noted)


def beside_others(nodes: Nodes, plans: Iterable[TopicPlan], catalog: Catalog) -> dict[str, str]:
    """Return {source: why not} of topics that are not to be made under another name, since the bucket has ledgers of that name.

    Copies that a run which did not end has made there of the topic, under ids of which it left a note, are none of these.
    Raises `CorruptMetadataError` for a note that is none, and the errors of ZooKeeper.
    """
    told: dict[str, str] = {}
    for plan in plans:
        if plan.target == plan.source:
            continue
        ids = {one.ledger_id for one in catalog.absent_of(plan.target)}
        ids |= {ref.ledger_id for ref in catalog.refs_of(plan.target)}
        others = sorted(ids - _noted_ids(nodes, plan.target)) if ids else []
        if others:
            told[plan.source] = (
                f"the bucket has ledgers of {plan.target_topic}, such as {others[0]}, which are none of {plan.topic}: readers of the "
                "bucket would take both for one topic, and brokers would serve one of them. Give it another name (--as)"
            )
    return told


def _noted_ids(nodes: Nodes, target: str) -> set[int]:
    """Return the ids that were noted for the copies of a topic."""
    return {one for _, node in answered(nodes.get_many, [new_ids_path(target)]) for one in parse_new_ids(node).new}


def brokers_delete(nodes: Nodes, namespaces: Collection[str]) -> dict[str, str]:
    """Return of each namespace by whose policies brokers delete, or acknowledge, what is restored, which policy that is, in words.

    A restored ledger that a broker trims is deleted in the bucket. Namespaces that are not there yet are left out.
    """
    nodes_of = answered(nodes.get_many, (f"{POLICIES}/{one}" for one in sorted(namespaces)))
    told = {
        path.removeprefix(f"{POLICIES}/"): deleting_policy(json_object(node.data, key=path)) for path, node in nodes_of
    }
    return {namespace: policy for namespace, policy in told.items() if policy is not None}


def note_of(nodes: Nodes, target: str) -> Note | None:
    """Return the note of a topic that was restored, and is still the one that was made then; None for others."""
    try:
        made, note = nodes.get(managed_ledger_path(target)), nodes.get(note_path(target))
    except ObjectNotFoundError:
        return None
    return parse_note(note) if is_of_note(made, note) else None
