"""Read many nodes while their paths are found; skip nodes that are deleted meanwhile."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.zookeeper.nodes import Nodes

Result = TypeVar("Result")


def paths_below(nodes: Nodes, folders: Iterable[str]) -> Iterator[str]:
    """Yield the paths of the direct children of some nodes; raises the errors of ZooKeeper."""
    for folder, names in answered(nodes.children_many, folders):
        for name in names:
            yield f"{folder}/{name}"


def answered(
    ask: Callable[[Iterable[str]], Iterator[Result | LedgerfsError]], paths: Iterable[str]
) -> Iterator[tuple[str, Result]]:
    """Yield each existing path with its answer; raises all errors except those of missing nodes."""
    asked: deque[str] = deque()

    def noted() -> Iterator[str]:
        for path in paths:
            asked.append(path)
            yield path

    for answer in ask(noted()):
        path = asked.popleft()
        if isinstance(answer, ObjectNotFoundError):
            continue
        if isinstance(answer, LedgerfsError):
            raise answer
        yield path, answer
