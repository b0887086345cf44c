"""A cluster that topics were restored into is lost, too: what it was given under other names, or ids, is served again."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.recovery.lost.dumped_cluster import read_dumped
from ledgerfs_cluster.recovery.planning.wanted import Wanted
from ledgerfs_cluster.recovery.running.recovery import Lost, offload_from_disks, plan
from ledgerfs_cluster.snapshot.dump_file import read_dump
from tests.cluster.recovery.lost import Clusters, dump_of, two_clusters
from tests.cluster.support.bookie_disks import make_disk, write_log
from tests.cluster.support.live_clusters import LiveCluster, messages

pytestmark = pytest.mark.process
TOPIC, AGAIN = "public/default/a", "public/again/a"
NOTHING = lambda *_: None  # noqa: E731


@pytest.fixture(name="clusters")
def _clusters(tmp_path: Path) -> Iterator[Clusters]:
    """One topic with two offloaded ledgers."""
    with two_clusters(tmp_path) as made:
        for size in (5, 3):
            made.rolled(TOPIC, *messages(size))
        yield made


def _listed(clusters: Clusters, topic: str) -> list[LedgerInfo]:
    info = clusters.list_of(topic)
    assert info is not None
    return list(info.ledgers[:-1])


def test_what_was_restored_under_another_name_is_restored_again(clusters: Clusters, tmp_path: Path) -> None:
    assert clusters.restore("public/again/{topic}").is_well
    first = [(one.ledger_id, one.entries) for one in _listed(clusters, AGAIN)]
    clusters.new.load_restored(AGAIN)
    dump = dump_of(clusters.new, tmp_path / "dump")
    with LiveCluster(tmp_path / "newest") as newest:
        newest.zookeeper.takes_writes = True
        clusters.new = newest
        of_again, of_first = sorted(clusters.restore(dump=dump).topics, key=lambda one: one.plan.source)
        assert (of_again.reason, of_again.plan.missing_entries) == (None, 0)
        assert [(one.ledger_id, one.entries) for one in _listed(clusters, AGAIN)] == first
        assert "had deleted it" in str(of_first.reason)
        # What is there needs no more than that either.
        again = clusters.restore(dump=dump)
        assert [one.reason for one in again.topics if one.plan.source == managed_ledger_of(AGAIN)] == [None]


def test_copies_of_an_earlier_run_are_no_topics_of_the_lost_cluster(clusters: Clusters) -> None:
    assert clusters.restore().is_well
    target = "public/default2/a"
    for _ in range(3):
        report = clusters.restore("public/{namespace}2/{topic}", gives_new_ids=True)
        assert [one.plan.target for one in report.topics] == [managed_ledger_of(target)]
        assert report.is_well
    # As of a run that ended before its last copy.
    clusters.lose(_listed(clusters, target)[0].ledger_id)
    report = clusters.restore("public/{namespace}2/{topic}", gives_new_ids=True)
    assert [one.plan.target for one in report.topics] == [managed_ledger_of(target)]


@pytest.mark.parametrize("is_offloaded", [True, False])
def test_disks_that_lack_what_a_broker_has_offloaded_since_the_dump_do_no_harm(
    tmp_path: Path, is_offloaded: bool
) -> None:
    with LiveCluster(tmp_path / "old") as made:
        ledger_id = made.write_ledger(TOPIC, messages(5))
        dump_of(made, tmp_path / "dump")
        made.append(ledger_id, messages(4, first=5))
        made.roll_over(TOPIC)
        if is_offloaded:
            made.offload(TOPIC, ledger_id)
        made.bucket().mkdir(parents=True, exist_ok=True)
        disks = _disks(made, tmp_path, lacking={7, 8})
        dump = read_dumped(lambda: read_dump(tmp_path / "dump"))
        planned = plan(Lost(open_bucket(made.bucket_url()), Wanted(), dump, disks=disks), None, NOTHING)
        assert any("are read by the run alone" in one for one in planned.remarks)
        refused = offload_from_disks(disks, open_bucket(made.bucket_url()), Wanted(), NOTHING, NOTHING)
        ref = open_bucket(made.bucket_url()).ledger(ledger_id).ref
        assert (refused, ref.entries) == ({}, 9 if is_offloaded else 7)
        # With more of it on disks than was copied before nobody knows which is right.
        whole = _disks(made, tmp_path / "whole", lacking=set())
        refused = offload_from_disks(whole, open_bucket(made.bucket_url()), Wanted(), NOTHING, NOTHING)
        assert bool(refused) != is_offloaded


def test_of_a_partitioned_topic_all_partitions_come_from_disks(tmp_path: Path) -> None:
    with LiveCluster(tmp_path / "old") as made:
        for number in (0, 1):
            made.write_ledger(f"public/default/p-partition-{number}", messages(3))
            made.roll_over(f"public/default/p-partition-{number}")
        dump_of(made, tmp_path / "dump")
        made.bucket().mkdir(parents=True)
        wanted = Wanted((re.compile("public/default/p-partition-0"),))
        disks = _disks(made, tmp_path, lacking=set())
        assert offload_from_disks(disks, open_bucket(made.bucket_url()), wanted, NOTHING, NOTHING) == {}
        assert len(list(open_bucket(made.bucket_url()).refresh().refs())) == 2


def _disks(cluster: LiveCluster, folder: Path, lacking: set[int]) -> Bucket:
    """Return the disks of all bookies, without some entries, with the dump beside them."""
    paths = []
    for number, bookie in enumerate(cluster.bookies):
        current = make_disk(folder / f"disk-{number}", bookie.address)
        stored = [
            data
            for ledger_id in bookie.ledgers
            for entry, data in bookie.entries(ledger_id).items()
            if entry not in lacking
        ]
        write_log(current, 0, stored)
        paths.append(str(folder / f"disk-{number}"))
    dump = next(one for one in (folder / "dump", folder.parent / "dump") if one.exists())
    assert read_dumped(lambda: read_dump(dump)).lists
    return open_bucket(f"bookies://{','.join(paths)}", {"metadata": str(dump), "open_end": "recovered"})
