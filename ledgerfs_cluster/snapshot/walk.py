"""The nodes of a cluster in the order of a snapshot: ledgers, then their possible owners, then policies and brokers.

Nodes are requested while their paths are found, so a million paths are never in memory at once; those of topics are.
"""

from collections.abc import Container, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from ledgerfs.errors import AccessDeniedError, BucketNotFoundError, ObjectNotFoundError
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import is_folder_of_ledgers, ledger_id_at, ledger_path
from ledgerfs_cluster.formats.bookkeeper.ledger_paths import layout_path, require_layout
from ledgerfs_cluster.formats.managed_ledgers.names import ROOT as MANAGED_LEDGERS
from ledgerfs_cluster.formats.stored_schema import ROOT as SCHEMAS
from ledgerfs_cluster.snapshot.answered_nodes import answered, paths_below
from ledgerfs_cluster.snapshot.bundles import BROKERS, NAMESPACES
from ledgerfs_cluster.snapshot.managed_ledger_paths import managed_ledger_paths
from ledgerfs_cluster.zookeeper.nodes import Node, Nodes

LEDGERS, TOPICS, SCHEMAS_PART, BOOKIES = "ledgers", "topics", "schemas", "bookies"
"""Parts of a walk; the first two are read first."""

_DEEPEST = 8
"""Maximum levels below a root that is walked completely; namespaces and schemas have at most four."""

_OTHERS = {
    SCHEMAS_PART: (SCHEMAS,),
    "policies": ("/admin/policies", "/admin/local-policies", "/admin/partitioned-topics", "/admin/clusters"),
    "brokers": (NAMESPACES, BROKERS),
}
_OWN_FOLDERS = frozenset({"zookeeper", "ledgers", "managed-ledgers", "schemas", "admin", "namespace", "loadbalance"})
"""Folders below the root: ZooKeeper's, and those of a Pulsar cluster, where tenants have folders of any name."""
_SETTINGS = ("LAYOUT", "INSTANCEID", "available", "available/readonly", "cookies")
"""BookKeeper's nodes besides ledgers: layout, instance id, and bookies (below the last three)."""

PARTS = (LEDGERS, TOPICS, *_OTHERS, BOOKIES)
"""All parts of a walk, in order."""


class Walk(NamedTuple):
    """The nodes of a cluster, part by part."""

    nodes: Nodes
    ledgers_path: str = "/ledgers"

    def part(self, name: str) -> Iterator[Node]:
        """Yield the nodes of one of `PARTS`; skips nodes that are deleted meanwhile.

        Raises `BucketNotFoundError` if these servers have no cluster, `UnsupportedFormatError` for an unknown ledger layout, and the errors
        of ZooKeeper.
        """
        if name == LEDGERS:
            return self._found(self._ledger_paths())
        if name == TOPICS:
            return self._topics_at(managed_ledger_paths(self.nodes))
        if name in _OTHERS:
            return self._found(path for root in _OTHERS[name] for path in self._all_below(root))
        return chain(self._found(self._settings()), self._neighbours())

    def _ledger_paths(self) -> Iterator[str]:
        root = self.ledgers_path
        for _, node in answered(self.nodes.get_many, [layout_path(root)]):
            require_layout(node.data, key=node.path)
        try:
            top = self.nodes.children(root)
        except ObjectNotFoundError as error:
            reason = "this ZooKeeper has no BookKeeper ledgers: it belongs to another cluster, or a path is missing (host:port/path)"
            raise BucketNotFoundError(reason, key=root) from error
        folders: Iterable[str] = (f"{root}/{name}" for name in top)
        # Two levels of folders contain ids of ten digits, four levels those of nineteen.
        for _ in range(4):
            deeper: list[str] = []
            for path in paths_below(self.nodes, (one for one in folders if is_folder_of_ledgers(one, root))):
                if ledger_id_at(path, root) is not None:
                    yield path
                elif is_folder_of_ledgers(path, root):
                    deeper.append(path)
            folders = deeper

    def new_topics(self, known: Container[str]) -> Iterator[Node]:
        """Yield topics at unknown paths, then their cursors: those created since topics were listed. Raises as `part`."""
        return self._topics_at([path for path in managed_ledger_paths(self.nodes) if path not in known])

    def named_ledgers(self, ledger_ids: Iterable[int]) -> Iterator[Node]:
        """Yield the nodes of ledgers, except those that BookKeeper does not have; raises as `part`."""
        return self._found(ledger_path(one, self.ledgers_path) for one in ledger_ids)

    def _topics_at(self, topics: list[str]) -> Iterator[Node]:
        """Yield topics, then their cursors."""
        have_cursors: list[str] = []
        for path, node in answered(self.nodes.get_many, topics):
            if node.children:
                have_cursors.append(path)
            yield node
        del topics
        yield from self._found(paths_below(self.nodes, have_cursors))

    def _settings(self) -> Iterator[str]:
        paths = [f"{self.ledgers_path}/{name}" for name in _SETTINGS]
        yield from paths
        yield from (path for path in paths_below(self.nodes, paths[2:]) if path not in paths)

    def _neighbours(self) -> Iterator[Node]:
        """Yield nodes that show other Pulsar clusters with folders (chroots) below the same root, as far as readable."""
        try:
            names = self.nodes.children("/")
        except (AccessDeniedError, ObjectNotFoundError):
            return
        paths = [f"/{name}{MANAGED_LEDGERS}" for name in names if name not in _OWN_FOLDERS]
        for path, node in zip(paths, self.nodes.get_many(paths), strict=True):
            if isinstance(node, AccessDeniedError):
                # It exists.
                yield Node(path, b"", 0, 0, 0, 0)
            elif isinstance(node, Node):
                yield node
            elif not isinstance(node, ObjectNotFoundError):
                raise node

    def _all_below(self, root: str) -> Iterator[str]:
        level: list[str] = [root]
        for _ in range(_DEEPEST):
            below = list(paths_below(self.nodes, level))
            yield from below
            level = below

    def _found(self, paths: Iterable[str]) -> Iterator[Node]:
        for _, node in answered(self.nodes.get_many, paths):
            yield node
