"""Writing lines of the trash journal, under the lock of the cluster, and taking them back."""

from collections.abc import Iterable, Sequence

from ledgerfs.errors import NotFoundError, ObjectNotFoundError, RefusedLedgerError
from ledgerfs.lifecycle.journal.noted_line import NotedLine, parse_noted_line
from ledgerfs.lifecycle.journal.trash_line import (
    TRASH,
    TrashLine,
    TrashState,
    build_trash_line,
    parse_trash_node_name,
)
from ledgerfs.storage.zookeeper.changes import ClusterLock, MakeNode, Operation
from ledgerfs.storage.zookeeper.nodes import Nodes

_AT_ONCE = 100
"""Lines that one commit makes or removes."""


def mark(lock: ClusterLock, lines: Iterable[TrashLine]) -> None:
    """Write lines down, nothing of which is there yet; raises `ChangedMeanwhileError` for one that is."""
    _commit_all(lock, [MakeNode(one.path, build_trash_line(one)) for one in lines])


def drop(lock: ClusterLock, lines: Sequence[NotedLine]) -> None:
    """Remove lines that are as they were read; raises `ChangedMeanwhileError` for one that is not."""
    _commit_all(lock, [one.as_dropped() for one in lines])


def _commit_all(lock: ClusterLock, changes: Sequence[Operation]) -> None:
    for start in range(0, len(changes), _AT_ONCE):
        lock.commit(changes[start : start + _AT_ONCE])


def undo(lock: ClusterLock, nodes: Nodes, name: str) -> TrashLine:
    """Take a line back by the name of its node, and return it.

    Raises `NotFoundError` for one that is not there, and `RefusedLedgerError` for one whose deletion has begun.
    """
    parse_trash_node_name(name)
    try:
        node = nodes.get(f"{TRASH}/{name}")
    except ObjectNotFoundError as error:
        raise NotFoundError("the trash journal has no such line", key=name) from error
    noted = parse_noted_line(node)
    if noted.line.state is not TrashState.MARKED:
        raise RefusedLedgerError(
            f"its deletion has begun ({noted.line.state.value}), and cannot be taken back", key=name
        )
    drop(lock, [noted])
    return noted.line
