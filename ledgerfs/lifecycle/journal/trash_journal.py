"""Writing lines of the trash journal, under the lock of the cluster, and taking them back."""

from collections.abc import Iterable, Sequence

from ledgerfs.errors import CorruptMetadataError, NotFoundError, RefusedLedgerError
from ledgerfs.lifecycle.journal.noted_line import NotedLine, parse_noted_line
from ledgerfs.lifecycle.journal.trash_line import (
    TRASH,
    TrashLine,
    TrashState,
    build_trash_line,
    parse_trash_node_name,
)
from ledgerfs.storage.zookeeper.changes import ClusterLock, DropNode, MakeNode, Operation

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


def undo(lock: ClusterLock, name: str) -> TrashLine | None:
    """Take a line back by the name of its node, and return it; None for one that could not be read, and is dropped as it is.

    Nobody goes on from a line that cannot be read, and nothing else depends on it: a ledger that it marked is looked at anew, and what is
    left of one whose deletion had begun is called deleted by its list and there, or is an orphan. No ledger is touched.

    Raises `NotFoundError` for one that is not there, and `RefusedLedgerError` for one whose deletion has begun.
    """
    parse_trash_node_name(name)
    node = lock.node(f"{TRASH}/{name}")
    if node is None:
        raise NotFoundError("the trash journal has no such line", key=name)
    try:
        noted = parse_noted_line(node)
    except CorruptMetadataError:
        # At the version that could not be read: what may be put there meanwhile stays.
        lock.commit([DropNode(node.path, node.version)])
        return None
    if noted.line.state is not TrashState.MARKED:
        raise RefusedLedgerError(
            f"its deletion has begun ({noted.line.state.value}), and cannot be taken back", key=name
        )
    drop(lock, [noted])
    return noted.line
