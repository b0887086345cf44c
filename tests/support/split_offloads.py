"""Offloads of a cluster of ours whose batches are split."""

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.dialects.closed_ledgers import ClosedLedgers
from ledgerfs.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.lifecycle.journal.reading import read_journal
from ledgerfs.lifecycle.journal.replaced_copies import replaced_copy
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord
from ledgerfs.messages.transforms.unbatch_all import unbatch_all
from ledgerfs.offload.one_step import Offloaded, OneStep
from ledgerfs.offload.tier import Tier
from ledgerfs.storage.zookeeper.changes import ClusterLock
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.entries import batched, frame, metadata
from tests.support.live_clusters import TOPIC, LiveCluster
from tests.support.live_offloads import S3, driver_properties
from tests.support.live_reads import values_of
from tests.support.living_clusters import PATIENCE_S
from tests.support.told_owners import NAME, ToldOwners

if TYPE_CHECKING:
    from ledgerfs.lifecycle.journal.trash_line import TrashLine
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster

BATCHES, IN_A_BATCH = 4, 5
GRACE_MS = 3_600_000
ENTRIES, MESSAGES = BATCHES + 1, BATCHES * IN_A_BATCH + 1
"""Of each ledger, before and after its batches are split."""


def batches(prefix: str) -> list[bytes]:
    """Return entries: batches, and a message alone behind the first of them."""
    made = [
        batched(
            [(BatchedMetadataRecord(), f"{prefix}{number}-{one}".encode()) for one in range(IN_A_BATCH)],
            sequence_id=number * IN_A_BATCH,
        )
        for number in range(BATCHES)
    ]
    made.insert(1, frame(metadata(sequence_id=99), f"{prefix}alone".encode()))
    return made


def topic_in_batches(cluster: LiveCluster, topic: str = TOPIC) -> list[int]:
    """Write three ledgers of a topic that its broker has let go, and return their ids."""
    ids = cluster.write_ledgers(topic, [batches(prefix) for prefix in "abc"])
    cluster.close(ids[-1])
    return ids


class Splitting:
    """What offloads the ledgers of a cluster of ours, and splits their batches."""

    def __init__(self, cluster: LiveCluster, codec: str | None = None) -> None:
        self.cluster = cluster
        self.codec = codec
        self.owners = ToldOwners()
        options = {"bucket_urls": {"tier": cluster.bucket_url()}, "timeout_s": PATIENCE_S}
        self.living: LivingCluster = ClusterFileSystem(**options).cluster(cluster.url.removeprefix("pulsar+zk://"))
        self.folder = cluster.bucket()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bucket = open_bucket(cluster.bucket_url())
        self.lock = ClusterLock.take(self.living.nodes.settings, b"{}")
        properties = driver_properties(S3, self.folder, endpoint="", region="us-east-1")
        self.tier = Tier(self.bucket, S3, properties, {}, 5 << 20, partial(unbatch_all, codec))
        self.step = OneStep(
            *(self.lock, ClosedLedgers(self.living), self.owners, self.tier),
            noted_ms=lambda: time.time_ns() // 1_000_000,
            url_of=self.tier.url_of,
            replaced=partial(replaced_copy, GRACE_MS),
        )

    def offload(self, *ledger_ids: int) -> Offloaded:
        return self.step.offload(NAME, ledger_ids)

    def listed(self) -> dict[int, Any]:
        data = self.cluster.nodes[managed_ledger_path(NAME)]
        return {one.ledger_id: one for one in parse_managed_ledger_info(data, key="").ledgers}

    def objects(self) -> set[str]:
        return {one.name for one in self.folder.iterdir()}

    def lines(self) -> dict[int, "TrashLine"]:
        return {one.ledger_id: one for one in read_journal(self.living.nodes).lines}

    def values(self) -> list[bytes]:
        options = {"bucket_urls": {"tier": self.cluster.bucket_url()}, "timeout_s": PATIENCE_S}
        bucket = open_bucket(self.cluster.url, options)
        return [value for _, _, value in values_of(bucket)]

    def require_nothing_left_over(self) -> None:
        named = [(one.context.uuid, one.ledger_id) for one in self.listed().values() if one.is_offloaded]
        assert self.objects() == {
            f"{uuid}-ledger-{ledger_id}{end}" for uuid, ledger_id in named for end in ("", "-index")
        }
        assert read_journal(self.living.nodes).noted_attempts == ()

    def close(self) -> None:
        self.lock.release()
        self.living.nodes.close()
