"""What is known of ledgers besides their entries: BookKeeper's metadata, and which topics list them; from ZooKeeper or a dump of it.

Nodes are kept as bytes, one after the other, so that a million of them are some hundred megabytes, and parsed when they are asked for.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ledgerfs.clusters.dump_file import DumpHeader
from ledgerfs.clusters.kept_dumps import read_dump_at
from ledgerfs.clusters.lists_of_ledgers import list_of_ledgers
from ledgerfs.clusters.surveying import Progress
from ledgerfs.clusters.walk import LEDGERS, TOPICS, Walk
from ledgerfs.errors import CorruptMetadataError, InvalidOptionError, ObjectNotFoundError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerNode, ledger_id_at, ledger_path, parse_ledger_node
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs.formats.managed_ledgers.node_kinds import managed_ledger_at
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.storage.disks.bookie_disks import BookieDisks
from ledgerfs.storage.disks.disk_files import DiskListing
from ledgerfs.storage.zookeeper.filesystem import PROTOCOL, ClusterFileSystem
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster
from ledgerfs.storage.zookeeper.node import Node

SCHEME = f"{PROTOCOL}://"
_EVERY = 1024
_INSTANCE = "INSTANCEID"


@dataclass(frozen=True, slots=True)
class KnownLedgers:
    """The ledgers of a cluster as its metadata has them.

    Attributes
    ----------
    source
        Where the metadata is from: a URL, or the path of a dump.
    ledgers_path
        Where BookKeeper keeps it.
    ids
        The ids of all ledgers, ascending; shape (ledgers,).
    topics
        {managed ledger: its list}, or why that cannot be read.
    instance_id
        The id of the cluster; None if it has none.

    """

    source: str
    ledgers_path: str
    ids: Int64
    topics: dict[str, tuple[LedgerInfo, ...] | CorruptMetadataError]
    instance_id: str | None
    _newest: int
    _created_ms: Int64
    _starts: Int64
    _data: bytearray

    def require_same_cluster(self, listing: DiskListing) -> None:
        """Raise `InvalidOptionError` if this is the metadata of another cluster than that of the disks."""
        if None not in {listing.instance_id, self.instance_id} and listing.instance_id != self.instance_id:
            reason = f"it is of the cluster {self.instance_id}, and the disks are of {listing.instance_id}"
            raise InvalidOptionError(reason, key=f"metadata={self.source}")

    def may_lack(self, ledger_id: int) -> bool:
        """Whether a ledger that the metadata does not have may have been made after it was saved, since ids ascend.

        Of a dump that is not certain: it may have been deleted before. What ZooKeeper itself does not have is deleted.
        """
        if self.source.startswith(SCHEME):
            return False
        return ledger_id > self._newest

    def node(self, ledger_id: int) -> LedgerNode | None:
        """Return the metadata of a ledger, None if there is no such ledger; raises `CorruptMetadataError` for a damaged node."""
        row = self._row(ledger_id)
        if row is None:
            return None
        data = bytes(self._data[int(self._starts[row]) : int(self._starts[row + 1])])
        found = parse_ledger_node(data, ledger_id, key=ledger_path(ledger_id, self.ledgers_path))
        # Pulsar's ledgers do not say when they were made: brokers take the time of the node, too.
        return found if found.created_ms is not None else replace(found, created_ms=int(self._created_ms[row]) or None)

    def state(self, ledger_id: int) -> str:
        """Return the state of a ledger in a word."""
        try:
            node = self.node(ledger_id)
        except CorruptMetadataError:
            return "damaged"
        return "deleted" if node is None else node.state.name.lower()

    def owner(self, ledger_id: int) -> str:
        """Return whose a ledger is by its own metadata: a topic, a subscription, a schema; ``?`` if that does not tell."""
        try:
            node = self.node(ledger_id)
        except CorruptMetadataError:
            return "?"
        if node is None:
            return "-"
        component, name = node.component or "", node.owner or "?"
        cursor = node.told("pulsar/cursor")
        if cursor is not None:
            return f"{topic_of(name)}, subscription {cursor}"
        return topic_of(name) if component == "managed-ledger" else f"{component} {name}".strip()

    def _row(self, ledger_id: int) -> int | None:
        row = int(np.searchsorted(self.ids, ledger_id))
        return row if row < self.ids.size and self.ids[row] == ledger_id else None


def known_ledgers(disks: BookieDisks, progress: Progress | None = None) -> KnownLedgers | None:
    """Read the metadata of disks; None if the user names none.

    Raises `NotFoundError` and `CorruptObjectError` for a dump that is none, is damaged or not finished, `BucketNotFoundError` if servers
    have no ledgers, `AccessDeniedError`, `StoreUnreachableError`. Damaged nodes raise nothing before they are asked for.
    """
    source = disks.metadata
    if source is None:
        return None
    if source.startswith(SCHEME):
        options = {"ledgers_path": disks.ledgers_path, **disks.metadata_options}
        cluster = ClusterFileSystem(**options).cluster(source.removeprefix(SCHEME).rstrip("/"))
        if disks.open_end == "recovered":
            _require_dead(cluster)
        return _from_zookeeper(cluster, progress)
    return _from_dump(source, disks.ledgers_path, progress)


def _require_dead(cluster: LivingCluster) -> None:
    """Raise `InvalidOptionError` if bookies are registered: they may have, and write, what these disks do not."""
    path = f"{cluster.reading.ledgers_path}/available"
    alive = [*_children(cluster, path), *_children(cluster, f"{path}/readonly")]
    alive = [name for name in alive if name != "readonly"]
    if alive:
        reason = (
            f"bookies of this cluster are alive ({', '.join(alive[:3])}): where its open ledgers end is theirs to tell"
        )
        raise InvalidOptionError(reason, key="open_end=recovered")


def _children(cluster: LivingCluster, path: str) -> list[str]:
    try:
        return list(cluster.nodes.children(path))
    except ObjectNotFoundError:
        return []


class _Taken:
    """Nodes as they come."""

    def __init__(self, ledgers_path: str) -> None:
        self.ledgers_path = ledgers_path
        self._ids, self._created_ms, self._starts = array("q"), array("q"), array("q", [0])
        self._data = bytearray()
        self._instance_id: str | None = None
        self._topics: dict[str, tuple[LedgerInfo, ...] | CorruptMetadataError] = {}

    def take(self, node: Node) -> None:
        """Take a node of any kind."""
        ledger_id = ledger_id_at(node.path, self.ledgers_path)
        if ledger_id is not None:
            self._ids.append(ledger_id)
            self._created_ms.append(node.created_ms)
            self._data += node.data
            self._starts.append(len(self._data))
            return
        if node.path == f"{self.ledgers_path}/{_INSTANCE}":
            self._instance_id = node.data.decode("utf-8", "replace").strip() or None
            return
        name = managed_ledger_at(node.path, node.data)
        if name is not None:
            try:
                self._topics[name] = list_of_ledgers(node).ledgers
            except CorruptMetadataError as error:
                self._topics[name] = error

    def known(self, source: str) -> KnownLedgers:
        """Return all that was taken."""
        ids = np.frombuffer(self._ids, np.int64) if self._ids else np.zeros(0, np.int64)
        starts = np.frombuffer(self._starts, np.int64)
        if not (np.diff(ids) > 0).all():
            ids, starts = self._sort(ids, starts)
        created_ms = np.frombuffer(self._created_ms, np.int64) if self._created_ms else np.zeros(0, np.int64)
        listed = (info.ledger_id for infos in self._topics.values() if isinstance(infos, tuple) for info in infos)
        newest = max(int(ids[-1]) if ids.size else -1, max(listed, default=-1))
        return KnownLedgers(
            source, self.ledgers_path, ids, self._topics, self._instance_id, newest, created_ms, starts, self._data
        )

    def _sort(self, ids: Int64, starts: Int64) -> tuple[Int64, Int64]:
        """Put all in the order of ids; of a ledger that was read twice the later node stays."""
        order = np.argsort(ids, kind="stable")
        order = order[np.append(np.diff(ids[order]) != 0, True)]
        data = bytearray()
        behind = array("q", [0])
        for row in order.tolist():
            data += self._data[int(starts[row]) : int(starts[row + 1])]
            behind.append(len(data))
        self._data = data
        self._created_ms = array("q", np.frombuffer(self._created_ms, np.int64)[order].tobytes())
        return ids[order], np.frombuffer(behind, np.int64)


def _from_dump(place: str, ledgers_path: str, progress: Progress | None) -> KnownLedgers:
    taken = _Taken(ledgers_path)
    for done, record in enumerate(read_dump_at(place), 1):
        if isinstance(record, DumpHeader):
            taken = _Taken(record.ledgers_path)
        elif isinstance(record, Node):
            taken.take(record)
        if progress is not None and done % _EVERY == 0:
            progress("reading the dump", done, None)
    return taken.known(place)


def _from_zookeeper(cluster: LivingCluster, progress: Progress | None) -> KnownLedgers:
    """Read ledgers, then lists: what is made between the two has no entry that any list names yet."""
    taken = _Taken(cluster.reading.ledgers_path)
    for done, node in enumerate(_nodes(cluster), 1):
        taken.take(node)
        if progress is not None and done % _EVERY == 0:
            progress("reading ZooKeeper", done, None)
    return taken.known(cluster.url)


def _nodes(cluster: LivingCluster) -> Iterator[Node]:
    walk = Walk(cluster.nodes, cluster.reading.ledgers_path)
    yield from (
        node
        for node in cluster.nodes.get_many([f"{cluster.reading.ledgers_path}/{_INSTANCE}"])
        if isinstance(node, Node)
    )
    yield from walk.part(LEDGERS)
    yield from walk.part(TOPICS)
