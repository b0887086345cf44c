"""Topics restored into a cluster of ours: each as a whole or not at all, whoever else writes, deletes, comes late, or ends the run."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs.formats.managed_ledgers.cursor_info import parse_cursor_info
from ledgerfs.formats.managed_ledgers.managed_ledger_info import ManagedLedgerInfo, Position, parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.ledgers.time_arguments import iso_time
from ledgerfs.offload.offload_driver import driver_of_bucket
from ledgerfs.recovery.lost.dumped_cluster import DumpedCluster
from ledgerfs.recovery.lost.dumped_settings import DumpedSettings
from ledgerfs.recovery.planning.planning import Wanted
from ledgerfs.recovery.planning.target_names import TargetNames
from ledgerfs.recovery.running.recovery import Into, Lost, plan, run
from ledgerfs.recovery.running.report import Report, TopicLine, part_text
from ledgerfs.recovery.settings.setting_again import SettingAgain
from ledgerfs.recovery.topics.restoring import How
from ledgerfs.recovery.topics.subscriptions import NewSubscription, Start
from tests.recovery.lost import dump_of
from tests.support.live_clusters import CREATED_MS, LiveCluster, messages
from tests.support.living_clusters import living
from tests.support.pulsar_settings import PulsarSettings, pulsar_settings
from tests.support.zookeeper import WriteFault

pytestmark = pytest.mark.process
A, B, P0, P1 = (f"public/default/{name}" for name in ("a", "b", "p-partition-0", "p-partition-1"))
TOPICS = (A, B, P0, P1)
NOTHING = lambda *_: None  # noqa: E731


@pytest.fixture(name="lost")
def _lost(tmp_path: Path) -> Iterator[LiveCluster]:
    """Four topics with two offloaded ledgers each, a subscription, and a last ledger that only bookies have."""
    with LiveCluster(tmp_path / "old") as made:
        for topic in TOPICS:
            for size in (5, 3):
                ledger_id = made.write_ledger(topic, messages(size, first=10))
                made.roll_over(topic)
                made.offload(topic, ledger_id)
            made.add_cursor(topic, "s", (ledger_id, 0), holes=[(Position(ledger_id, 1), Position(ledger_id, 2))])
        made.set_partitions("public/default/p", 2)
        yield made


@pytest.fixture(name="dump")
def _dump(lost: LiveCluster, tmp_path: Path) -> DumpedCluster:
    return dump_of(lost, tmp_path / "dump")


@pytest.fixture(name="new")
def _new(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path / "new") as made:
        made.zookeeper.takes_writes = True
        yield made


@pytest.fixture(name="brokers")
def _brokers() -> Iterator[PulsarSettings]:
    with pulsar_settings() as made:
        yield made


@contextmanager
def _into(new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster | None, **how: Any) -> Iterator[Into]:
    settings = SettingAgain(brokers.requests, DumpedSettings() if dump is None else dump.settings)
    lets = how.pop("lets_brokers_delete", False)
    with living(new) as seen:
        yield Into(seen, settings, How(driver_of_bucket("aws-s3", "tier"), **how), lets_brokers_delete=lets)


def _restore(
    lost: LiveCluster,
    new: LiveCluster,
    brokers: PulsarSettings,
    dump: DumpedCluster | None,
    template: str = "",
    **how: Any,
) -> Report:
    what = Lost(open_bucket(lost.bucket_url()), Wanted(names=TargetNames(template)), dump)
    with _into(new, brokers, dump, **how) as into:
        return run(what, into, None, NOTHING, NOTHING)


def _states(report: Report) -> dict[str, str]:
    return {one.plan.source.replace("persistent/", ""): one.state for one in report.topics}


def _line(report: Report, topic: str) -> TopicLine:
    return next(one for one in report.topics if one.plan.source == managed_ledger_of(topic))


def _list(new: LiveCluster, topic: str) -> ManagedLedgerInfo | None:
    path = new.chroot + managed_ledger_path(managed_ledger_of(topic))
    data = new.nodes.get(path)
    return None if data is None else parse_managed_ledger_info(data, key=path)


def _require_whole(lost: LiveCluster, new: LiveCluster, topic: str) -> None:
    """See to it that a topic is there as it was: list, subscription, note."""
    info, old = _list(new, topic), lost.list_of(topic).ledgers
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
    cursor = parse_cursor_info(new.nodes[new.chroot + cursor_path(name, "s")], key="s")
    last = offloaded[-1].ledger_id
    assert (cursor.mark_delete, cursor.is_in_the_node) == (Position(last, 0), True)
    assert cursor.holes == ((Position(last, 1), Position(last, 2)),)
    assert json.loads(new.nodes[f"{new.chroot}/ledgerfs/recovery/topics/{name}"])["entries"] == 8


def test_topics_are_as_they_were_and_a_second_run_writes_nothing(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    report = _restore(lost, new, brokers, dump)
    assert report.is_well
    assert set(_states(report).values()) == {"restored"}
    for topic in TOPICS:
        _require_whole(lost, new, topic)
    partitions = new.nodes[f"{new.chroot}/admin/partitioned-topics/public/default/persistent/p"]
    assert json.loads(partitions) == {"partitions": 2}
    ids = [path for path in new.nodes if "/idgen-long/HOB-" in path]
    assert len(ids) == 1
    assert "public/default" in brokers.namespaces
    before = dict(new.nodes)
    again = _restore(lost, new, brokers, dump)
    assert again.is_well
    assert set(_states(again).values()) == {"there before"}
    assert {path: data for path, data in new.nodes.items() if "/lifecycle" not in path} == {
        path: data for path, data in before.items() if "/lifecycle" not in path
    }


def test_a_subscription_begins_before_a_ledger_whose_batches_were_split_since_the_dump(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster, tmp_path: Path
) -> None:
    """It had acknowledged entries of which nobody knows which messages they are now."""
    ledger_id = lost.list_of(A).ledgers[1].ledger_id
    with LiveCluster(tmp_path / "split", first_ledger_id=ledger_id) as split:
        split.buckets = lost.buckets
        for one in lost.bucket().glob(f"*-ledger-{ledger_id}*"):
            one.unlink()
        assert split.write_ledger(A, messages(9)) == ledger_id
        split.roll_over(A)
        split.offload(A, ledger_id)
    line = _line(_restore(lost, new, brokers, dump), A)
    (said,) = [one for one in line.remarks if "subscription s" in one]
    assert f"ledger {ledger_id} has other entries than by the dump" in said
    info = _list(new, A)
    assert info is not None
    assert [one.entries for one in info.ledgers[:2]] == [5, 9]
    cursor = parse_cursor_info(new.nodes[new.chroot + cursor_path(managed_ledger_of(A), "s")], key="s")
    assert (cursor.mark_delete, cursor.holes) == (Position(ledger_id, -1), ())


def test_a_run_that_ends_anywhere_leaves_whole_topics_and_the_next_one_goes_on(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    ended = 0
    for number in range(200):
        fault = WriteFault.EXPIRED_BEFORE if number % 2 else WriteFault.EXPIRED_AFTER
        new.zookeeper.write_faults.extend([WriteFault.NONE] * (number % 9) + [fault])
        try:
            report = _restore(lost, new, brokers, dump)
        except LedgerfsError:
            ended += 1
        else:
            if set(_states(report).values()) == {"there before"} and report.is_well:
                break
        finally:
            new.zookeeper.write_faults.clear()
        for topic in TOPICS:
            if _list(new, topic) is not None:
                _require_whole(lost, new, topic)
    else:
        pytest.fail("it does not come to its end")
    assert ended > 3
    for topic in TOPICS:
        _require_whole(lost, new, topic)
    assert f"{new.chroot}/admin/partitioned-topics/public/default/persistent/p" in new.nodes


def test_without_a_dump_subscriptions_are_made_where_they_are_wanted(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings
) -> None:
    wanted = (
        NewSubscription("first", Start.EARLIEST),
        NewSubscription("last", Start.LATEST),
        NewSubscription("then", lost.list_of(A).ledgers[0].closed_ms + 10**9),
    )
    report = _restore(lost, new, brokers, None, subscriptions=wanted)
    assert report.is_well
    assert not any(one.plan.is_missing_exact for one in report.topics)
    first, second = (one for one in lost.list_of(A).ledgers if one.is_offloaded)
    found = {
        one.name: parse_cursor_info(
            new.nodes[new.chroot + cursor_path(managed_ledger_of(A), one.name)], key=""
        ).mark_delete
        for one in wanted
    }
    end = Position(second.ledger_id, 2)
    assert found == {"first": Position(first.ledger_id, -1), "last": end, "then": end}


def test_a_subscription_begins_at_the_first_message_of_a_time_or_later(
    tmp_path: Path, new: LiveCluster, brokers: PulsarSettings
) -> None:
    hour = 3_600_000
    with LiveCluster(tmp_path / "timed") as lost:
        ids = []
        for number in range(3):
            began_ms = CREATED_MS + 2 * number * hour
            entries = messages(5, first=2 * number * hour)
            ids.append(lost.write_ledger(A, entries, created_ms=began_ms, closed_ms=began_ms - hour))
        lost.roll_over(A, closed_ms=CREATED_MS + 5 * hour)
        for one in ids:
            lost.offload(A, one)
        first, second, third = ids
        times = {
            "before all": (CREATED_MS - hour, Position(first, -1)),
            "as the second begins": (CREATED_MS + 2 * hour, Position(second, -1)),
            "in the second": (CREATED_MS + 2 * hour + 3, Position(second, 2)),
            "between two": (CREATED_MS + 3 * hour, Position(third, -1)),
            "behind all": (CREATED_MS + 9 * hour, Position(third, 4)),
        }
        wanted = tuple(NewSubscription(name, at) for name, (at, _) in times.items())
        assert _restore(lost, new, brokers, None, subscriptions=wanted).is_well
        nodes = {name: new.nodes[new.chroot + cursor_path(managed_ledger_of(A), name)] for name in times}
    found = {name: parse_cursor_info(data, key=name).mark_delete for name, data in nodes.items()}
    assert found == {name: position for name, (_, position) in times.items()}


def test_a_topic_that_was_terminated_takes_messages_again_and_that_is_told(
    tmp_path: Path, new: LiveCluster, brokers: PulsarSettings
) -> None:
    """Of what is terminated brokers tell no last message where BookKeeper has no ledger of it."""
    with LiveCluster(tmp_path / "terminated") as lost:
        for topic in (A, B):
            ledger_id = lost.write_ledger(topic, messages(5))
            lost.roll_over(topic)
            lost.offload(topic, ledger_id)
        lost.terminate(A)
        report = _restore(lost, new, brokers, dump_of(lost, tmp_path / "dump"), "public/again/{topic}")
    assert report.is_well
    assert (info := _list(new, "public/again/a")) is not None
    assert (info.terminated, [one.entries for one in info.ledgers]) == (None, [5, 0])
    told = {one.plan.source: [text for text in one.remarks if "terminated" in text] for one in report.topics}
    assert told[managed_ledger_of(B)] == []
    assert "topics terminate persistent://public/again/a" in told[managed_ledger_of(A)][0]


def test_a_topic_that_a_broker_makes_meanwhile_is_not_touched_and_the_others_are_restored(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    path = new.chroot + managed_ledger_path(managed_ledger_of(B))
    _at_first_topic(new, lambda: new.zookeeper.set(path, b""))
    report = _restore(lost, new, brokers, dump)
    assert _states(report) == {A: "restored", B: "failed", P0: "restored", P1: "restored"}
    assert new.nodes[path] == b""
    assert not report.is_well
    again = _restore(lost, new, brokers, dump)
    assert "a topic of this name" in str(_line(again, B).why)


def _at_first_topic(new: LiveCluster, do: Callable[[], object]) -> None:
    """Have something done before the first topic is made: behind the commits that advance ids, after the bucket was listed."""
    done: list[bool] = []

    def at_write() -> None:
        if not done and any("/__transaction_log_" in path for paths in new.zookeeper.writes for path in paths):
            done.append(True)
            do()

    new.zookeeper.at_write = at_write


def test_an_object_that_is_lost_while_topics_are_restored_is_told(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    context = lost.list_of(B).ledgers[0].context
    assert context is not None

    def lose() -> None:
        for file in lost.bucket().glob(f"{context.uuid}*"):
            file.unlink()

    _at_first_topic(new, lose)
    # Where entries are read, that says so.
    report = _restore(lost, new, brokers, dump, looks_for_transactions=False)
    assert not report.is_well
    assert "lost ledger" in str(_line(report, B).why)
    assert [one.plan.source for one in report.topics if not one.is_well] == [managed_ledger_of(B)]


def test_a_ledger_that_comes_late_is_told_then_and_by_the_next_run(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    last = lost.list_of(A).ledgers[-1].ledger_id
    lost.append(last, messages(2))

    def come() -> None:
        lost.roll_over(A)
        lost.offload(A, last)

    _at_first_topic(new, come)
    report = _restore(lost, new, brokers, dump)
    assert "came into the bucket" in str(_line(report, A).why)
    again = _restore(lost, new, brokers, dump)
    assert "not in its list" in str(_line(again, A).why)
    assert not again.is_well


def test_brokers_that_would_delete_what_is_restored_are_not_given_it(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    brokers.add_namespace("public/default", retention_policies={"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
    new.set_policies("public/default", retention_policies={"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})
    report = _restore(lost, new, brokers, dump)
    assert set(_states(report).values()) == {"not restored"}
    assert all("set-retention public/default" in str(one.why) for one in report.topics)
    assert _restore(lost, new, brokers, dump, lets_brokers_delete=True).is_well


def test_ids_that_are_taken_are_refused_by_name_and_beside_it_copied_under_new_ones(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    assert _restore(lost, new, brokers, dump).is_well
    refused = _restore(lost, new, brokers, dump, "public/again/{topic}")
    assert all("ids are taken" in str(one.why) for one in refused.topics)
    report = _restore(lost, new, brokers, dump, "public/again/{topic}", gives_new_ids=True)
    assert report.is_well, [one.why for one in report.topics]
    info = _list(new, "public/again/a")
    assert info is not None
    assert all(2**31 <= one.ledger_id < 2**32 for one in info.ledgers)
    catalog = open_bucket(lost.bucket_url()).refresh()
    there = {(ref.ledger_id, ref.uuid) for ref in catalog.refs_of(managed_ledger_of("public/again/a"))}
    assert there == {(one.ledger_id, one.context.uuid) for one in info.ledgers if one.context is not None}
    cursor = parse_cursor_info(new.nodes[new.chroot + cursor_path(managed_ledger_of("public/again/a"), "s")], key="")
    assert cursor.mark_delete == Position(info.ledgers[1].ledger_id, 0)
    again = _restore(lost, new, brokers, dump, "public/again/{topic}", gives_new_ids=True)
    assert again.is_well, [(one.plan.source, one.why) for one in again.topics]


def test_a_plan_writes_nothing_and_tells_the_same(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    before = dict(new.nodes)
    with _into(new, brokers, dump) as into:
        report = plan(Lost(open_bucket(lost.bucket_url()), Wanted(), dump), into, NOTHING)
    assert set(_states(report).values()) == {"to be restored"}
    assert report.is_well
    assert dict(new.nodes) == before
    assert brokers.namespaces == {}
    told = [(one["topic"], one["target"]) for one in report.as_json()["topics"]]
    assert told == [(f"persistent://{one}",) * 2 for one in TOPICS]


def test_the_report_has_what_is_lost_from_when_to_when_and_what_is_to_be_done(
    tmp_path: Path, lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings
) -> None:
    lost.set_policies("public/default", message_ttl_in_seconds=60)
    gone = lost.list_of(A).ledgers[1]
    assert gone.context is not None
    for file in lost.bucket().glob(f"{gone.context.uuid}*"):
        file.unlink()
    dump = dump_of(lost, tmp_path / "dump")
    new.zookeeper.set(new.chroot + managed_ledger_path(managed_ledger_of(B)), b"")
    report = _restore(lost, new, brokers, dump)
    part = next(one for one in _line(report, A).plan.missing if one.first_ledger == gone.ledger_id)
    assert (part.entries, part.from_ms is not None, part.to_ms is not None) == (3, True, True)
    span = f"written from {iso_time(part.from_ms)} until {iso_time(part.to_ms)}"
    assert part_text(part).startswith(f"ledger {gone.ledger_id}: 3 entries, {span}")
    told = report.as_json()
    topics = {one["topic"]: one for one in told["topics"]}
    (missing,) = (one for one in topics[f"persistent://{A}"]["missing"] if one["first_ledger"] == gone.ledger_id)
    assert (missing["entries"], missing["from"], missing["to"]) == (3, iso_time(part.from_ms), iso_time(part.to_ms))
    assert [name for name, one in topics.items() if one["why"] is not None] == [f"persistent://{B}"]
    assert "the new cluster has a topic of this name" in topics[f"persistent://{B}"]["why"]
    assert told["by_hand"] == [
        {
            "owner": "namespace public/default",
            "name": "message_ttl_in_seconds",
            "value": 60,
            "why": "it is held back, since it may delete what is restored",
        }
    ]
    assert told["known_until"] == iso_time(dump.began_ms)


def test_partitions_come_all_or_none(
    lost: LiveCluster, new: LiveCluster, brokers: PulsarSettings, dump: DumpedCluster
) -> None:
    new.zookeeper.set(new.chroot + managed_ledger_path(managed_ledger_of(P1)), b"")
    report = _restore(lost, new, brokers, dump)
    states = _states(report)
    assert states[P1] == "not restored"
    assert states[P0] == "not restored"
    assert f"{new.chroot}/admin/partitioned-topics/public/default/persistent/p" not in new.nodes
    assert (states[A], states[B]) == ("restored", "restored")
