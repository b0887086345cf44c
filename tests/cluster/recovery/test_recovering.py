"""Topics restored into a cluster of ours: each as a whole or not at all, whoever else writes, deletes, comes late, or ends the run."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.recovery.dumped_cluster import DumpedCluster
from ledgerfs_cluster.recovery.report import Report, TopicRecovery, part_text
from tests.cluster.recovery.lost import Clusters, dump_of
from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.cluster.support.zookeeper import WriteFault

pytestmark = pytest.mark.process
A, B, P0, P1 = (f"public/default/{name}" for name in ("a", "b", "p-partition-0", "p-partition-1"))
TOPICS = (A, B, P0, P1)


@pytest.fixture(name="clusters")
def _clusters(clusters: Clusters) -> Clusters:
    """Four topics with two offloaded ledgers each, a subscription, and a last ledger that only bookies have."""
    for topic in TOPICS:
        for size in (5, 3):
            ledger_id = clusters.rolled(topic, *messages(size, first=10))
        holes = [(Position(ledger_id, 1), Position(ledger_id, 2))]
        clusters.old.add_cursor(topic, "s", (ledger_id, 0), holes=holes)
    clusters.old.set_partitions("public/default/p", 2)
    return clusters


@pytest.fixture(name="dump")
def _dump(clusters: Clusters, tmp_path: Path) -> DumpedCluster:
    return dump_of(clusters.old, tmp_path / "dump")


def _states(report: Report) -> dict[str, str]:
    return {one.source.replace("persistent/", ""): one.outcome.value for one in report.topics}


def _line(report: Report, topic: str) -> TopicRecovery:
    return next(one for one in report.topics if one.source == managed_ledger_of(topic))


def _require_whole(clusters: Clusters, topic: str) -> None:
    """See to it that a topic is there as it was: list, subscription, note."""
    info, old = clusters.list_of(topic), clusters.old.list_of(topic).ledgers
    assert info is not None
    *ledgers, extra = info.ledgers
    offloaded = [one for one in old if one.is_offloaded]
    assert [(one.ledger_id, one.entries, one.size) for one in ledgers] == [
        (one.ledger_id, one.entries, one.size) for one in offloaded
    ]
    for one, before in zip(ledgers, offloaded, strict=True):
        assert one.context is not None
        assert before.context is not None
        assert (one.context.uuid, one.context.is_complete, one.context.is_deleted_from_bookkeeper) == (
            before.context.uuid,
            True,
            True,
        )
        assert (one.context.driver, one.context.get("bucket")) == ("aws-s3", "tier")
        assert one.closed_ms == before.closed_ms
    assert extra.ledger_id > max(one.ledger_id for one in old)
    assert extra.context is None
    name = managed_ledger_of(topic)
    cursor = clusters.cursor(topic)
    last = offloaded[-1].ledger_id
    assert (cursor.mark_delete, cursor.is_in_the_node) == (Position(last, 0), True)
    assert cursor.holes == ((Position(last, 1), Position(last, 2)),)
    assert json.loads(clusters.new.nodes[f"{clusters.new.chroot}/ledgerfs/recovery/topics/{name}"])["ledgers"] == 2


def test_topics_are_as_they_were_and_a_plan_and_a_second_run_write_nothing(
    clusters: Clusters, dump: DumpedCluster
) -> None:
    before = dict(clusters.new.nodes)
    planned = clusters.restore(dump=dump, is_plan=True)
    assert (planned.is_well, set(_states(planned).values())) == (True, {"to be restored"})
    assert (dict(clusters.new.nodes), clusters.brokers.namespaces) == (before, {})
    report = clusters.restore(dump=dump)
    assert report.is_well
    assert set(_states(report).values()) == {"restored"}
    for topic in TOPICS:
        _require_whole(clusters, topic)
    partitions = clusters.new.nodes[f"{clusters.new.chroot}/admin/partitioned-topics/public/default/persistent/p"]
    assert json.loads(partitions) == {"partitions": 2}
    ids = [path for path in clusters.new.nodes if "/idgen-long/HOB-" in path]
    assert len(ids) == 1
    assert "public/default" in clusters.brokers.namespaces
    before = dict(clusters.new.nodes)
    again = clusters.restore(dump=dump)
    assert again.is_well
    assert set(_states(again).values()) == {"there before"}
    assert {path: data for path, data in clusters.new.nodes.items() if "/lifecycle" not in path} == {
        path: data for path, data in before.items() if "/lifecycle" not in path
    }


def test_a_subscription_begins_before_a_ledger_whose_batches_were_split_since_the_dump(
    clusters: Clusters, dump: DumpedCluster, tmp_path: Path
) -> None:
    """It had acknowledged entries of which nobody knows which messages they are now."""
    ledger_id = clusters.old.list_of(A).ledgers[1].ledger_id
    with LiveCluster(tmp_path / "split", first_ledger_id=ledger_id) as split:
        split.buckets = clusters.old.buckets
        for one in clusters.old.bucket().glob(f"*-ledger-{ledger_id}*"):
            one.unlink()
        assert split.write_ledger(A, messages(9)) == ledger_id
        split.roll_over(A)
        split.offload(A, ledger_id)
    clusters.restore(dump=dump)
    info = clusters.list_of(A)
    assert info is not None
    assert [one.entries for one in info.ledgers[:2]] == [5, 9]
    cursor = clusters.cursor(A)
    assert (cursor.mark_delete, cursor.holes) == (Position(ledger_id, -1), ())


def test_a_run_that_ends_anywhere_leaves_whole_topics_and_the_next_one_goes_on(
    clusters: Clusters, dump: DumpedCluster
) -> None:
    ended = 0
    for number in range(200):
        fault = WriteFault.EXPIRED_BEFORE if number % 2 else WriteFault.EXPIRED_AFTER
        clusters.new.zookeeper.write_faults.extend([WriteFault.NONE] * (number % 9) + [fault])
        try:
            report = clusters.restore(dump=dump)
        except LedgerfsError:
            ended += 1
        else:
            if set(_states(report).values()) == {"there before"} and report.is_well:
                break
        finally:
            clusters.new.zookeeper.write_faults.clear()
        for topic in TOPICS:
            if clusters.list_of(topic) is not None:
                _require_whole(clusters, topic)
    else:
        pytest.fail("it does not come to its end")
    assert ended > 3
    for topic in TOPICS:
        _require_whole(clusters, topic)
    assert f"{clusters.new.chroot}/admin/partitioned-topics/public/default/persistent/p" in clusters.new.nodes


def test_a_topic_that_was_terminated_takes_messages_again_and_that_is_reported(
    clusters: Clusters, tmp_path: Path
) -> None:
    """Of what is terminated brokers tell no last message where BookKeeper has no ledger of it."""
    clusters.old.terminate(A)
    report = clusters.restore("public/again/{topic}", dump=dump_of(clusters.old, tmp_path / "dump"))
    assert report.is_well
    assert (info := clusters.list_of("public/again/a")) is not None
    assert (info.terminated, [one.entries for one in info.ledgers]) == (None, [5, 3, 0])
    reported = {one.source: [text for text in one.remarks if "terminated" in text] for one in report.topics}
    assert reported[managed_ledger_of(B)] == []
    assert "topics terminate persistent://public/again/a" in reported[managed_ledger_of(A)][0]


def test_a_topic_that_a_broker_makes_meanwhile_is_not_touched_and_the_others_are_restored(
    clusters: Clusters, dump: DumpedCluster
) -> None:
    path = clusters.new.chroot + managed_ledger_path(managed_ledger_of(B))
    _at_first_topic(clusters.new, lambda: clusters.new.zookeeper.set(path, b""))
    report = clusters.restore(dump=dump)
    assert _states(report) == {A: "restored", B: "failed", P0: "restored", P1: "restored"}
    assert clusters.new.nodes[path] == b""
    assert not report.is_well
    again = clusters.restore(dump=dump)
    assert "already has a topic with this name" in str(_line(again, B).reason)


def _at_first_topic(new: LiveCluster, do: Callable[[], object]) -> None:
    """Have something done before the first topic is made: behind the commits that advance ids, after the bucket was listed."""
    done: list[bool] = []

    def at_write() -> None:
        if not done and any("/__transaction_log_" in path for paths in new.zookeeper.writes for path in paths):
            done.append(True)
            do()

    new.zookeeper.at_write = at_write


def test_an_object_that_is_lost_while_topics_are_restored_is_reported(clusters: Clusters, dump: DumpedCluster) -> None:
    context = clusters.old.list_of(B).ledgers[0].context
    assert context is not None

    def lose() -> None:
        for file in clusters.old.bucket().glob(f"{context.uuid}*"):
            file.unlink()

    _at_first_topic(clusters.new, lose)
    # Where entries are read, that says so.
    report = clusters.restore(dump=dump, looks_for_transactions=False)
    assert not report.is_well
    assert "was deleted from the bucket during the recovery" in str(_line(report, B).reason)
    assert [one.source for one in report.topics if not one.is_well] == [managed_ledger_of(B)]


def test_a_ledger_that_comes_late_is_reported_then_and_by_the_next_run(clusters: Clusters, dump: DumpedCluster) -> None:
    last = clusters.old.list_of(A).ledgers[-1].ledger_id
    clusters.old.append(last, messages(2))

    def come() -> None:
        clusters.old.roll_over(A)
        clusters.old.offload(A, last)

    _at_first_topic(clusters.new, come)
    report = clusters.restore(dump=dump)
    assert "was added to the bucket during the recovery" in str(_line(report, A).reason)
    again = clusters.restore(dump=dump)
    assert "not in its ledger list" in str(_line(again, A).reason)
    assert not again.is_well


def test_a_damaged_ledger_is_missing_and_did_not_come_late(clusters: Clusters, dump: DumpedCluster) -> None:
    listed = clusters.old.list_of(A).ledgers[0]
    assert listed.context is not None
    (data,) = clusters.old.bucket().glob(f"{listed.context.uuid}-ledger-{listed.ledger_id}")
    whole = data.read_bytes()
    os.truncate(data, len(whole) - 30)
    for _ in range(2):
        line = _line(clusters.restore(dump=dump, looks_for_transactions=False), A)
        assert "was added to the bucket during the recovery" not in str(line.reason)
        why = {one.first_ledger: one.why for one in line.missing}
        assert "are damaged; `ledgerfs verify` lists them" in why[listed.ledger_id]
    # Once it is whole again, its rows are not in the topic.
    data.write_bytes(whole)
    again = clusters.restore(dump=dump, looks_for_transactions=False)
    assert "not in its ledger list" in str(_line(again, A).reason)
    assert not again.is_well


def test_ids_that_are_taken_are_refused_by_name_and_beside_it_copied_under_new_ones(
    clusters: Clusters, dump: DumpedCluster
) -> None:
    assert clusters.restore(dump=dump).is_well
    refused = clusters.restore("public/again/{topic}", dump=dump)
    assert all("ids are already used" in str(one.reason) for one in refused.topics)
    report = clusters.restore("public/again/{topic}", dump=dump, gives_new_ids=True)
    assert report.is_well, [one.reason for one in report.topics]
    info = clusters.list_of("public/again/a")
    assert info is not None
    assert all(2**31 <= one.ledger_id < 2**32 for one in info.ledgers)
    catalog = open_bucket(clusters.old.bucket_url()).refresh()
    there = {(ref.ledger_id, ref.uuid) for ref in catalog.refs_of(managed_ledger_of("public/again/a"))}
    assert there == {(one.ledger_id, one.context.uuid) for one in info.ledgers if one.context is not None}
    cursor = clusters.cursor("public/again/a")
    assert cursor.mark_delete == Position(info.ledgers[1].ledger_id, 0)
    again = clusters.restore("public/again/{topic}", dump=dump, gives_new_ids=True)
    assert again.is_well, [(one.source, one.reason) for one in again.topics]


def test_the_report_has_what_is_lost_from_when_to_when_and_what_is_to_be_done(
    clusters: Clusters, tmp_path: Path
) -> None:
    clusters.old.set_policies("public/default", message_ttl_in_seconds=60)
    gone = clusters.old.list_of(A).ledgers[1]
    assert gone.context is not None
    for file in clusters.old.bucket().glob(f"{gone.context.uuid}*"):
        file.unlink()
    dump = dump_of(clusters.old, tmp_path / "dump")
    clusters.new.zookeeper.set(clusters.new.chroot + managed_ledger_path(managed_ledger_of(B)), b"")
    report = clusters.restore(dump=dump)
    part = next(one for one in _line(report, A).missing if one.first_ledger == gone.ledger_id)
    assert (part.entries, part.from_ms is not None, part.to_ms is not None) == (3, True, True)
    span = f"written from {iso_time(part.from_ms)} until {iso_time(part.to_ms)}"
    assert part_text(part).startswith(f"ledger {gone.ledger_id}: 3 entries, {span}")
    reported = report.as_json()
    topics = {one["topic"]: one for one in reported["topics"]}
    (missing,) = (one for one in topics[f"persistent://{A}"]["missing"] if one["first_ledger"] == gone.ledger_id)
    assert (missing["entries"], missing["from"], missing["to"]) == (3, iso_time(part.from_ms), iso_time(part.to_ms))
    assert [name for name, one in topics.items() if one["why"] is not None] == [f"persistent://{B}"]
    assert "the new cluster already has a topic with this name" in topics[f"persistent://{B}"]["why"]
    assert reported["by_hand"] == [
        {
            "owner": "namespace public/default",
            "name": "message_ttl_in_seconds",
            "value": 60,
            "why": "not set yet, since it could delete restored messages",
        }
    ]
    assert reported["known_until"] == iso_time(dump.began_ms)


def test_partitions_come_all_or_none(clusters: Clusters, dump: DumpedCluster) -> None:
    clusters.new.zookeeper.set(clusters.new.chroot + managed_ledger_path(managed_ledger_of(P1)), b"")
    report = clusters.restore(dump=dump)
    states = _states(report)
    assert states[P1] == "not restored"
    assert states[P0] == "not restored"
    assert f"{clusters.new.chroot}/admin/partitioned-topics/public/default/persistent/p" not in clusters.new.nodes
    assert (states[A], states[B]) == ("restored", "restored")
