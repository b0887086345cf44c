"""Ledgers of topics that no broker has are offloaded in one step, and nothing is lost or left over, whoever acts or dies meanwhile."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.errors import EntryRangeError, InvalidOptionError, RefusedLedgerError
from ledgerfs_cluster.errors import (
    ChangedMeanwhileError,
    ListFullError,
    LockHeldError,
    LockLostError,
    OffloadRemarkWarning,
    StoppedError,
)
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    Position,
    build_context,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
from ledgerfs_cluster.offload.cleaning import clean
from ledgerfs_cluster.offload.journal import AGAIN_MS, ROOT, JournalRecord, read_journal
from ledgerfs_cluster.offload.managed_ledger import ManagedLedger
from ledgerfs_cluster.offload.offload_bucket import OffloadBucket
from ledgerfs_cluster.offload.one_step import CopiedLedger, OneStep
from ledgerfs_cluster.offload.outcomes import Outcome
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.live_offloads import S3, context, driver_properties
from tests.cluster.support.living_clusters import PATIENCE_S
from tests.cluster.support.outcomes import done, left, remarks
from tests.cluster.support.reported_owners import NAME, ReportedOwners

if TYPE_CHECKING:
    from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import OffloadContext
    from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster

BLOCK = 5 << 20
PATIENT = {"timeout_s": PATIENCE_S}
LONG_AFTER_MS = AGAIN_MS + 600_000
"""Behind a first look, whose time is that of its note in ZooKeeper at the earliest."""


class Offloading:
    """What offloads the ledgers of a cluster of ours."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        self.owners = ReportedOwners()
        self.has_admin = True
        self.noted_ms = time.time_ns() // 1_000_000 + 5
        self.url_of: Callable[[OffloadContext], str | None] | None = None
        self.living: LivingCluster = ClusterFileSystem(**PATIENT).cluster(cluster.url.removeprefix("pulsar+zk://"))
        self.folder = cluster.bucket()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.bucket = open_bucket(cluster.bucket_url())
        self.lock = ClusterLock.take(self.living.nodes.settings, b"{}")
        url = self.bucket.store.url
        self.place = OffloadBucket("tier", url, S3, self.folder.name, "us-east-1", block_size=BLOCK)

    def step(self, pace: Callable[[int], None] = lambda _: None) -> OneStep:
        return OneStep(
            *(self.lock, ClosedLedgers(self.living), lambda _: self.bucket, {"pulsarclustername": "ours"}),
            noted_ms=lambda: self.noted_ms,
            url_of=self.url_of or self.place.url_of,
            unload=self.owners.unload if self.has_admin else None,
            owner_of=self.owners.owner_of,
            pace=pace,
        )

    def offload(self, *ledger_ids: int) -> list[Outcome]:
        return self.step().offload(NAME, ledger_ids, self.place)

    def listed(self) -> dict[int, Any]:
        data = self.cluster.nodes[managed_ledger_path(NAME)]
        return {one.ledger_id: one for one in parse_managed_ledger_info(data, key="").ledgers}

    def objects(self) -> set[str]:
        return {one.name for one in self.folder.iterdir()}

    def named(self) -> set[str]:
        uuids = [(one.context.uuid, one.ledger_id) for one in self.listed().values() if one.is_offloaded]
        return {f"{uuid}-ledger-{ledger_id}{end}" for uuid, ledger_id in uuids for end in ("", "-index")}

    def notes(self) -> list[str]:
        return [one.path for one in self.attempts()]

    def attempts(self) -> tuple[JournalRecord, ...]:
        return read_journal(self.living.nodes).attempts

    def require_nothing_left_over(self) -> None:
        assert self.objects() == self.named()
        assert self.notes() == []

    def close(self) -> None:
        self.lock.release()
        self.living.nodes.close()


@pytest.fixture
def offloading(cluster: LiveCluster) -> Iterator[Offloading]:
    made = Offloading(cluster)
    yield made
    made.close()


def three_ledgers(cluster: LiveCluster) -> list[int]:
    return cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(3)])


def read(cluster: LiveCluster) -> list[tuple[int, int, bytes]]:
    options = {"bucket_urls": {"tier": cluster.bucket_url()}, "open_end": "acknowledged", **PATIENT}
    bucket = open_bucket(cluster.url, options)
    found = []
    for ledger in bucket.topic(TOPIC).ledgers:
        for batch in ledger.batches(0, ledger.last_entry):
            found += [(ledger.ref.ledger_id, entry, bytes(data)) for entry, data in batch]
    return found


def test_ledgers_are_offloaded_and_served_from_the_bucket(cluster: LiveCluster, offloading: Offloading) -> None:
    first, second, last = three_ledgers(cluster)
    before, version = cluster.entries_of(TOPIC), offloading.living.nodes.get(managed_ledger_path(NAME)).version
    outcome = offloading.offload(first, second)
    assert (sorted(done(outcome)), left(outcome), remarks(outcome)) == ([first, second], {}, [])
    assert {one.ledger_id for one in offloading.listed().values() if one.is_offloaded} == {first, second}
    assert offloading.living.nodes.get(managed_ledger_path(NAME)).version == version + 1, "one set for all"
    assert offloading.listed()[first].context.offloaded_ms == offloading.noted_ms
    offloading.require_nothing_left_over()
    for one in (first, second):
        cluster.zookeeper.delete(ledger_path(one))
    assert read(cluster) == [one for one in before if one[0] != last] + [one for one in before if one[0] == last]
    assert {one.ledger_id for one in offloading.listed().values()} == {first, second, last}


def test_the_last_ledger_is_never_offloaded(cluster: LiveCluster, offloading: Offloading) -> None:
    first, _, last = three_ledgers(cluster)
    cluster.close(last)
    outcome = offloading.offload(first, last)
    assert done(outcome) == [first]
    assert [(one, "never offloaded" in why) for one, why in left(outcome).items()] == [(last, True)]
    offloading.require_nothing_left_over()


def test_topics_that_a_broker_may_have_are_refused(cluster: LiveCluster, offloading: Offloading) -> None:
    first, *_ = three_ledgers(cluster)
    for owner, words in ((Owner.SOME, "a broker owns the topic"), (Owner.UNKNOWN, "extensible load manager")):
        offloading.owners.owner = owner
        with pytest.raises(RefusedLedgerError, match=words):
            offloading.offload(first)
    with pytest.raises(RefusedLedgerError, match="system topics of the brokers"):
        offloading.step().offload("public/default/persistent/__change_events", [1], offloading.place)
    assert (offloading.objects(), offloading.notes()) == (set(), [])


def test_a_broker_that_loads_the_topic_meanwhile_changes_the_list_and_is_unloaded(
    cluster: LiveCluster, offloading: Offloading
) -> None:
    first, second, _ = three_ledgers(cluster)
    asked = iter(range(100))

    def load_once() -> None:
        # The second question comes when the ledgers are copied, after the list was read again.
        if next(asked) == 1:
            cluster.roll_over(TOPIC)
            offloading.owners.owner = Owner.SOME

    offloading.owners.when_asked = load_once
    outcome = offloading.offload(first, second)
    assert sorted(done(outcome)) == [first, second]
    assert offloading.owners.unloaded == [NAME]
    assert len(offloading.listed()) == 4
    offloading.require_nothing_left_over()


def test_without_admin_a_topic_that_was_taken_meanwhile_is_left_as_it_is(
    cluster: LiveCluster, offloading: Offloading
) -> None:
    first, *_ = three_ledgers(cluster)
    offloading.has_admin = False
    asked = iter(range(100))

    def take() -> None:
        offloading.owners.owner = Owner.SOME if next(asked) else Owner.NONE

    offloading.owners.when_asked = take
    outcome = offloading.offload(first)
    assert (done(outcome), left(outcome)) == ([], {first: "a broker loaded the topic during the offload"})
    assert offloading.objects() == set()
    offloading.require_nothing_left_over()


@pytest.mark.parametrize("what", ["trimmed", "deleted", "made anew", "offloaded"])
def test_a_ledger_that_goes_or_is_offloaded_meanwhile_leaves_nothing(
    cluster: LiveCluster, offloading: Offloading, what: str
) -> None:
    first, *_ = three_ledgers(cluster)
    path, asked = managed_ledger_path(NAME), iter(range(100))
    version = cluster.zookeeper.versions[path]
    anew = build_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(900, 0, 0, 0),)))

    def act() -> None:
        if next(asked) != 1:
            return
        match what:
            case "trimmed":
                cluster.trim(TOPIC, first)
            case "offloaded":
                cluster.offload(TOPIC, first)
            case _:
                cluster.zookeeper.delete(path)
                for _ in range(version + 1 if what == "made anew" else 0):
                    cluster.zookeeper.set(path, anew)

    offloading.owners.when_asked = act
    outcome = offloading.offload(first)
    is_done = what == "offloaded"
    assert (done(outcome), len(left(outcome))) == (([first], 0) if is_done else ([], 1))
    assert (offloading.objects(), offloading.notes()) == (offloading.named() if is_done else set(), [])
    if what == "made anew":
        assert (cluster.zookeeper.versions[path], cluster.nodes[path]) == (version, anew)


def test_a_failed_attempt_in_another_bucket_is_noted_there_or_reported(
    cluster: LiveCluster, offloading: Offloading
) -> None:
    """The bucket was changed in between: its objects are where the broker had them, and nobody else knows of them."""
    first, second, _ = three_ledgers(cluster)
    elsewhere = cluster.offload(TOPIC, first, bucket="before", is_complete=False, objects=("data",))
    offloading.url_of = lambda context: (
        cluster.bucket_url("before") if "before" in (context.get("bucket") or "") else None
    )
    outcome = offloading.offload(first)
    assert (done(outcome), remarks(outcome)) == ([first], [])
    (noted,) = offloading.attempts()
    assert (noted.uuid, noted.bucket) == (elsewhere, cluster.bucket_url("before"))
    nowhere = cluster.offload(TOPIC, second, bucket="unknown", is_complete=False, objects=("data",))
    outcome = offloading.offload(second)
    assert done(outcome) == [second]
    assert f"failed offload left {nowhere}-ledger-{second} in bucket" in remarks(outcome)[0]
    assert len(offloading.notes()) == 1


def test_an_attempt_that_was_completed_since_its_note_was_read_keeps_its_objects(
    cluster: LiveCluster, offloading: Offloading
) -> None:
    first, *_ = three_ledgers(cluster)
    seen: list[JournalRecord] = []
    offloading.owners.when_asked = lambda: seen.extend(offloading.attempts())
    assert done(offloading.offload(first)) == [first]
    assert seen
    for noted in seen:
        with pytest.raises(ChangedMeanwhileError):
            clean(offloading.lock, offloading.bucket, noted, noted.noted_ms, noted.noted_ms)
    offloading.require_nothing_left_over()
    assert len(offloading.objects()) == 2


def test_an_attempt_that_is_cleaned_up_after_is_not_completed(cluster: LiveCluster, offloading: Offloading) -> None:
    first, *_ = three_ledgers(cluster)

    def clean_up() -> None:
        for noted in list(offloading.attempts()):
            clean(offloading.lock, offloading.bucket, noted, noted.noted_ms, noted.noted_ms)

    offloading.owners.when_asked = clean_up
    with pytest.raises(ChangedMeanwhileError):
        offloading.offload(first)
    assert (offloading.objects(), offloading.listed()[first].context) == (set(), None)


def test_a_ledger_whose_list_reports_other_sizes_is_refused(cluster: LiveCluster, offloading: Offloading) -> None:
    first, *_ = three_ledgers(cluster)
    cluster.change_ledger(TOPIC, first, lambda info: replace(info, entries=info.entries - 1))
    outcome = offloading.offload(first)
    assert [why[:43] for why in left(outcome).values()] == ["the topic's ledger list has 19 entries with"]
    assert offloading.objects() == set()
    offloading.require_nothing_left_over()


def test_damage_at_the_bookies_is_not_copied(
    cluster: LiveCluster, offloading: Offloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgerfs_cluster.live_source.hot_ledger._PAUSE_S", 0.01)
    first, second, _ = three_ledgers(cluster)
    for bookie in cluster.bookies:
        if 7 in bookie.entries(first):
            bookie.corrupt(first, 7)
    outcome = offloading.offload(first, second)
    assert (done(outcome), list(left(outcome))) == ([second], [first])
    offloading.require_nothing_left_over()


def test_a_lost_lock_ends_it_and_the_next_holder_cleans(cluster: LiveCluster, offloading: Offloading) -> None:
    first, second, _ = three_ledgers(cluster)
    asked = iter(range(100))

    def lose() -> None:
        if next(asked) == 1:
            cluster.zookeeper.expire_sessions()

    offloading.owners.when_asked = lose
    with pytest.raises(LockLostError):
        offloading.offload(first, second)
    assert len(offloading.notes()) == 2
    assert not any(one.is_offloaded for one in offloading.listed().values())
    other = Offloading(cluster)
    try:
        for at in (0, LONG_AFTER_MS):
            for noted in list(other.attempts()):
                clean(other.lock, other.bucket, noted, noted.noted_ms + at + 1, noted.noted_ms + at + 1)
        assert other.objects() == set()
        other.require_nothing_left_over()
        assert sorted(done(other.offload(first, second))) == [first, second]
        other.require_nothing_left_over()
    finally:
        other.close()


def begun(cluster: LiveCluster) -> int:
    """Return how many attempts were noted."""
    return len({path for paths in cluster.zookeeper.writes for path in paths if path.startswith(f"{ROOT}/attempt-")})


def room_for(cluster: LiveCluster, offloads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a ZooKeeper take as many bytes as the list has with so many offloads more, and not with another one."""
    data = cluster.nodes[managed_ledger_path(NAME)]
    properties = driver_properties(S3, cluster.bucket(), endpoint="", region="us-east-1")
    size = build_context(context(str(uuid4()), S3, properties)).ByteSize()
    for module in ("list_bytes", "one_step"):
        monkeypatch.setattr(
            f"ledgerfs_cluster.offload.{module}.MOST_BYTES", len(data) + offloads * (size + 8) + size // 2
        )


def test_what_the_list_has_room_for_is_offloaded_and_nothing_else_is_copied(
    cluster: LiveCluster, offloading: Offloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(7)])[:-1]
    room_for(cluster, 2, monkeypatch)
    step = offloading.step()
    outcome = step.offload(NAME, ids, offloading.place)
    assert done(outcome) == ids[:2]
    assert {one.ledger_ids: type(one.error) for one in outcome if one.error} == {
        (one,): ListFullError for one in ids[2:]
    }
    assert begun(cluster) == 2
    again = step.offload(NAME, ids[2:], offloading.place)
    assert (done(again), len(left(again)), begun(cluster)) == ([], 4, 2)
    assert step.in_flight == frozenset()
    offloading.require_nothing_left_over()
    # There is room again once ledgers are trimmed.
    cluster.trim(TOPIC, ids[0])
    assert done(step.offload(NAME, ids[2:3], offloading.place)) == ids[2:3]


def test_as_many_copies_as_fit_are_completed_of_a_list_that_has_grown(
    cluster: LiveCluster, offloading: Offloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(6)])[:-1]
    step = offloading.step()
    copies = [step.copy(NAME, one, offloading.place) for one in reversed(ids)]
    room_for(cluster, 3, monkeypatch)
    outcome: list[Outcome] = []
    step.complete(NAME, [one for one in copies if isinstance(one, CopiedLedger)], outcome)
    assert done(outcome) == ids[:3]
    assert [(one.ledger_ids, type(one.error)) for one in outcome if one.error] == [
        ((one,), ListFullError) for one in ids[3:]
    ]
    assert step.in_flight == frozenset()
    offloading.require_nothing_left_over()


def test_more_copies_than_one_commit_takes_are_completed_by_several(
    cluster: LiveCluster, offloading: Offloading, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(6)])[:-1]
    version = offloading.living.nodes.get(managed_ledger_path(NAME)).version
    monkeypatch.setattr("ledgerfs_cluster.offload.list_bytes._MOST_WITH_ALL", 2500)
    assert done(offloading.offload(*ids)) == ids
    assert 1 < offloading.living.nodes.get(managed_ledger_path(NAME)).version - version < len(ids)
    offloading.require_nothing_left_over()


def test_a_prefix_of_a_topic_is_offloaded(cluster: LiveCluster, offloading: Offloading) -> None:
    _, second, last = three_ledgers(cluster)
    topic = ManagedLedger(offloading.living.nodes, offloading.step(), TOPIC, offloading.place)
    assert topic.offload_prefix((second, 5)) == Position(second, 0)
    assert topic.offload_prefix((last, 0)) == Position(last, 0)
    assert topic.offload_prefix((last, 3)) == Position(last, 0)
    offloading.require_nothing_left_over()
    with pytest.raises(EntryRangeError, match="ledgers 150 to 152"):
        topic.offload_prefix((last + 1, 0))


def test_what_is_left_for_somebody_is_a_warning(cluster: LiveCluster, offloading: Offloading) -> None:
    first, second, _ = three_ledgers(cluster)
    nowhere = cluster.offload(TOPIC, first, bucket="unknown", is_complete=False, objects=("data",))
    offloading.url_of = lambda _: None
    topic = ManagedLedger(offloading.living.nodes, offloading.step(), TOPIC, offloading.place)
    with pytest.warns(OffloadRemarkWarning, match=f"{nowhere}-ledger-{first} in bucket .*: delete the object yourself"):
        assert topic.offload_prefix((second, 0)) == Position(second, 0)


def test_a_topic_is_opened_by_urls(cluster: LiveCluster) -> None:
    first, second, last = three_ledgers(cluster)
    cluster.bucket().mkdir(parents=True, exist_ok=True)
    with pytest.raises(InvalidOptionError, match="brokers only find offloads at the top of a bucket"):
        ManagedLedger.open(cluster.url, TOPIC, "s3://tier/prod")
    options: dict[str, Any] = {"region": "us-east-1", "block_size": BLOCK, "cluster_options": PATIENT}
    with ManagedLedger.open(cluster.url, TOPIC, cluster.bucket_url(), **options) as topic:
        with pytest.raises(LockHeldError):
            ManagedLedger.open(cluster.url, TOPIC, cluster.bucket_url(), cluster_options=PATIENT)
        assert topic.offload_prefix((last, 0)) == Position(last, 0)
    data = cluster.nodes[managed_ledger_path(NAME)]
    assert [one.is_offloaded for one in parse_managed_ledger_info(data, key="").ledgers] == [True, True, False]
    with ManagedLedger.open(cluster.url, TOPIC, cluster.bucket_url(), cluster_options=PATIENT) as topic:
        assert topic.offload_prefix((last, 0)) == Position(last, 0)
    assert first < second


def test_bytes_are_reported_as_they_go_and_come_back_and_each_may_end_the_copy(
    cluster: LiveCluster, offloading: Offloading
) -> None:
    first, second, *_ = three_ledgers(cluster)
    size = offloading.listed()[first].size
    reported: list[int] = []
    copied = offloading.step(reported.append).copy(NAME, first, offloading.place)
    assert isinstance(copied, CopiedLedger)
    assert sum(reported) == 2 * size

    def end_at_reading_back(count: int) -> None:
        reported.append(count)
        if sum(reported) > 3 * size:
            raise StoppedError("the service is stopping")

    before = offloading.objects()
    assert isinstance(offloading.step(end_at_reading_back).copy(NAME, second, offloading.place), Outcome)
    assert offloading.objects() == before
