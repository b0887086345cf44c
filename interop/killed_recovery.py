"""``python -m interop.killed_recovery STEP ARGUMENTS…``: ledgerfs that dies as by SIGKILL at one step of a recovery.

Its session for the lock is as short as ZooKeeper grants one, so that the next run need not wait long.
"""

import os
import signal
import sys
from typing import Any, NamedTuple

from interop.held_service import shorten_sessions
from ledgerfs.cli import main
from ledgerfs_cluster.pulsar_admin.schemas import AdminApi
from ledgerfs_cluster.recovery import recovery
from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService
from ledgerfs_cluster.recovery.restoring import Restoring
from ledgerfs_cluster.zookeeper.changes import ClusterLock


class Step(NamedTuple):
    """The n-th call of a function of the program, before or after what it does."""

    place: Any
    name: str
    call: int = 1
    is_after: bool = False


STEPS = {
    "nothing is changed": Step(recovery, "advance_ids"),
    "ids are advanced": Step(recovery, "advance_ids", is_after=True),
    "ids of transactions are advanced": Step(recovery, "advance_transactions", is_after=True),
    "namespaces are made": Step(recovery, "make_namespaces", is_after=True),
    "a strategy is lifted": Step(AdminApi, "register"),
    "some schemas are set": Step(AdminApi, "register", 3, is_after=True),
    "schemas are set, and the strategies are not": Step(recovery, "set_strategies"),
    "a snapshot is published": Step(PulsarService, "publish", 1, is_after=True),
    "the first topic is about to be made": Step(Restoring, "_commit_of", 1, is_after=True),
    "some topics are made": Step(ClusterLock, "commit", 9, is_after=True),
    "partitions are not counted": Step(recovery, "set_partitions"),
    "partitions are counted": Step(recovery, "set_partitions", is_after=True),
    "the bucket was listed again": Step(recovery, "lost_since", is_after=True),
}
"""In the order of a run."""


def die_at(step: Step) -> None:
    """Have the program die there."""
    does = getattr(step.place, step.name)
    calls = 0

    def deadly(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == step.call and not step.is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = does(*arguments, **named)
        if calls == step.call:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    setattr(step.place, step.name, deadly)


if __name__ == "__main__":
    die_at(STEPS[sys.argv[1]])
    shorten_sessions()
    sys.argv = ["ledgerfs", *sys.argv[2:]]
    main()
