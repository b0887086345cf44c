"""The ids that BookKeeper makes next lie beyond all that is restored, and below 2^35; those that recoveries use lie between."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.errors import UnsupportedWriteError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster
from ledgerfs_cluster.recovery.generated_ids import FreeIds, advance_ids
from ledgerfs_cluster.recovery.new_cluster import look
from ledgerfs_cluster.snapshot.next_ids import newest_block
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.nodes import Nodes
from tests.cluster.recovery.lost import FOREVER, Clusters, catalog_of, dump_of, locked
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.support.ledgers import offload, put_in_folder

pytestmark = pytest.mark.process
TOPIC = "public/default/a"


def catalog_with(folder: Path, *ids: int) -> Catalog:
    folder.mkdir()
    for one in ids:
        url = put_in_folder(folder, offload([b"x"], one))
    return open_bucket(url).refresh()


def advanced(
    lock: ClusterLock, nodes: Nodes, catalog: Catalog, dump: DumpedCluster | None = None
) -> tuple[int, FreeIds]:
    """Advance the ids of a cluster; return its block, and the free ids before it."""
    free = advance_ids(lock, catalog, dump, look(nodes, (), "file:///tier"))
    return newest_block(nodes), free


@pytest.mark.parametrize(
    ("greatest", "block"),
    [(0, 1), (2**31, 1), (2**32 - 2**25, 1), (2**32, 2), (5 * 2**32 + 7, 6), (7 * 2**32 - 2**30, 7)],
)
def test_one_node_advances_ids_beyond_all_that_the_bucket_has(
    cluster: LiveCluster, tmp_path: Path, greatest: int, block: int
) -> None:
    with locked(cluster) as (lock, nodes):
        # Ids that ledgerfs makes, or anybody else, are no cluster's.
        catalog = catalog_with(tmp_path / "tier", greatest, 2**35, 2**52 + 5)
        found, free = advanced(lock, nodes, catalog)
        assert nodes.children("/ledgers/idgen-long") == [f"HOB-{block:010d}"]
        assert found == block
        assert max(greatest, block * 2**32 - 2**31 - 1) < free.take() < free.take() < free.last == block * 2**32 - 1
        # Again, as after a run that was killed: there is nothing to do.
        assert advanced(lock, nodes, catalog)[0] == block


def test_seven_recoveries_of_a_bucket_and_not_more(clusters: Clusters, tmp_path: Path) -> None:
    clusters.rolled(TOPIC)
    last = clusters.old
    with ExitStack() as made:
        for number in range(1, 8):
            new = made.enter_context(LiveCluster(tmp_path / f"new-{number}"))
            new.zookeeper.takes_writes, new.buckets = True, clusters.old.buckets
            new.set_policies("public/default", retention_policies=FOREVER)
            report = clusters.restore(into=new, dump=dump_of(last, tmp_path / f"dump-{number}"))
            assert report.is_well, [one.reason for one in report.topics]
            ledger_id = new.load_restored(TOPIC)
            assert ledger_id == number << 32
            new.append(ledger_id, messages(1))
            new.roll_over(TOPIC)
            new.offload(TOPIC, ledger_id)
            last = new
        # What the cluster has written since is its own, and what is restored into it now takes no other block.
        clusters.rolled("public/default/b")
        assert clusters.restore(into=last, topics="public/default/b").is_well
        assert [path[-3:] for path in last.nodes if "/idgen-long/HOB" in path] == ["007"]
        dump = dump_of(last, tmp_path / "last")
        for is_plan in (True, False):
            report = clusters.restore(dump=dump, is_plan=is_plan)
            assert all("ids for seven recoveries" in str(one.reason) for one in report.topics)
        assert not [path for path in clusters.new.nodes if "idgen-long" in path]


def test_the_dump_counts_and_what_the_cluster_names_itself_does_not(clusters: Clusters, tmp_path: Path) -> None:
    clusters.old.zookeeper.takes_writes = True
    clusters.old.advance_ids()
    clusters.rolled(TOPIC)
    dump = dump_of(clusters.old, tmp_path / "dump")
    with locked(clusters.old) as (lock, nodes):
        assert advanced(lock, nodes, catalog_of(clusters.old))[0] == 1
    with locked(clusters.new) as (lock, nodes):
        assert advanced(lock, nodes, catalog_with(tmp_path / "empty", 7), dump)[0] == 2


def test_names_that_are_none_of_bookkeepers_count_for_nothing(cluster: LiveCluster, tmp_path: Path) -> None:
    with locked(cluster) as (lock, nodes):
        cluster.zookeeper.set(cluster.chroot + "/ledgers/idgen-long/HOB-junk", b"")
        assert newest_block(nodes) == 0
        assert advanced(lock, nodes, catalog_with(tmp_path / "tier", 10))[0] == 1


def test_a_cluster_with_greater_ids_is_refused(cluster: LiveCluster, tmp_path: Path) -> None:
    with locked(cluster) as (lock, nodes):
        cluster.zookeeper.set(cluster.chroot + "/ledgers/idgen-long/HOB-0000000008", b"")
        with pytest.raises(UnsupportedWriteError, match=r"2\^35"):
            advanced(lock, nodes, catalog_with(tmp_path / "tier", 10))


def test_free_ids_end_somewhere() -> None:
    free = FreeIds(1, [3, 2**32 - 3, 2**40])
    assert free.take() == 2**32 - 2
    with pytest.raises(UnsupportedWriteError):
        free.take()


def test_ids_that_no_cluster_gives_are_served_under_new_ones(clusters: Clusters) -> None:
    clusters.rolled(TOPIC)
    put_in_folder(clusters.old.bucket(), offload([messages(1)[0]], 2**52 + 7, name="public/default/persistent/a"))
    (line,) = clusters.restore(gives_new_ids=True).topics
    assert "2^35" in str(line.reason)
    assert "--as" in str(line.reason)
    assert "--new-ids" in str(clusters.restore("public/restored/{topic}").topics[0].reason)
    found = clusters.restore("public/restored/{topic}", gives_new_ids=True)
    assert found.is_well, [one.reason for one in found.topics]
    path = clusters.new.chroot + managed_ledger_path("public/restored/persistent/a")
    listed = [one.ledger_id for one in parse_managed_ledger_info(clusters.new.nodes[path], key=path).ledgers]
    assert len(listed) == 3
    assert listed == sorted(listed)
    assert 2**31 <= listed[0] < listed[-1] < 2**32
    assert clusters.new.load_restored("public/restored/a") == 2**32
