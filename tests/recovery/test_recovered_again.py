"""A cluster that topics were restored into is lost, too: what it was given under other names, or ids, is served again."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.clusters.dump_file import read_dump
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.offload.offload_driver import driver_of_bucket
from ledgerfs.recovery.lost.dumped_cluster import DumpedCluster, read_dumped
from ledgerfs.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs.recovery.planning.planning import Wanted
from ledgerfs.recovery.planning.target_names import TargetNames
from ledgerfs.recovery.running.from_disks import offload_from_disks
from ledgerfs.recovery.running.recovery import Into, Lost, plan, run
from ledgerfs.recovery.running.report import Report
from ledgerfs.recovery.settings.setting_again import SettingAgain
from ledgerfs.recovery.topics.restoring import How
from tests.recovery.lost import dump_of
from tests.support.bookie_disks import make_disk, write_log
from tests.support.live_clusters import LiveCluster, messages
from tests.support.living_clusters import living
from tests.support.pulsar_settings import pulsar_settings

pytestmark = pytest.mark.process
TOPIC, AGAIN = "public/default/a", "public/again/a"
NOTHING = lambda *_: None  # noqa: E731


@pytest.fixture(name="lost")
def _lost(tmp_path: Path) -> Iterator[LiveCluster]:
    """One topic with two offloaded ledgers."""
    with LiveCluster(tmp_path / "old") as made:
        for size in (5, 3):
            ledger_id = made.write_ledger(TOPIC, messages(size))
            made.roll_over(TOPIC)
            made.offload(TOPIC, ledger_id)
        yield made


@pytest.fixture(name="new")
def _new(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path / "new") as made:
        made.zookeeper.takes_writes = True
        yield made


def _restore(lost: Lost, new: LiveCluster, **how: bool) -> Report:
    former = DumpedSettings() if lost.dump is None else lost.dump.settings
    with living(new) as seen, pulsar_settings() as brokers:
        into = Into(seen, SettingAgain(brokers.requests, former), How(driver_of_bucket("aws-s3", "tier"), **how))
        return run(lost, into, None, NOTHING, NOTHING)


def _lost_with(cluster: LiveCluster, dump: DumpedCluster | None, template: str = "") -> Lost:
    return Lost(open_bucket(cluster.bucket_url()), Wanted(names=TargetNames(template)), dump)


def _listed(cluster: LiveCluster, topic: str) -> list[LedgerInfo]:
    path = cluster.chroot + managed_ledger_path(managed_ledger_of(topic))
    return list(parse_managed_ledger_info(cluster.nodes[path], key=path).ledgers[:-1])


def test_what_was_restored_under_another_name_is_restored_again(
    lost: LiveCluster, new: LiveCluster, tmp_path: Path
) -> None:
    assert _restore(_lost_with(lost, None, "public/again/{topic}"), new).is_well
    new.load_restored(AGAIN)
    dump = dump_of(new, tmp_path / "dump")
    with LiveCluster(tmp_path / "newest") as newest:
        newest.zookeeper.takes_writes = True
        report = _restore(_lost_with(lost, dump), newest)
        of_again, of_first = sorted(report.topics, key=lambda one: one.plan.source)
        assert (of_again.why, of_again.plan.missing_entries) == (None, 0)
        first = [(one.ledger_id, one.entries) for one in _listed(new, AGAIN)]
        assert [(one.ledger_id, one.entries) for one in _listed(newest, AGAIN)] == first[:2]
        assert "had deleted it" in str(of_first.why)
        # What is there needs no more than that either.
        again = _restore(_lost_with(lost, dump), newest)
        assert [one.why for one in again.topics if one.plan.source == managed_ledger_of(AGAIN)] == [None]


def test_a_ledger_that_another_list_has_does_not_come_back_as_a_deleted_one(
    lost: LiveCluster, new: LiveCluster, tmp_path: Path
) -> None:
    assert _restore(_lost_with(lost, None, "public/again/{topic}"), new).is_well
    dump = dump_of(new, tmp_path / "dump")
    with LiveCluster(tmp_path / "newest") as newest:
        newest.zookeeper.takes_writes = True
        wanted = Wanted(with_deleted=True)
        report = _restore(Lost(open_bucket(lost.bucket_url()), wanted, dump), newest)
        ids = {one.plan.source: [ref.ledger_id for ref in one.plan.ledgers] for one in report.topics}
        assert ids[managed_ledger_of(TOPIC)] == []
        assert len(ids[managed_ledger_of(AGAIN)]) == 2


def test_copies_of_an_earlier_run_are_no_topics_of_the_lost_cluster(lost: LiveCluster, new: LiveCluster) -> None:
    assert _restore(_lost_with(lost, None), new).is_well
    for _ in range(3):
        report = _restore(_lost_with(lost, None, "public/{namespace}2/{topic}"), new, gives_new_ids=True)
        assert [one.plan.target for one in report.topics] == [managed_ledger_of("public/default2/a")]
        assert report.is_well
    # As of a run that ended before its last copy.
    gone = _listed(new, "public/default2/a")[0].ledger_id
    for path in lost.bucket().glob(f"*-ledger-{gone}*"):
        path.unlink()
    report = _restore(_lost_with(lost, None, "public/{namespace}2/{topic}"), new, gives_new_ids=True)
    assert [one.plan.target for one in report.topics] == [managed_ledger_of("public/default2/a")]


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
