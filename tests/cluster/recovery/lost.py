"""A lost cluster and a new one, of ours: what a dump and a bucket have of the first, and how topics are restored into the second."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ledgerfs import open_bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import CursorInfo, parse_cursor_info
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.offload.offload_driver import driver_of_bucket
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster, read_dumped
from ledgerfs_cluster.recovery.new_cluster import NewCluster
from ledgerfs_cluster.recovery.planning import Wanted, plan_each, together
from ledgerfs_cluster.recovery.recovery import Lost, plan, run
from ledgerfs_cluster.recovery.report import Report, TopicRecovery
from ledgerfs_cluster.snapshot.dump_file import read_dump
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.nodes import Nodes
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.living_clusters import dumped, living
from tests.cluster.support.pulsar_settings import PulsarSettings, pulsar_settings


def dump_of(cluster: LiveCluster, path: Path) -> DumpedCluster:
    """Return what a dump of a cluster has, which is written to ``path``."""
    dumped(cluster, path)
    return read_dumped(lambda: read_dump(path))


def catalog_of(cluster: LiveCluster) -> Catalog:
    """Return the catalog of its bucket, as it is now."""
    return open_bucket(cluster.bucket_url()).refresh()


def plan_topics(
    catalog: Catalog, dump: DumpedCluster | None = None, wanted: Wanted | None = None
) -> list[TopicRecovery]:
    """Return the plans of all topics, without any new cluster."""
    return together(plan_each(catalog, dump, wanted), dump)


@contextmanager
def locked(cluster: LiveCluster) -> Iterator[tuple[ClusterLock, Nodes]]:
    """Take the lock of a cluster."""
    with living(cluster) as seen, ClusterLock.take(seen.nodes.settings, b"{}") as lock:
        yield lock, seen.nodes


FOREVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}


class Clusters:
    """A lost one, and a new one that has the same bucket, as nothing is written into another one's."""

    def __init__(self, old: LiveCluster, new: LiveCluster, brokers: PulsarSettings) -> None:
        self.old, self.new, self.brokers = old, new, brokers
        self.snapshots: dict[str, bytes] = {}
        self._into = new

    def publish(self, topic: str, key: str, data: bytes) -> None:
        """Keep a snapshot, as brokers do, by its topic."""
        namespace = key.removeprefix("persistent://").rpartition("/")[0]
        assert topic == f"persistent://{namespace}/__transaction_buffer_snapshot"
        assert self._into.chroot + managed_ledger_path(managed_ledger_of(key)) not in self._into.nodes
        self.snapshots[key] = data

    def rolled(self, topic: str, *entries: bytes) -> int:
        """Write a ledger of the lost cluster, and offload it."""
        ledger_id = self.old.write_ledger(topic, entries or messages(2))
        self.old.roll_over(topic)
        self.old.offload(topic, ledger_id)
        return ledger_id

    def restore(
        self,
        template: str = "",
        *,
        dump: DumpedCluster | None = None,
        topics: str = ".*",
        is_plan: bool = False,
        into: LiveCluster | None = None,
        **how: Any,
    ) -> Report:
        wanted = Wanted(topics=(re.compile(topics),), template=template)
        lost = Lost(open_bucket(self.old.bucket_url()), wanted, dump)
        self._into = into or self.new
        with living(self._into) as seen:
            driver = driver_of_bucket("aws-s3", "tier")
            target = NewCluster(seen, self.brokers.requests, driver, publish=self.publish, **how)
            if is_plan:
                return plan(lost, target, lambda *_: None)
            return run(lost, target, lambda *_: None, lambda *_: None)

    def list_of(self, topic: str) -> ManagedLedgerInfo | None:
        """Return the list of a topic of the new cluster; None without one."""
        path = self.new.chroot + managed_ledger_path(managed_ledger_of(topic))
        data = self.new.nodes.get(path)
        return None if data is None else parse_managed_ledger_info(data, key=path)

    def cursor(self, topic: str, name: str = "s") -> CursorInfo:
        """Return a subscription of a topic of the new cluster."""
        return parse_cursor_info(
            self.new.nodes[self.new.chroot + cursor_path(managed_ledger_of(topic), name)], key=name
        )

    def lists(self) -> list[str]:
        """Return the topics of the new cluster, as far as this namespace of restored ones has some."""
        below = f"{self.new.chroot}/managed-ledgers/"
        return sorted(
            path.removeprefix(below)
            for path in self.new.nodes
            if path.startswith(f"{below}public/restored/persistent/")
        )

    def partitions(self, topic: str) -> Any:
        data = self.new.nodes.get(f"{self.new.chroot}/admin/partitioned-topics/{managed_ledger_of(topic)}")
        return None if data is None else json.loads(data)["partitions"]

    def lose(self, ledger_id: int) -> None:
        """Delete all objects of a ledger."""
        for file in self.old.bucket().glob(f"*-ledger-{ledger_id}*"):
            file.unlink()


@contextmanager
def two_clusters(folder: Path) -> Iterator[Clusters]:
    """Lend a lost cluster and a new one, whose bucket is one, and the new one's brokers."""
    with LiveCluster(folder / "old") as old, LiveCluster(folder / "new") as new, pulsar_settings() as brokers:
        new.zookeeper.takes_writes = True
        new.buckets = old.buckets
        for namespace in ("public/default", "public/restored"):
            new.set_policies(namespace, retention_policies=FOREVER)
        yield Clusters(old, new, brokers)
