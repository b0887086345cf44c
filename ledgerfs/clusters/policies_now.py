"""What is set for one topic, and for its namespace, at this moment: brokers set policies without a change of the topic's list."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ledgerfs.clusters.answers import BookieReads
from ledgerfs.clusters.bundles import namespace_of
from ledgerfs.clusters.partitioned_topics import parse_partitions, partitioned_path
from ledgerfs.clusters.policies import NamespacePolicies
from ledgerfs.clusters.questions import ManyNodes, Questions
from ledgerfs.clusters.survey import CHANGE_EVENTS, Survey
from ledgerfs.clusters.survey_builder import POLICIES, SurveyBuilder
from ledgerfs.errors import CorruptMetadataError, LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.managed_ledgers.names import COMPACTION, cursor_path, managed_ledger_path
from ledgerfs.formats.schemas.stored_schema import locator_path
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.storage.zookeeper.node import Node

_MOST_PARTITIONS = 10_000


@dataclass(frozen=True, slots=True)
class SetPolicies:
    """What is set for a namespace, and for one of its topics alone; None for what could not be read, or is not there."""

    of_namespace: NamespacePolicies | None
    of_topic: NamespacePolicies | None


def set_policies(survey: Survey, managed_ledgers: Iterable[str]) -> dict[str, SetPolicies]:
    """Return {managed ledger: what a survey has of it}."""
    not_read = survey.namespaces_not_read()
    found = {}
    for name in managed_ledgers:
        namespace = namespace_of(name)
        own = None if namespace in not_read else survey.own_policies(name)
        found[name] = SetPolicies(survey.policies.get(namespace), own)
    return found


def policies_now(
    nodes: ManyNodes, managed_ledger: str, bookies: BookieReads | None, ledgers_path: str = "/ledgers"
) -> SetPolicies:
    """Read what is set for a topic: the node of its namespace, and all events of policies that the namespace has.

    ``nodes`` should not be those of a server that may be behind. Raises the errors of ZooKeeper; those of bookies are nothing known.
    """
    namespace, builder = namespace_of(managed_ledger), SurveyBuilder(ledgers_path)
    events = f"{namespace}/persistent/{CHANGE_EVENTS}"
    for path in (f"{POLICIES}/{namespace}", locator_path(topic_of(events))):
        for node in _found(nodes, [path]):
            builder.take(node)
    topics = [events, *(f"{events}-partition-{number}" for number in range(_partitions(nodes, events)))]
    # Lists before cursors, as builders want it, and as surveys read them.
    for path in (*map(managed_ledger_path, topics), *(cursor_path(one, COMPACTION) for one in topics)):
        for node in _found(nodes, [path]):
            builder.take(node)
    for answer in Questions(builder, nodes, bookies, ledgers_path).answers():
        builder.answer(answer)
    return set_policies(builder.survey("", 0), [managed_ledger])[managed_ledger]


def _partitions(nodes: ManyNodes, topic: str) -> int:
    """Return how many partitions the topic of events has: none, mostly; raises `CorruptMetadataError` for no number, or too great a one."""
    for node in _found(nodes, [partitioned_path(topic)]):
        count = parse_partitions(node.data, key=node.path)
        if count > _MOST_PARTITIONS:
            raise CorruptMetadataError(f"{count:,} are too many partitions of a topic of events", key=node.path)
        return count
    return 0


def _found(nodes: ManyNodes, paths: list[str]) -> Iterator[Node]:
    for node in nodes.get_many(paths):
        if isinstance(node, LedgerfsError) and not isinstance(node, ObjectNotFoundError):
            raise node
        if isinstance(node, Node):
            yield node
