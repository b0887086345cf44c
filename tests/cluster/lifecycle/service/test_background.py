"""Copies that wait to be completed, while what offloads their topic changes."""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any, cast

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.lifecycle.policy.policy_file import Via
from ledgerfs_cluster.lifecycle.service.background import BackgroundOffloads
from ledgerfs_cluster.lifecycle.service.events import Events
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
from ledgerfs_cluster.offload.offload_bucket import OffloadBucket, OpenBucket
from ledgerfs_cluster.offload.one_step import OneStep
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.live_offloads import S3
from tests.cluster.support.told_owners import NAME, ToldOwners
from tests.support.waiting import wait_until


@pytest.fixture
def steps(cluster: LiveCluster) -> Iterator[list[OneStep]]:
    """What offloads to the buckets ``tier`` and ``vault``."""
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    lock = ClusterLock.take(living.nodes.settings, b"{}")

    def step(name: str) -> OneStep:
        cluster.bucket(name).mkdir(parents=True)
        place = OffloadBucket(name, cluster.bucket_url(name), S3, name, "us-east-1", block_size=5 << 20)
        tier = OpenBucket(place, open_bucket(place.url), {"pulsarclustername": "ours"})
        return OneStep(lock, ClosedLedgers(living), ToldOwners(), tier, noted_ms=lambda: 1_000, url_of=place.url_of)

    yield [step("tier"), step("vault")]
    lock.release()
    living.nodes.close()


def test_what_is_copied_to_two_buckets_is_listed_where_it_is(cluster: LiveCluster, steps: list[OneStep]) -> None:
    first, second, _ = cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(3)])
    # The policies name another bucket after the first ledger was copied.
    each = chain([steps[0]], repeat(steps[1]))
    offloads = BackgroundOffloads(lambda _: next(each), Events(), workers=1)
    try:
        rule: Any = object()
        due = Action(ActionKind.OFFLOAD, NAME, (first, second), 1000, Via.DIRECT, None, "a test", rule)
        offloads.replace([due], {first: 500, second: 500})
        wait_until(lambda: offloads.has_begun_all)
        offloads.complete(everything=True)
    finally:
        offloads.stop()
    listed = parse_managed_ledger_info(cluster.nodes[managed_ledger_path(NAME)], key="").ledgers
    found = {one.ledger_id: one.context for one in listed if one.context is not None}
    assert set(found) == {first, second}
    for ledger_id, bucket in ((first, "tier"), (second, "vault")):
        context = found[ledger_id]
        assert (context.is_complete, dict(context.properties)["bucket"]) == (True, bucket)
        names = {one.name for one in cluster.bucket(bucket).iterdir()}
        assert names == {f"{context.uuid}-ledger-{ledger_id}{end}" for end in ("", "-index")}


def test_a_step_refuses_to_list_copies_in_another_bucket(cluster: LiveCluster, steps: list[OneStep]) -> None:
    first, *_ = cluster.write_ledgers(TOPIC, [messages(20), messages(20)])
    copied = steps[0].copy(NAME, first)
    with pytest.raises(ValueError, match="other buckets"):
        steps[1].complete(NAME, [cast("Any", copied)], [])
