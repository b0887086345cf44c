"""A server that is behind the others answers all the same: what is deleted is decided by what it does not know yet.

Each test has a server that shows the nodes as they were, to all that do not ask it for more, and something that has changed since.
"""

import time
from dataclasses import replace

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.lifecycle.planning.actions import ActionKind
from ledgerfs_cluster.lifecycle.service.status import STATUS_PATH, Status, write_status
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
from ledgerfs_cluster.offload.journal import mark, read_journal, undo
from ledgerfs_cluster.offload.offload_bucket import OffloadBucket
from ledgerfs_cluster.offload.one_step import OneStep
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.cluster_clock import ClusterClock
from tests.cluster.lifecycle.acting.test_deletions import ledgers, trimmed
from tests.cluster.support.live_clusters import TOPIC, LiveCluster
from tests.cluster.support.live_offloads import S3
from tests.cluster.support.marked import Marked
from tests.cluster.support.outcomes import done, left, remarks
from tests.cluster.support.reported_owners import NAME

WHOLE = "0x00000000_0xffffffff"
NAMESPACE = "public/default"
DAY_MS = 86_400_000


@pytest.mark.parametrize("is_named", [False, True])
def test_a_ledger_that_is_named_by_now_is_not_an_orphan(cluster: LiveCluster, marked: Marked, is_named: bool) -> None:
    (orphan,) = trimmed(cluster)
    marked.mark(marked.orphan(orphan))
    seen = marked.seen()
    cluster.zookeeper.fall_behind()
    if is_named:
        cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(LedgerInfo(orphan, 5, 100, 1), *info.ledgers)))
    outcomes = marked.carry_out(ActionKind.DELETE, seen)
    assert (done(outcomes), list(left(outcomes))) == (([], [orphan]) if is_named else ([orphan], []))
    assert marked.in_bookkeeper(orphan) == is_named
    # What is done is not done again.
    assert done(marked.carry_out(ActionKind.DELETE, seen)) == []


def test_a_list_that_others_change_is_completed(cluster: LiveCluster, marked: Marked) -> None:
    first, second, _ = ledgers(cluster)
    cluster.bucket().mkdir(parents=True, exist_ok=True)
    place = OffloadBucket("tier", cluster.bucket_url(), S3, "tier", "us-east-1", block_size=5 << 20)
    step = OneStep(
        *(
            marked.lock,
            ClosedLedgers(marked.living),
            open_bucket,
            {"pulsarclustername": "ours"},
        ),
        noted_ms=lambda: 1,
        url_of=place.url_of,
    )
    cluster.zookeeper.fall_behind()
    cluster.offload(TOPIC, first)
    outcome = step.offload(NAME, [first, second], place)
    assert (done(outcome), left(outcome), remarks(outcome)) == ([first, second], {}, [])


def test_what_was_marked_just_now_is_taken_back(cluster: LiveCluster, marked: Marked) -> None:
    record = marked.orphan(*trimmed(cluster))
    cluster.zookeeper.fall_behind()
    mark(marked.lock, [record])
    assert read_journal(marked.living.nodes).marked == ()
    taken = undo(marked.lock, record.name)
    assert taken is not None
    assert taken.path == record.path
    assert marked.lock.node(record.path) is None


def test_the_time_is_that_of_a_lock_that_was_made_just_now(cluster: LiveCluster, marked: Marked) -> None:
    marked.lock.release()
    cluster.zookeeper.fall_behind()
    now_ms = time.time_ns() // 1_000_000
    with ClusterLock.take(marked.living.nodes.settings, b"{}") as lock:
        clock = ClusterClock(lock)
    assert abs(clock.now_ms() - now_ms) < DAY_MS


def test_the_status_is_written_after_each_pass(cluster: LiveCluster, marked: Marked) -> None:
    cluster.zookeeper.fall_behind()
    for number in range(3):
        assert write_status(marked.lock, Status(1, 2, number)) is not None
    assert cluster.zookeeper.versions[STATUS_PATH] == 2
