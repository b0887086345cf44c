"""Reading nodes where what is read decides what is deleted: as they are now, not as a server that is behind has them.

`ledgerfs.storage.zookeeper.nodes.Nodes` reads a whole cluster, of any server, in sessions that follow each other. The holder of a lock has
one session alone, so what it reads is never older than what it has written, or read, before.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.replies import Parse, Result, children_at, node_at
from ledgerfs.storage.zookeeper.requests import GET_CHILDREN, GET_DATA

if TYPE_CHECKING:
    from ledgerfs.storage.zookeeper.changes import ClusterLock


class NodeReader(Protocol):
    """What reads single nodes: `ledgerfs.storage.zookeeper.nodes.Nodes`, and `NewestNodes`."""

    def get(self, path: str) -> Node:
        """Return one node; raises `ObjectNotFoundError` if there is none, and the errors of ZooKeeper."""
        ...

    def get_many(self, paths: Iterable[str]) -> Iterator[Node | LedgerfsError]:
        """Yield each node, in the order of ``paths``, or the error that is about this node alone."""
        ...

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the nodes right below one. Raises the errors of `get`."""
        ...


class NewestNodes:
    """Nodes as they were when this was made, or as they became later; never as they were before. In the session of a `ClusterLock`."""

    __slots__ = ("_lock",)

    def __init__(self, lock: "ClusterLock") -> None:
        self._lock = lock

    def get(self, path: str) -> Node:
        """Return one node. Raises `ObjectNotFoundError` if there is none, and the errors of `ClusterLock.node`."""
        return self._one(GET_DATA, path, node_at)

    def get_many(self, paths: Iterable[str]) -> Iterator[Node | LedgerfsError]:
        """Yield each node, in the order of ``paths``, or `ObjectNotFoundError`. Raises the errors of `ClusterLock.node`."""
        yield from self._lock.read_on(GET_DATA, list(paths), node_at)

    def children(self, path: str) -> list[str]:
        """Return the sorted names of the nodes right below one. Raises the errors of `get`."""
        return self._one(GET_CHILDREN, path, children_at)

    def _one(self, opcode: int, path: str, parse: Parse[Result]) -> Result:
        (found,) = self._lock.read_on(opcode, [path], parse)
        if isinstance(found, ObjectNotFoundError):
            raise found
        return found
