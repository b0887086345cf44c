"""``python -m interop.held_service FOLDER POINT ARGUMENTS…``: ledgerfs that is held at one point of its work, for what happens meanwhile.

Each thread that comes to the point makes the file ``reached`` in the folder, and goes on once there is the file ``go``. If it is killed
there, it has died at that step; its session for the lock is as short as ZooKeeper grants one.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ledgerfs.layouts.pulsar_blob.writer as ledger_writer
from ledgerfs.cli import main
from ledgerfs_cluster.offload import one_step
from ledgerfs_cluster.zookeeper.changes import ClusterLock, Operation, SetNode
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster
from ledgerfs_cluster.zookeeper.nodes import Nodes

_SESSION_S = 4.0
_PAUSE_S = 0.02


def hold_at(point: str, hold: Callable[[], None]) -> None:
    """Have the program call ``hold`` at a point.

    These are: ``data``, the data object is complete, and the index is not sent; ``index``, both are there, and not read back; ``set`` and
    ``after``, right before and right after the list of a topic is set.
    """
    if point == "data":
        ledger_writer.publish = _held(ledger_writer.publish, before=hold)
    elif point == "index":
        name = "write_ledger"
        setattr(one_step, name, _held(getattr(one_step, name), after=hold))
    elif point in {"set", "after"}:
        _hold_commits(hold, is_before=point == "set")
    else:
        raise ValueError(f"no such point: {point}")


def _nothing() -> None:
    pass


def _held(does: Any, before: Callable[[], None] = _nothing, after: Callable[[], None] = _nothing) -> Any:
    def held(*arguments: Any, **named: Any) -> Any:
        before()
        done = does(*arguments, **named)
        after()
        return done

    return held


def _hold_commits(hold: Callable[[], None], *, is_before: bool) -> None:
    name = "commit"
    commit = getattr(ClusterLock, name)

    def held(lock: ClusterLock, operations: Sequence[Operation]) -> None:
        sets = any(isinstance(one, SetNode) and one.path.startswith("/managed-ledgers/") for one in operations)
        if sets and is_before:
            hold()
        commit(lock, operations)
        if sets and not is_before:
            hold()

    setattr(ClusterLock, name, held)


def shorten_sessions() -> None:
    """Have sessions of the program be as short as ZooKeeper grants one."""
    cluster = ClusterFileSystem.cluster

    def shorter(self: ClusterFileSystem, servers: str) -> LivingCluster:
        return replace(cluster(self, servers), nodes=Nodes(servers, timeout_s=_SESSION_S))

    ClusterFileSystem.cluster = shorter  # type: ignore[method-assign]


def _run(folder: Path, point: str, arguments: list[str]) -> None:
    def hold() -> None:
        (folder / "reached").touch()
        while not (folder / "go").exists():
            time.sleep(_PAUSE_S)

    hold_at(point, hold)
    shorten_sessions()
    sys.argv = ["ledgerfs", *arguments]
    main()


if __name__ == "__main__":
    _run(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
