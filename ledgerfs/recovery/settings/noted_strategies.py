"""`StrategyNotes` in the new cluster's ZooKeeper, beside the notes of restored topics."""

import json
from collections.abc import Mapping

from ledgerfs.clusters.answered_nodes import answered
from ledgerfs.errors import CorruptMetadataError, ObjectNotFoundError
from ledgerfs.storage.zookeeper.changes import ClusterLock, DropNode, MakeNode
from ledgerfs.storage.zookeeper.node import Node

_ROOT = "/ledgerfs/recovery/strategies"


class NotedStrategies:
    """Strategies of namespaces that have to be put back; all methods raise the errors of the lock."""

    __slots__ = ("_lock",)

    def __init__(self, lock: ClusterLock) -> None:
        self._lock = lock

    def noted(self) -> Mapping[str, str]:
        """Return {namespace: its strategy}."""
        return {_told(node, "namespace"): _told(node, "strategy") for node in self._nodes()}

    def note(self, namespace: str, strategy: str) -> None:
        """Note what has to be put back."""
        told = json.dumps({"namespace": namespace, "strategy": strategy}).encode()
        self._lock.commit([MakeNode(_path(namespace), told)])

    def forget(self, namespace: str) -> None:
        """Note that nothing has to be put back any more."""
        node = self._lock.node(_path(namespace))
        if node is not None:
            self._lock.commit([DropNode(node.path, node.version)])

    def _nodes(self) -> list[Node]:
        nodes = self._lock.newest()
        try:
            names = nodes.children(_ROOT)
        except ObjectNotFoundError:
            return []
        return [node for _, node in answered(nodes.get_many, (f"{_ROOT}/{name}" for name in names))]


def _path(namespace: str) -> str:
    # No tenant or namespace has a comma.
    return f"{_ROOT}/{namespace.replace('/', ',')}"


def _told(node: Node, name: str) -> str:
    try:
        told = json.loads(node.data)[name]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptMetadataError("no note of a namespace's strategy", key=node.path) from error
    return str(told)
