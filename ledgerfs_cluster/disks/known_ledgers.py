"""Metadata of ledgers from ZooKeeper or a dump of it: BookKeeper's nodes, and the topics that list each ledger.

Nodes are parsed on demand.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ledgerfs.errors import CorruptMetadataError, InvalidOptionError, ObjectNotFoundError
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.disks.disk_files import DiskListing
from ledgerfs_cluster.disks.filesystem import BookieDisks
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_id_at, ledger_path, parse_ledger_node
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_of
from ledgerfs_cluster.snapshot.dump_file import DumpHeader
from ledgerfs_cluster.snapshot.kept_dumps import read_dump_at
from ledgerfs_cluster.snapshot.managed_ledger_paths import list_of_ledgers
from ledgerfs_cluster.snapshot.surveying import Progress
from ledgerfs_cluster.snapshot.walk import LEDGERS, TOPICS, Walk
from ledgerfs_cluster.zookeeper.filesystem import PROTOCOL, ClusterFileSystem
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from ledgerfs_cluster.zookeeper.node import Node

SCHEME = f"{PROTOCOL}://"
_EVERY = 1024
_INSTANCE = "INSTANCEID"


@dataclass(slots=True)
class KnownLedgers:
    """The ledgers in a cluster's metadata; if a ledger was read twice, the later node counts.

    Attributes
    ----------
    source
        Source of the metadata: a URL, or the path of a dump.
    ledgers_path
        BookKeeper's root path.
    nodes
        {id: (data of the ledger's node, creation time of the node, ms since 1970 UTC)}, of all ledgers.
    topics
        {managed ledger: its list, or the error of reading it}.
    instance_id
        The id of the cluster; None if it has none.
    newest
        The greatest ledger id in the metadata, or -1.

    """

    source: str
    ledgers_path: str
    nodes: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    topics: dict[str, tuple[LedgerInfo, ...] | CorruptMetadataError] = field(default_factory=dict)
    instance_id: str | None = None
    newest: int = -1

    def take(self, node: Node) -> None:
        """Add a node of any kind."""
        ledger_id = ledger_id_at(node.path, self.ledgers_path)
        if ledger_id is not None:
            self.nodes[ledger_id] = node.data, node.created_ms
            self.newest = max(self.newest, ledger_id)
        elif node.path == f"{self.ledgers_path}/{_INSTANCE}":
            self.instance_id = node.data.decode("utf-8", "replace").strip() or None
        elif (name := managed_ledger_of(node.path)) is not None:
            try:
                infos = list_of_ledgers(node).ledgers
            except CorruptMetadataError as error:
                self.topics[name] = error
            else:
                self.topics[name] = infos
                self.newest = max([self.newest, *(info.ledger_id for info in infos)])

    def require_same_cluster(self, listing: DiskListing) -> None:
        """Raise `InvalidOptionError` if this metadata and the disks are of different clusters."""
        if None not in {listing.instance_id, self.instance_id} and listing.instance_id != self.instance_id:
            reason = (
                f"the metadata is of cluster {self.instance_id}, but the disks are of cluster {listing.instance_id}; "
                "pass --metadata of the same cluster"
            )
            raise InvalidOptionError(reason, key=f"metadata={self.source}")

    def may_lack(self, ledger_id: int) -> bool:
        """Return whether a ledger missing in the metadata may have been created after it was saved, since ids ascend.

        That is uncertain for a dump: the ledger may have been deleted before. A ledger missing in ZooKeeper is deleted.
        """
        if self.source.startswith(SCHEME):
            return False
        return ledger_id > self.newest

    def node(self, ledger_id: int) -> LedgerNode | None:
        """Return the metadata of a ledger, None if there is no such ledger; raises `CorruptMetadataError` for a damaged node."""
        if ledger_id not in self.nodes:
            return None
        data, made_ms = self.nodes[ledger_id]
        found = parse_ledger_node(data, ledger_id, key=ledger_path(ledger_id, self.ledgers_path))
        # Pulsar's ledgers do not contain their creation time: use that of the node, as brokers do.
        return found if found.created_ms is not None else replace(found, created_ms=made_ms or None)

    def owner(self, ledger_id: int) -> str:
        """Return the owner in a ledger's own metadata: a topic, a subscription, a schema; ``?`` if it has none, ``-`` without a ledger."""
        try:
            node = self.node(ledger_id)
        except CorruptMetadataError:
            return "?"
        if node is None:
            return "-"
        component, name = node.component or "", node.owner or "?"
        cursor = node.reported("pulsar/cursor")
        if cursor is not None:
            return f"{topic_of(name)}, subscription {cursor}"
        return topic_of(name) if component == "managed-ledger" else f"{component} {name}".strip()


def known_ledgers(disks: BookieDisks, progress: Progress | None = None) -> KnownLedgers | None:
    """Read the metadata of disks; None if the user names none.

    Raises `NotFoundError` and `CorruptObjectError` for a missing, damaged or unfinished dump, `BucketNotFoundError` if servers have no
    ledgers, `AccessDeniedError`, `StoreUnreachableError`. Damaged nodes raise no errors before they are used.
    """
    source = disks.metadata
    if source is None:
        return None
    if source.startswith(SCHEME):
        options = {"ledgers_path": disks.ledgers_path, **disks.metadata_options}
        cluster = ClusterFileSystem(**options).cluster(source.removeprefix(SCHEME).rstrip("/"))
        if disks.open_end == "recovered":
            _require_dead(cluster)
        known, phase = KnownLedgers(cluster.url, cluster.reading.ledgers_path), "reading ZooKeeper"
        records: Iterator[object] = _nodes(cluster)
    else:
        known, phase = KnownLedgers(source, disks.ledgers_path), "reading the dump"
        records = read_dump_at(source)
    for done, record in enumerate(records, 1):
        if isinstance(record, DumpHeader):
            known.ledgers_path = record.ledgers_path
        elif isinstance(record, Node):
            known.take(record)
        if progress is not None and done % _EVERY == 0:
            progress(phase, done, None)
    return known


def _require_dead(cluster: LivingCluster) -> None:
    """Raise `InvalidOptionError` if bookies are registered: they may have entries, and write more, that these disks lack."""
    path = f"{cluster.reading.ledgers_path}/available"
    alive = [*_children(cluster, path), *_children(cluster, f"{path}/readonly")]
    alive = [name for name in alive if name != "readonly"]
    if alive:
        reason = (
            f"bookies of this cluster are running ({', '.join(alive[:3])}) and may have more entries of open ledgers: "
            "stop them, or do not set open_end=recovered"
        )
        raise InvalidOptionError(reason, key="open_end=recovered")


def _children(cluster: LivingCluster, path: str) -> list[str]:
    try:
        return list(cluster.nodes.children(path))
    except ObjectNotFoundError:
        return []


def _nodes(cluster: LivingCluster) -> Iterator[Node]:
    """Yield ledgers, then lists: a ledger created in between has no entry that a list counts yet."""
    walk = Walk(cluster.nodes, cluster.reading.ledgers_path)
    found = cluster.nodes.get_many([f"{cluster.reading.ledgers_path}/{_INSTANCE}"])
    yield from (node for node in found if isinstance(node, Node))
    yield from walk.part(LEDGERS)
    yield from walk.part(TOPICS)
