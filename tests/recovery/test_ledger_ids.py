"""The ids that BookKeeper makes next lie beyond all that is restored, and so do those that are kept for ourselves."""

import time
from pathlib import Path

import pytest

from ledgerfs.clusters.next_ids import newest_block
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs.recovery.topics.ledger_ids import FreeIds, advance_ids
from tests.recovery.lost import locked
from tests.support.live_clusters import LiveCluster

pytestmark = pytest.mark.process


def test_one_node_advances_ids_by_any_number(cluster: LiveCluster) -> None:
    with locked(cluster) as (lock, nodes):
        for greatest in (-1, 0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 5 * 2**32 + 7, 2**62):
            free = advance_ids(lock, greatest)
            (name,) = nodes.children("/ledgers/idgen-long")
            following = int(name.removeprefix("HOB-")) * 2**32
            assert greatest < free.start, greatest
            assert free.id_at(2**32 - 1) < following, greatest
            assert len(name) == len("HOB-") + 10, greatest
            forget_ids(cluster)


def forget_ids(cluster: LiveCluster) -> None:
    """Have a cluster be as one whose ids nobody ever advanced."""
    for path in cluster.nodes:
        if "/idgen-long/" in path:
            cluster.zookeeper.delete(path)


def test_twice_and_beside_what_the_cluster_made_itself(cluster: LiveCluster) -> None:
    with locked(cluster) as (lock, nodes):
        first = advance_ids(lock, 10)
        second = advance_ids(lock, 10)
        # The cluster has made ids behind the first node since: none of them is handed out.
        assert second.start > (newest_block(nodes) - 2) * 2**32
        assert second.start >= first.start + 2 * 2**32


def test_imported_rows_leave_clusters_ids_that_are_none_of_ledgerfs_own(cluster: LiveCluster) -> None:
    with locked(cluster) as (lock, nodes):
        for greatest in (2**52, 2**52 + 2**43, 2**53 - 1, (2**20 - 3) << 32, (2**20 - 2) << 32):
            free = advance_ids(lock, greatest)
            assert free.start >= 2**53, greatest
            assert newest_block(nodes) % 2 == 0, greatest
            assert free.id_at(0) >> 32 == newest_block(nodes) - 1, greatest
            forget_ids(cluster)


def test_who_comes_later_has_later_ids_whoever_knows_of_whom(
    cluster: LiveCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with locked(cluster) as (lock, nodes):
        advance_ids(lock, 10)
        first = newest_block(nodes)
    with LiveCluster(tmp_path / "other") as other:
        other.zookeeper.takes_writes = True
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now + 3600 * 10**9)
        with locked(other) as (lock, nodes):
            advance_ids(lock, 10)
            assert newest_block(nodes) > first


def test_names_that_are_none_of_bookkeepers_count_for_nothing(cluster: LiveCluster) -> None:
    with locked(cluster) as (lock, nodes):
        cluster.zookeeper.set(cluster.chroot + "/ledgers/idgen-long/HOB-junk", b"")
        assert newest_block(nodes) == 0
        advance_ids(lock, 10)
        assert newest_block(nodes) >= 2


def test_ids_end_somewhere(cluster: LiveCluster) -> None:
    with locked(cluster) as (lock, _), pytest.raises(UnsupportedWriteError):
        advance_ids(lock, 2**63 - 1)
    with pytest.raises(UnsupportedWriteError):
        FreeIds(0).id_at(2**32)
