"""A snapshot of a cluster: ZooKeeper's ledgers, topics, subscriptions, schemas and policies, as columns.

It is read from a cluster or from a dump. A node that cannot be parsed is in `Survey.damaged`, and its topic is left out.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ledgerfs.formats.array_types import Int64, Mask
from ledgerfs.formats.topic_names import split_partition
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_of, is_of_transactions, managed_ledger_of
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import BundleOwners, namespace_of
from ledgerfs_cluster.snapshot.policies import NOTHING_SET, NamespacePolicies
from ledgerfs_cluster.snapshot.tables import DELAYED, Table

CHANGE_EVENTS = "__change_events"
"""The topic with the topic policies of a namespace."""

_OF_EVENTS = frozenset(
    {
        CHANGE_EVENTS,
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
    }
)
_OF_COORDINATORS = "pulsar/system/persistent/transaction_coordinator_assign"
_BROKERS_NAMESPACE = re.compile(r"pulsar/system|pulsar/(?:[^/]+/)?[^:]+:[0-9]+|sla-monitor/[^/]+/[^:]+:[0-9]+")


class DamagedNode(NamedTuple):
    """An invalid node."""

    path: str
    reason: str


class TopicLedgers(NamedTuple):
    """The ledgers of one topic, by ascending id, and the source of the last one's end.

    Attributes
    ----------
    ids, entries, sizes, closed_ms
        Shape (ledgers,); sizes in bytes, times in ms since 1970 UTC, 0 for a ledger that the list does not show as closed.
    are_offloaded
        Whether an offload is complete.
    last_end
        Source of the last ledger's end.

    """

    ids: Int64
    entries: Int64
    sizes: Int64
    closed_ms: Int64
    are_offloaded: Mask
    last_end: LastEnd


@dataclass(frozen=True, slots=True)
class Survey:
    """State of a cluster at one time.

    Attributes
    ----------
    source
        The URL of the cluster, or the file of the dump.
    read_ms
        End of reading, ms since 1970 UTC.
    topics
        Names of managed ledgers; their rows are ``topic_table`` (`TOPIC`), their ledgers ``listed`` (`LISTED`, by topic and id).
    cursors
        Rows of `CURSOR`, by topic, with ``cursor_names``.
    ledgers
        Nodes of ledgers, rows of `LEDGER` by id. Read before the lists of topics: an unlisted ledger is newer, or an orphan.
    schemas
        Rows of `SCHEMA`.
    fragments, members, bookie_names
        Bookies of entries: rows of `FRAGMENT` by ledger, and of `MEMBER`.
    words, drivers
        Names, and offload drivers with properties, that many rows share.
    policies
        {namespace: its policies}.
    topic_policies
        {managed ledger without a partition number: the topic's own policies}.
    namespaces_read
        Namespaces whose topic policies were read.
    damaged, troubles
        Parts that could not be read: nodes, and answers of bookies.
    began_ms
        Time of the first node read, or before; ms since 1970 UTC, 0 if unknown.
    delayed
        Rows of `DELAYED`: ledgers that subscriptions reference as buckets of delayed messages.
    bookies
        Available bookies, also read-only ones.
    clusters
        Names of all clusters in its metadata, its own included.
    damaged_ledgers
        Ids of ledgers with damaged nodes: these ledgers exist.
    ledgers_path
        Root of BookKeeper's metadata.
    neighbours
        Folders directly below the root that are chroots of other Pulsar clusters.

    """

    source: str
    read_ms: int
    topics: list[str]
    topic_table: Table
    listed: Table
    cursors: Table
    cursor_names: list[str]
    ledgers: Table
    schemas: Table
    fragments: Table
    members: Table
    bookie_names: list[str]
    words: list[str]
    drivers: list[tuple[str | None, tuple[tuple[str, str], ...]]]
    policies: dict[str, NamespacePolicies]
    topic_policies: dict[str, NamespacePolicies]
    namespaces_read: frozenset[str]
    owners: BundleOwners
    damaged: list[DamagedNode]
    troubles: list[str]
    began_ms: int = 0
    delayed: Table = field(default_factory=lambda: np.empty(0, DELAYED))
    bookies: frozenset[str] = frozenset()
    clusters: frozenset[str] = frozenset()
    damaged_ledgers: frozenset[int] = frozenset()
    ledgers_path: str = "/ledgers"
    neighbours: tuple[str, ...] = ()

    def ledgers_of(self, topic: int) -> TopicLedgers:
        """Return the ledgers of the topic in a row."""
        row = self.topic_table[topic]
        rows = self.listed[int(row["first"]) : int(row["first"]) + int(row["ledgers"])]
        entries, sizes = rows["entries"].copy(), rows["size"].copy()
        end = LastEnd(int(row["last_end"]))
        if rows.size and end in {LastEnd.CLOSED, LastEnd.OPEN, LastEnd.GONE}:
            entries[-1], sizes[-1] = row["last_entries"], row["last_size"]
        return TopicLedgers(rows["ledger_id"], entries, sizes, rows["closed_ms"], rows["is_complete"], end)

    def cursors_of(self, topic: int) -> Table:
        """Return the rows of the cursors of the topic in a row."""
        row = self.topic_table[topic]
        return self.cursors[int(row["first_cursor"]) : int(row["first_cursor"]) + int(row["cursors"])]

    def is_terminated(self, topic: int) -> bool:
        """Whether nothing more can be published to the topic in a row."""
        return bool(self.topic_table["terminated_ledger"][topic] >= 0)

    def namespaces_not_read(self) -> frozenset[str]:
        """Return the namespaces whose policies were not read completely: others may apply to their topics.

        Either their topic of policies could not be read, because of its damaged list or subscription (compaction's references the older
        events). Or this ZooKeeper has no node of them; a configuration store of several clusters may have it.
        """
        damaged = filter(None, (_topic_at(one.path) for one in self.damaged))
        without_answer = frozenset(namespaces_of_events(self.topics)) - self.namespaces_read
        with_topics = frozenset(map(namespace_of, self.topics))
        elsewhere = (one for one in with_topics - self.policies.keys() if _BROKERS_NAMESPACE.fullmatch(one) is None)
        return without_answer | frozenset(namespaces_of_events(damaged)) | frozenset(elsewhere)

    def own_policies(self, managed_ledger: str) -> NamespacePolicies:
        """Return a topic's own policies; a partition has those of its topic."""
        return self.topic_policies.get(split_partition(managed_ledger)[0], NOTHING_SET)

    def policies_of(self, managed_ledger: str) -> NamespacePolicies:
        """Return a topic's policies, with unset values from its namespace."""
        return self.own_policies(managed_ledger).over(self.policies.get(namespace_of(managed_ledger), NOTHING_SET))


def is_system_topic(managed_ledger: str) -> bool:
    """Return whether brokers treat a topic as a system topic (``SystemTopicNames.isSystemTopic``): no namespace retention applies to it.

    Other names that begin with __, such as those of Kafka's protocol, are ordinary topics.
    """
    topic, _ = split_partition(managed_ledger)
    return topic.startswith(_OF_COORDINATORS) or is_of_transactions(topic) or topic.rpartition("/")[2] in _OF_EVENTS


def is_of_brokers(managed_ledger: str) -> bool:
    """Return whether a topic is a system topic, or in a broker namespace (``BrokerService.isSystemTopic``): nothing in it expires."""
    return is_system_topic(managed_ledger) or _BROKERS_NAMESPACE.fullmatch(namespace_of(managed_ledger)) is not None


def _topic_at(path: str) -> str | None:
    """Return the managed ledger of a node: of a ledger list, or of a cursor."""
    return managed_ledger_of(path) or (cursor_of(path) or (None, ""))[0]


def namespaces_of_events(topics: Iterable[str]) -> Iterator[str]:
    """Yield the namespace of each topic of policies and of each of its partitions."""
    for name in topics:
        namespace, _, local = name.rpartition("/")
        if local == CHANGE_EVENTS or local.startswith(f"{CHANGE_EVENTS}-partition-"):
            yield namespace.removesuffix("/persistent")
