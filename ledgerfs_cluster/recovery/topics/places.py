"""Whether a topic can be made in the new cluster under the name that it is to have: what is there, and what clients would take for it.

Clients know a topic and its partitions by one name. Partitions of two topics there would be one topic to them; of a topic beside
partitions of its name they get none of its messages.
"""

from collections.abc import Iterable, Mapping, Sequence

from ledgerfs.formats.topic_names import split_partition, topic_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.recovery.planning.topic_plan import TopicPlan
from ledgerfs_cluster.recovery.topics.journal import is_of_note, note_path, parse_note
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.partitioned_topics import partitioned_path
from ledgerfs_cluster.zookeeper.node import Node
from ledgerfs_cluster.zookeeper.nodes import Nodes

_OTHER_NAME = "restore under another name (--as)"


def places_of(
    nodes: Nodes, lists: Mapping[str, Node], plans: Sequence[TopicPlan], bucket: str
) -> tuple[frozenset[tuple[str, str]], dict[str, str], frozenset[str]]:
    """Return which (source, target) were restored before, in the same bucket, and why other targets cannot be made.

    The last are managed ledgers of the bucket that are the new cluster's own: its lists have all of them, and no dump knows them. ``lists``
    are all of the new cluster. Raises the errors of ZooKeeper, and `CorruptMetadataError` for a note, or a list, that is none.
    """
    near = _of_one_topic(lists, (plan.target for plan in plans))
    sources = _restored_from(nodes, lists, {name for names in near.values() for name in names})
    partitioned = dict(answered(nodes.get_many, (partitioned_path(plan.target) for plan in plans)))
    # Several plans may have one target.
    ours = frozenset((plan.source, plan.target) for plan in plans if sources.get(plan.target) == (plan.source, bucket))
    taken: dict[str, str] = {}
    own: set[str] = set()
    # What a template makes of others is not what it is to make another one of.
    made = {plan.target for plan in plans if plan.source != plan.target}
    for plan in plans:
        if (plan.source, plan.target) in ours:
            continue
        others = near[split_partition(plan.target)[0]]
        why: str | None
        is_made = plan.source == plan.target or plan.source in made
        if is_made and plan.source in lists and _has_all(lists[plan.source], plan):
            # Another one may have been restored under the name that it has.
            own.add(plan.source)
            continue
        if plan.target in lists:
            why = f"the new cluster has a topic of this name, {_what_to_do(lists[plan.target])}"
        elif partitioned_path(plan.target) in partitioned and not others:
            why = f"the new cluster has a partitioned topic of this name, to which clients are sent: {_OTHER_NAME}"
        else:
            why = _stranger(plan, others, sources)
        if why is not None:
            taken[plan.target] = why
    return ours, taken, frozenset(own)


def _of_one_topic(lists: Mapping[str, Node], targets: Iterable[str]) -> dict[str, list[str]]:
    """Return {name without the number of a partition: what the cluster has of it}, for all names that are wanted."""
    found: dict[str, list[str]] = {split_partition(target)[0]: [] for target in targets}
    for name in lists:
        group = found.get(split_partition(name)[0])
        if group is not None:
            group.append(name)
    return found


def _restored_from(nodes: Nodes, lists: Mapping[str, Node], names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return of topics of the cluster that were restored which managed ledgers they were, and of which bucket."""
    found: dict[str, tuple[str, str]] = {}
    by_path = {note_path(name): name for name in sorted(names)}
    for path, node in answered(nodes.get_many, by_path):
        name = by_path[path]
        note = parse_note(node) if is_of_note(lists[name], node) else None
        if note is not None:
            found[name] = (note.source, note.bucket)
    return found


def _stranger(plan: TopicPlan, near: Iterable[str], sources: Mapping[str, tuple[str, str]]) -> str | None:
    """Return which topic of the cluster clients would take for one with this topic; None without such a one."""
    whole = split_partition(plan.source)[0]
    for name in near:
        # A topic beside partitions of its own name was so in the lost cluster, and is told (`plan_topics`).
        if split_partition(sources.get(name, ("", ""))[0])[0] != whole:
            return f"the new cluster has {topic_of(name)}, which clients would take for the same topic: {_OTHER_NAME}"
    return None


def _has_all(node: Node, plan: TopicPlan) -> bool:
    """Whether a list names all copies that are to be restored; what a dump knows of a topic may be more than the bucket has."""
    if plan.former.is_known or not (plan.ledgers and node.data):
        return False
    ledgers = parse_managed_ledger_info(node.data, key=node.path).ledgers
    named = {(one.ledger_id, one.context.uuid) for one in ledgers if one.context is not None}
    return {(ref.ledger_id, ref.uuid) for ref in plan.ledgers} <= named


def _what_to_do(node: Node) -> str:
    ledgers = parse_managed_ledger_info(node.data, key=node.path).ledgers if node.data else ()
    if any(one.context is not None for one in ledgers):
        return (
            "whose list names offloaded ledgers: to delete it would delete their objects, perhaps those of this bucket. "
            "Restore under another name (--as)"
        )
    return "without offloaded ledgers: delete it there, if nobody needs it, or restore under another name (--as)"
