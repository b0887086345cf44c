"""Opening what offloads the topics of a cluster into a bucket: the lock, the ledgers, and what brokers find offloads by."""

import json
import os
import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import UnusableUrlError
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
from ledgerfs_cluster.offload.offload_bucket import OffloadBucket, OpenBucket
from ledgerfs_cluster.offload.offload_driver import user_metadata
from ledgerfs_cluster.offload.one_step import OneStep
from ledgerfs_cluster.offload.owners import TopicOwners
from ledgerfs_cluster.snapshot.cluster_names import only_cluster
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.cluster_clock import ClusterClock
from ledgerfs_cluster.zookeeper.filesystem import PROTOCOL, ClusterFileSystem
from ledgerfs_cluster.zookeeper.nodes import Nodes

SERVICE = "lifecycle service"
"""What the holder of a lock is that goes on with all that is due."""


def holder_text(what: str) -> bytes:
    """Return what the holder of a cluster's lock says of itself to others that want it: what it is, host and process, as JSON."""
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "what": what}).encode()


def opened_step(
    closing: ExitStack, cluster: str, cluster_options: Mapping[str, Any] | None, place: OffloadBucket
) -> tuple[Nodes, OneStep]:
    """Return the nodes of a cluster, and what offloads its topics; ``closing`` ends both. Raises as `ManagedLedger.open`."""
    if not cluster.startswith(f"{PROTOCOL}://"):
        raise UnusableUrlError(f"not the URL of a cluster: {PROTOCOL}://host:port,host:port[/chroot]", key=cluster)
    living = ClusterFileSystem(**(cluster_options or {})).cluster(cluster.removeprefix(f"{PROTOCOL}://").rstrip("/"))
    closing.callback(living.nodes.close)
    took_ms = time.time_ns() // 1_000_000
    lock = closing.enter_context(ClusterLock.take(living.nodes.settings, holder_text("ManagedLedger")))
    clock = ClusterClock(lock, took_ms)
    metadata = user_metadata(only_cluster(lock.newest()))
    tier = OpenBucket(place, open_bucket(place.url, place.options), metadata)
    owners = TopicOwners(lock)
    return living.nodes, OneStep(
        lock, ClosedLedgers(living), owners, tier, noted_ms=clock.later_ms, url_of=place.url_of
    )
