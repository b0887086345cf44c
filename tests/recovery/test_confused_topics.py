"""Topics that clients would take for one, and what a dump does not know: refused, or said, in the plan already."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.clusters.answers import CursorAnswer
from ledgerfs.clusters.dump_file import Record
from ledgerfs.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.offload.offload_driver import driver_of_bucket
from ledgerfs.recovery.lost.dumped_cluster import DumpedCluster, read_dumped
from ledgerfs.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs.recovery.planning.planning import Wanted, plan_topics
from ledgerfs.recovery.planning.target_names import TargetNames
from ledgerfs.recovery.running.recovery import Into, Lost, plan, run
from ledgerfs.recovery.running.report import Report
from ledgerfs.recovery.settings.setting_again import SettingAgain
from ledgerfs.recovery.topics.restoring import How
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.recovery.lost import catalog_of, dump_of
from tests.recovery.test_settled_copies import sent
from tests.support.live_clusters import LiveCluster, messages
from tests.support.pulsar_settings import PulsarSettings, pulsar_settings

pytestmark = pytest.mark.process
RESTORED = "public/restored/{topic}"
COMMIT, ABORT = 21, 22


class Clusters:
    """A lost one, and a new one."""

    def __init__(self, old: LiveCluster, new: LiveCluster, brokers: PulsarSettings) -> None:
        self.old, self.new, self.brokers = old, new, brokers

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
        living = ClusterFileSystem(timeout_s=5).cluster((into or self.new).url.removeprefix("pulsar+zk://"))
        settings = SettingAgain(self.brokers.requests, DumpedSettings() if dump is None else dump.settings)
        target = Into(living, settings, How(driver_of_bucket("aws-s3", "tier"), **how), lets_brokers_delete=True)
        wanted = Wanted(topics=(re.compile(topics),), names=TargetNames(template))
        lost = Lost(open_bucket(self.old.bucket_url()), wanted, dump)
        try:
            if is_plan:
                return plan(lost, target, lambda *_: None)
            return run(lost, target, None, lambda *_: None, lambda *_: None)
        finally:
            living.nodes.close()

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


@pytest.fixture(name="clusters")
def _clusters(tmp_path: Path) -> Iterator[Clusters]:
    with ExitStack() as stack:
        old, new = (stack.enter_context(LiveCluster(tmp_path / name)) for name in ("old", "new"))
        new.zookeeper.takes_writes = True
        new.buckets = old.buckets
        yield Clusters(old, new, stack.enter_context(pulsar_settings()))


def whys(report: Report) -> dict[str, str | None]:
    return {
        one.plan.source.rpartition("/persistent/")[0] + "/" + one.plan.source.rpartition("/")[2]: one.why
        for one in report.topics
    }


# Of one run.


@pytest.mark.parametrize("is_plan", [True, False])
def test_partitions_of_two_topics_do_not_become_one_topic(clusters: Clusters, is_plan: bool) -> None:
    for number in (0, 1):
        clusters.rolled(f"public/one/p-partition-{number}")
        clusters.rolled(f"public/two/p-partition-{number + 2}")
    found = clusters.restore(RESTORED, is_plan=is_plan)
    assert not found.is_well
    assert all("would be several topics" in str(why) for why in whys(found).values())
    assert clusters.lists() == []


def test_a_topic_does_not_come_beside_partitions_of_another(clusters: Clusters) -> None:
    clusters.rolled("public/one/p-partition-0")
    clusters.rolled("public/two/p")
    assert not clusters.restore(RESTORED).is_well
    assert clusters.lists() == []


def test_a_topic_beside_partitions_of_its_name_is_told(clusters: Clusters) -> None:
    clusters.rolled("public/one/p-partition-0")
    clusters.rolled("public/one/p")
    plans = plan_topics(catalog_of(clusters.old))
    assert [any("get none of its messages" in said for said in one.remarks) for one in plans] == [True, False]


def test_what_was_no_partition_makes_none(clusters: Clusters, tmp_path: Path) -> None:
    """A topic may be called like a partition; the dump tells that there was no partitioned topic."""
    clusters.rolled("public/default/p-partition-0")
    clusters.rolled("public/default/p")
    dump = dump_of(clusters.old, tmp_path / "dump")
    assert clusters.restore(dump=dump).is_well
    assert clusters.partitions("public/default/p") is None


# Of several.


@pytest.mark.parametrize("is_plan", [True, False])
@pytest.mark.parametrize("second", ["public/two/p", "public/two/p-partition-1"])
def test_a_second_run_brings_no_topic_beside_another_ones_partitions(
    clusters: Clusters, second: str, is_plan: bool
) -> None:
    clusters.rolled("public/one/p-partition-0")
    clusters.rolled(second)
    assert clusters.restore(RESTORED, topics="public/one/.*").is_well
    before = clusters.lists()
    found = clusters.restore(RESTORED, topics="public/two/.*", is_plan=is_plan)
    assert "would take for the same topic" in str(found.topics[0].why)
    assert clusters.lists() == before


def test_partitions_that_are_left_come_in_a_second_run(clusters: Clusters) -> None:
    clusters.rolled("public/one/p-partition-0")
    assert clusters.restore(RESTORED).is_well
    clusters.rolled("public/one/p-partition-1")
    found = clusters.restore(RESTORED)
    # Its count was set by the first run.
    assert "with 1 partitions, and it had 2" in str(found.topics[1].why)


# Beside what producers made.


@pytest.mark.parametrize("is_plan", [True, False])
def test_a_topic_that_a_producer_made_stands_against_partitions_of_its_name(clusters: Clusters, is_plan: bool) -> None:
    clusters.rolled("public/default/p-partition-0")
    clusters.new.write_ledger("public/default/p", messages(1))
    found = clusters.restore(is_plan=is_plan)
    assert "would take for the same topic" in str(found.topics[0].why)
    assert clusters.partitions("public/default/p") is None


@pytest.mark.parametrize("is_plan", [True, False])
@pytest.mark.parametrize("is_loaded", [True, False])
def test_partitions_that_somebody_made_stand_against_a_topic_of_their_name(
    clusters: Clusters, is_loaded: bool, is_plan: bool
) -> None:
    clusters.rolled("public/default/p")
    clusters.new.zookeeper.set(
        f"{clusters.new.chroot}/admin/partitioned-topics/public/default/persistent/p", b'{"partitions":2}'
    )
    if is_loaded:
        clusters.new.write_ledger("public/default/p-partition-1", messages(1))
    found = clusters.restore(is_plan=is_plan)
    assert "clients" in str(found.topics[0].why)
    assert managed_ledger_path(managed_ledger_of("public/default/p")) not in clusters.new.nodes


@pytest.mark.parametrize("is_plan", [True, False])
def test_another_count_of_partitions_is_told_before_anything_is_made(clusters: Clusters, is_plan: bool) -> None:
    clusters.rolled("public/default/p-partition-0")
    clusters.rolled("public/default/p-partition-1")
    clusters.new.zookeeper.set(
        f"{clusters.new.chroot}/admin/partitioned-topics/public/default/persistent/p", b'{"partitions":5}'
    )
    found = clusters.restore(is_plan=is_plan)
    assert all("with 5 partitions, and it had 2" in str(one.why) for one in found.topics)
    assert not any("p-partition" in path for path in clusters.new.nodes if "/managed-ledgers/" in path)


def test_ledgers_of_a_topic_that_had_the_new_name_are_not_taken_for_late_ones(clusters: Clusters) -> None:
    clusters.rolled("public/x/a")
    clusters.rolled("public/y/a")
    assert clusters.restore("public/y/{topic}", topics="public/x/a").is_well


# A cluster that is in use.


@pytest.mark.parametrize("second", [("", "public/default/b"), (RESTORED, "public/default/a")])
def test_a_run_into_a_cluster_in_use_ends_none_of_its_transactions(
    clusters: Clusters, tmp_path: Path, second: tuple[str, str]
) -> None:
    """Its ids are advanced while some are under way, and their ends come into a ledger of another block."""
    topic = "public/default/a"
    clusters.rolled(topic, sent("old"), sent("old open", 1))
    clusters.rolled("public/default/b")
    assert clusters.restore(topics=topic).is_well
    first = clusters.new.load_restored(topic)
    clusters.new.append(first, [sent("committed", 1), sent("aborted", 2), sent("open", 3)])
    clusters.new.roll_over(topic)
    template, topics = second
    found = clusters.restore(template, topics=topics, gives_new_ids=bool(template))
    assert found.is_well, whys(found)
    clusters.new.advance_ids()
    clusters.new.offload(topic, first)
    between = clusters.new.list_of(topic).ledgers[-1].ledger_id
    clusters.new.append(between, [sent("plain")])
    clusters.new.roll_over(topic)
    last = clusters.new.list_of(topic).ledgers[-1].ledger_id
    assert last >> 32 > first >> 32
    clusters.new.append(last, [sent("", 1, marker_type=COMMIT), sent("", 2, marker_type=ABORT), sent("after")])
    clusters.new.roll_over(topic)
    for one in (between, last):
        clusters.new.offload(topic, one)
    seen = ["old", "committed", "plain", "after"]
    assert values(clusters, topic) == seen
    # It is lost in turn.
    with LiveCluster(tmp_path / "third") as third:
        third.zookeeper.takes_writes = True
        again = clusters.restore(topics=topic, into=third)
        assert again.is_well
        assert again.topics[0].done is not None
        assert (again.topics[0].done.hidden, again.topics[0].done.opened) == (1, 2)
        named = parse_managed_ledger_info(
            third.nodes[third.chroot + managed_ledger_path(managed_ledger_of(topic))], key="x"
        )
        assert len([one for one in named.ledgers if one.context is not None]) == 4
    assert values(clusters, topic) == seen


def values(clusters: Clusters, topic: str) -> list[str]:
    table = open_bucket(clusters.old.bucket_url()).topic(topic).scan(["value"]).to_table()
    return [value.decode() for value in table["value"].to_pylist()]


# What a dump does not know.


def test_what_the_plan_says_of_subscriptions_is_what_the_run_says(clusters: Clusters, tmp_path: Path) -> None:
    ledger_id = clusters.rolled("public/default/a")
    clusters.old.add_cursor("public/default/a", "s", (ledger_id, 1), stale=(ledger_id, -1))
    path = tmp_path / "dump"
    dump_of(clusters.old, path)
    dump = read_dumped(lambda: silent(path))
    planned = clusters.restore(dump=dump, is_plan=True)
    assert any("1 where subscriptions were" in one for one in planned.remarks)
    (said,) = (one for one in planned.topics[0].remarks if one.startswith("subscription s:"))
    done = clusters.restore(dump=dump)
    assert said in done.topics[0].remarks
    assert any("1 where subscriptions were" in one for one in done.remarks)


def silent(path: Path) -> Iterator[Record]:
    """Yield the records of a dump that was made while bookies were silent."""
    from ledgerfs.clusters.dump_file import read_dump

    for record in read_dump(path):
        yield CursorAnswer(record.path, None, "no bookie answers") if isinstance(record, CursorAnswer) else record


def test_partitioned_topics_without_a_message_are_told_with_what_makes_them(clusters: Clusters, tmp_path: Path) -> None:
    clusters.rolled("public/default/a")
    clusters.old.zookeeper.set(
        f"{clusters.old.chroot}/admin/partitioned-topics/public/default/persistent/e", b'{"partitions":3}'
    )
    dump = dump_of(clusters.old, tmp_path / "dump")
    line = "pulsar-admin topics create-partitioned-topic persistent://public/default/e -p 3"
    for is_plan in (True, False):
        assert line in clusters.restore(dump=dump, is_plan=is_plan).commands
