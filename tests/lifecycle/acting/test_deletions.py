"""What lies in the trash beyond its grace is deleted step by step, and nothing that somebody needs, whoever acts or dies meanwhile."""

import time
from collections.abc import Iterator
from dataclasses import replace
from shutil import copytree
from typing import TYPE_CHECKING, Any

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.subscriptions_now import SubscriptionsNow, subscriptions_now
from ledgerfs.dialects.closed_ledgers import ClosedLedgers, StoredLedger
from ledgerfs.dialects.newest_entries import NewestEntries
from ledgerfs.dialects.offloaded_copies import OffloadedCopies
from ledgerfs.errors import (
    BucketNotFoundError,
    ChangedMeanwhileError,
    CorruptMetadataError,
    LockLostError,
    StoreError,
)
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.formats.decompression import Compression
from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY
from ledgerfs.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    build_managed_ledger_info,
    parse_managed_ledger_info,
)
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.lifecycle.acting import deletions
from ledgerfs.lifecycle.acting.carrying_out import CarryingOut
from ledgerfs.lifecycle.acting.cleaning import Cleaner
from ledgerfs.lifecycle.acting.deletions import Deletions
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.acting.turn import Turn
from ledgerfs.lifecycle.journal.noted_line import NotedLine
from ledgerfs.lifecycle.journal.reading import read_journal
from ledgerfs.lifecycle.journal.trash_journal import mark, undo
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState, build_trash_line
from ledgerfs.messages.codecs.compress import compress
from ledgerfs.messages.transforms.entry_transform import recompress
from ledgerfs.offload.attempts import Attempt
from ledgerfs.offload.candidates import listed_now
from ledgerfs.offload.one_step import OneStep
from ledgerfs.offload.tier import Tier
from ledgerfs.storage.zookeeper.changes import ClusterLock, DropNode, MakeNode
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.entries import frame, metadata
from tests.support.live_clusters import TOPIC, LiveCluster, messages
from tests.support.live_offloads import S3, driver_properties
from tests.support.living_clusters import PATIENCE_S
from tests.support.told_owners import NAME, ToldOwners

if TYPE_CHECKING:
    from ledgerfs.storage.zookeeper.living_cluster import LivingCluster


class Trash:
    """Deletes ledgers of a cluster of ours, within one turn unless a test has another one."""

    def __init__(self, cluster: LiveCluster, turn: Turn | None = None) -> None:
        self.cluster = cluster
        self.turn = turn or Turn(clock=lambda: 0.0)
        self.owners = ToldOwners()
        options = {"bucket_urls": {"tier": cluster.bucket_url()}, "timeout_s": PATIENCE_S}
        self.living: LivingCluster = ClusterFileSystem(**options).cluster(cluster.url.removeprefix("pulsar+zk://"))
        self.lock = ClusterLock.take(self.living.nodes.settings, b"{}")
        ledgers, copies = ClosedLedgers(self.living), OffloadedCopies(self.living.reading)
        means = Means(
            self.lock, ledgers, copies, self.owners, open_bucket, lambda _: cluster.bucket_url(), turn=self.turn
        )
        self.means = means
        bookies = NewestEntries(self.living.reading)

        def subscriptions(name: str) -> SubscriptionsNow:
            return subscriptions_now(self.lock.newest(), self.living.reading.ledgers_path, bookies, name)

        self.deletions = Deletions(means, subscriptions, bookies)
        self.hands = CarryingOut(self.living, means, bookies, None, frozenset)

    def line(self, kind: TrashKind, ledger_id: int, **others: Any) -> TrashLine:
        info = self.listed().get(ledger_id)
        context = None if info is None else info.context
        now = time.time_ns() // 1_000_000
        version = ClosedLedgers(self.living).found(ledger_id).version
        uuid = None if context is None else context.uuid
        bucket = None if uuid is None else self.cluster.bucket_url()
        made = TrashLine(kind, ledger_id, NAME, uuid, bucket, "a test", version, 100, now, now, TrashState.MARKED)
        return replace(made, **others)

    def marked(self, *lines: TrashLine) -> list[NotedLine]:
        mark(self.lock, lines)
        return self.journal()

    def journal(self) -> list[NotedLine]:
        found = read_journal(self.living.nodes)
        assert found.unreadable == {}
        return list(found.noted_lines)

    def states(self) -> dict[int, TrashState]:
        return {one.line.ledger_id: one.line.state for one in self.journal()}

    def listed(self) -> dict[int, Any]:
        data = self.cluster.nodes.get(managed_ledger_path(NAME), b"")
        return {one.ledger_id: one for one in parse_managed_ledger_info(data, key="").ledgers}

    def version(self) -> int:
        return self.living.nodes.get(managed_ledger_path(NAME)).version

    def in_bookkeeper(self, ledger_id: int) -> bool:
        return ledger_path(ledger_id) in self.cluster.nodes

    def objects(self) -> set[str]:
        folder = self.cluster.bucket()
        return {one.name for one in folder.iterdir()} if folder.exists() else set()

    def close(self) -> None:
        self.lock.release()
        self.living.nodes.close()


@pytest.fixture
def trash(cluster: LiveCluster) -> Iterator[Trash]:
    made = Trash(cluster)
    yield made
    made.close()


def ledgers(cluster: LiveCluster, count: int = 3) -> list[int]:
    return cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(count)])


def flag(trash: Trash, lines: list[NotedLine]) -> Done:
    done = Done()
    trash.deletions.flag(NAME, lines, done)
    return done


def trim(trash: Trash, lines: list[NotedLine], version: int) -> Done:
    done = Done()
    trash.deletions.trim(NAME, lines, version, done)
    return done


def test_copies_of_bookkeeper_go_and_the_bucket_serves_them(cluster: LiveCluster, trash: Trash) -> None:
    first, second, _ = ledgers(cluster)
    expected = cluster.entries_of(TOPIC)
    for one in (first, second):
        cluster.offload(TOPIC, one)
    version = trash.version()
    lines = trash.marked(*(trash.line(TrashKind.OFFLOADED, one) for one in (first, second)))
    done = flag(trash, lines)
    assert (done.ledger_ids, done.size, done.postponed, done.remarks) == ([first, second], 200, {}, [])
    assert not any(map(trash.in_bookkeeper, (first, second)))
    assert trash.version() == version + 1
    assert [one.context.is_deleted_from_bookkeeper for one in trash.listed().values() if one.context] == [True, True]
    assert set(trash.states().values()) == {TrashState.DELETED}
    options = {
        "bucket_urls": {"tier": cluster.bucket_url()},
        "open_end": "acknowledged",
        "timeout_s": PATIENCE_S,
    }
    found = [
        (one.ref.ledger_id, entry, bytes(data))
        for one in open_bucket(cluster.url, options).topic(TOPIC).ledgers
        for batch in one.batches(0, one.last_entry)
        for entry, data in batch
    ]
    assert found == expected


def test_copies_stay_whose_objects_are_not_there(cluster: LiveCluster, trash: Trash) -> None:
    ids = ledgers(cluster, 4)[:3]
    for one, objects in zip(ids, (("data",), ("index",), ()), strict=True):
        cluster.offload(TOPIC, one, objects=objects)
    done = flag(trash, trash.marked(*(trash.line(TrashKind.OFFLOADED, one) for one in ids)))
    assert (done.ledger_ids, sorted(done.postponed)) == ([], ids)
    assert len(done.remarks) == 3
    assert all(map(trash.in_bookkeeper, ids))
    assert trash.states() == dict.fromkeys(ids, TrashState.MARKED)


def test_a_copy_stays_whose_objects_have_another_byte(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    uuid = cluster.offload(TOPIC, first)
    path = cluster.bucket() / f"{uuid}-ledger-{first}"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    done = flag(trash, trash.marked(trash.line(TrashKind.OFFLOADED, first)))
    assert (done.ledger_ids, "BookKeeper's copy stays" in done.postponed[first]) == ([], True)
    assert trash.in_bookkeeper(first)


def swapped(data: bytes, first: bytes, second: bytes) -> bytes:
    assert len(first) == len(second) != 0
    at, other = data.index(first), data.index(second)
    return data[:at] + second + data[at + len(first) : other] + first + data[other + len(second) :]


@pytest.mark.parametrize("how", ["another ledger's", "two exchanged", "a bit without a sum"])
def test_a_copy_stays_whose_objects_hold_other_entries_of_the_same_sizes(
    cluster: LiveCluster, trash: Trash, how: str
) -> None:
    bare = [frame(metadata(sequence_id=one, publish_time_ms=1), b"abcd%d" % one, checksum=False) for one in range(9)]
    ids = cluster.write_ledgers(TOPIC, [bare] * 3) if how == "a bit without a sum" else ledgers(cluster)
    first, second, _ = ids
    path, other = (cluster.bucket() / f"{cluster.offload(TOPIC, one)}-ledger-{one}" for one in (first, second))
    data = path.read_bytes()
    if how == "another ledger's":
        path.write_bytes(other.read_bytes())
    elif how == "two exchanged":
        path.write_bytes(swapped(data, *cluster.written[first].payloads[3:5]))
    else:
        path.write_bytes(data.replace(b"abcd7", b"abce7"))
    assert path.read_bytes() != data
    done = flag(trash, trash.marked(trash.line(TrashKind.OFFLOADED, first)))
    assert (done.ledger_ids, "hold other entries" in done.postponed[first]) == ([], True)
    assert done.remarks
    assert trash.in_bookkeeper(first)
    assert trash.states() == {first: TrashState.MARKED}


def test_a_copy_stays_whose_bookies_are_silent(
    cluster: LiveCluster, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgerfs.dialects.live_cluster.hot_ledger._PAUSE_S", 0.01)
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(TrashKind.OFFLOADED, first))
    for one in cluster.bookies:
        one.kill()
    done = flag(trash, lines)
    assert (done.ledger_ids, list(done.postponed)) == ([], [first])
    assert trash.in_bookkeeper(first)


def mixed(letter: int) -> list[bytes]:
    """Return entries without compression, with it, and without a checksum."""
    plain = [bytes([letter, letter + one]) * 300 for one in range(6)]
    packed = [compress(Compression.ZLIB, one) for one in plain]
    whole = [frame(metadata(sequence_id=one), data, checksum=one % 3 != 0) for one, data in enumerate(plain)]
    zlib = [
        frame(metadata(sequence_id=one, compression=2, uncompressed_size=600), data) for one, data in enumerate(packed)
    ]
    return [*whole, *zlib]


@pytest.mark.parametrize("codec", ["none", "lz4", "zlib", "zstd", "snappy"])
def test_what_was_compressed_again_is_compared_by_what_it_decompresses_to(
    cluster: LiveCluster, trash: Trash, codec: str
) -> None:
    ids = cluster.write_ledgers(TOPIC, [mixed(65), mixed(97), mixed(65)])[:2]
    cluster.bucket().mkdir(parents=True, exist_ok=True)
    properties = driver_properties(S3, cluster.bucket(), endpoint="", region="us-east-1")
    bucket, closed = open_bucket(cluster.bucket_url()), ClosedLedgers(trash.living)
    tier = Tier(bucket, S3, properties, {}, 8 << 20, lambda: recompress(codec))
    step = OneStep(trash.lock, closed, trash.owners, tier, noted_ms=lambda: 1, url_of=tier.url_of)
    assert step.offload(NAME, ids).done == ids
    assert [trash.listed()[one].size != closed.found(one).node.length for one in ids] == [True, True]
    first, second = (cluster.bucket() / f"{trash.listed()[one].context.uuid}-ledger-{one}" for one in ids)
    assert first.read_bytes() != second.read_bytes()
    lines = trash.marked(*(trash.line(TrashKind.OFFLOADED, one) for one in ids))
    first.write_bytes(second.read_bytes())
    done = flag(trash, lines)
    assert (done.ledger_ids, list(done.postponed)) == (ids[1:], ids[:1])
    assert "hold other entries" in done.postponed[ids[0]]


def test_ledgers_past_their_retention_go_with_their_objects(cluster: LiveCluster, trash: Trash) -> None:
    first, second, last = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(*(trash.line(TrashKind.TRIMMED, one) for one in (first, second)))
    done = trim(trash, lines, trash.version())
    assert (sorted(done.ledger_ids), done.postponed) == ([first, second], {})
    assert list(trash.listed()) == [last]
    assert not any(map(trash.in_bookkeeper, (first, second)))
    assert trash.in_bookkeeper(last)
    assert trash.objects() == set()


def test_a_ledger_whose_objects_are_not_where_its_list_tells_stays(cluster: LiveCluster, trash: Trash) -> None:
    """As where the bucket's URL is another folder for a moment, which is not empty."""
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(TrashKind.TRIMMED, first))
    cluster.bucket().rename(cluster.bucket().with_name("away"))
    cluster.bucket().mkdir()
    (cluster.bucket() / "another").write_bytes(b"object")
    done = trim(trash, lines, trash.version())
    assert "its objects are not in" in done.postponed[first]
    assert (first in trash.listed(), trash.in_bookkeeper(first)) == (True, True)
    (cluster.bucket() / "another").unlink()
    cluster.bucket().rmdir()
    cluster.bucket().with_name("away").rename(cluster.bucket())
    assert trim(trash, trash.journal(), trash.version()).ledger_ids == [first]
    assert trash.objects() == set()


def test_a_ledger_whose_bucket_is_another_one_by_now_stays(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    backup = cluster.bucket().with_name("backup")
    copytree(cluster.bucket(), backup)
    lines = trash.marked(trash.line(TrashKind.TRIMMED, first, bucket=f"file://{backup}"))
    done = trim(trash, lines, trash.version())
    assert "has that bucket elsewhere now" in done.postponed[first]
    assert (first in trash.listed(), len(list(backup.iterdir()))) == (True, 2)


@pytest.mark.parametrize("changes", [{"entries": 19}, {"size": 1}], ids=str)
def test_a_ledger_with_other_entries_in_bookkeeper_than_listed_stays(
    cluster: LiveCluster, trash: Trash, changes: dict[str, int]
) -> None:
    first, *_ = ledgers(cluster)
    cluster.change_ledger(TOPIC, first, lambda info: replace(info, **changes))
    done = trim(trash, trash.marked(trash.line(TrashKind.TRIMMED, first)), trash.version())
    assert "closed in BookKeeper with 20" in done.postponed[first]
    assert (first in trash.listed(), trash.in_bookkeeper(first)) == (True, True)


@pytest.mark.parametrize("is_there", [False, True], ids=["no folder", "what a share is mounted on"])
def test_ledgers_of_a_bucket_that_is_away_stay(cluster: LiveCluster, trash: Trash, is_there: bool) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(TrashKind.TRIMMED, first))
    cluster.bucket().rename(cluster.bucket().with_name("away"))
    if is_there:
        cluster.bucket().mkdir()
    with pytest.raises(BucketNotFoundError):
        trim(trash, lines, trash.version())
    assert trash.states() == {first: TrashState.MARKED}
    assert first in trash.listed()


def test_objects_of_a_bucket_that_is_away_for_a_moment_are_not_taken_for_deleted(
    cluster: LiveCluster, trash: Trash
) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    objects = trash.objects()
    lines = trash.marked(trash.line(TrashKind.TRIMMED, first))
    away = cluster.bucket().with_name("away")
    # Who has the topic is asked before and behind the look at the bucket, and once more before the first line is gone on with.
    asked = iter(range(100))

    def go_away() -> None:
        if next(asked) == 2:
            cluster.bucket().rename(away)

    trash.owners.when_asked = go_away
    done = trim(trash, lines, trash.version())
    assert (done.ledger_ids, trash.states()) == ([], {first: TrashState.UNLISTED})
    assert "no such bucket or folder" in done.remarks[0]
    away.rename(cluster.bucket())
    assert trash.objects() == objects
    trash.owners.when_asked = lambda: None
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert (done.ledger_ids, trash.objects()) == ([first], set())


def test_what_a_subscription_needs_by_now_stays(cluster: LiveCluster, trash: Trash) -> None:
    """A broker that had the topic for a moment has set one back, or made one, without a change of the list since it was decided."""
    first, second, third, last = ledgers(cluster, 4)
    cluster.add_cursor(TOPIC, "s", (last, 3))
    lines = trash.marked(*(trash.line(TrashKind.TRIMMED, one) for one in (first, second, third)))
    version = trash.version()
    cluster.add_cursor(TOPIC, "s", (second, 19))
    done = trim(trash, lines, version)
    assert (done.ledger_ids, list(done.postponed)) == ([first, second], [third])
    assert "a subscription has not passed it" in done.postponed[third]
    cluster.add_cursor(TOPIC, "s", (last, 3))
    cluster.add_cursor(TOPIC, "made", (third, -1))
    done = trim(trash, lines[2:], trash.version())
    assert (done.ledger_ids, list(done.postponed)) == ([], [third])
    assert list(trash.listed()) == [third, last]


def test_a_topic_gets_no_holes(cluster: LiveCluster, trash: Trash) -> None:
    """By what is gone of the oldest ledgers exports and followers know whether they missed any."""
    first, second, third, last = ledgers(cluster, 4)
    lines = trash.marked(*(trash.line(TrashKind.TRIMMED, one) for one in (first, second, third)))
    done = trim(trash, [lines[0], lines[2]], trash.version())
    assert (done.ledger_ids, list(done.postponed)) == ([first], [third])
    assert f"ledger {second}, which is older, stays" in done.postponed[third]
    assert list(trash.listed()) == [second, third, last]


def test_a_subscription_that_was_set_back_in_its_own_ledger_alone_is_seen(cluster: LiveCluster, trash: Trash) -> None:
    """A broker that crashes leaves the node as it was, and what was acknowledged, or taken back, in the subscription's ledger."""
    first, _, last = ledgers(cluster)
    lines = trash.marked(trash.line(TrashKind.TRIMMED, first))
    cluster.add_cursor(TOPIC, "s", (first, 7), stale=(last, 3))
    done = trim(trash, lines, trash.version())
    assert (done.ledger_ids, list(done.postponed)) == ([], [first])
    for bookie in cluster.bookies:
        bookie.kill()
    done = trim(trash, lines, trash.version())
    assert "no bookie told where subscription s is" in done.postponed[first]


def test_the_last_ledger_is_never_touched(cluster: LiveCluster, trash: Trash) -> None:
    *_, last = ledgers(cluster)
    cluster.close(last)
    lines = trash.marked(trash.line(TrashKind.TRIMMED, last))
    done = trim(trash, lines, trash.version())
    assert done.postponed == {last: "it is the last ledger of its topic"}
    assert trash.in_bookkeeper(last)
    assert last in trash.listed()


@pytest.mark.parametrize("kind", [TrashKind.OFFLOADED, TrashKind.TRIMMED])
def test_a_topic_that_a_broker_may_have_is_left(cluster: LiveCluster, trash: Trash, kind: TrashKind) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(kind, first))
    for owner in (Owner.SOME, Owner.UNKNOWN):
        trash.owners.owner = owner
        done = flag(trash, lines) if kind is TrashKind.OFFLOADED else trim(trash, lines, trash.version())
        assert (done.ledger_ids, list(done.postponed)) == ([], [first]), owner
        assert trash.in_bookkeeper(first), owner
        assert first in trash.listed(), owner


def test_terminated_topics_are_left(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    cluster.terminate(TOPIC)
    done = flag(trash, trash.marked(trash.line(TrashKind.OFFLOADED, first)))
    assert "terminated" in done.postponed[first]
    assert trash.in_bookkeeper(first)


@pytest.mark.parametrize("question", [0, 1])
@pytest.mark.parametrize("kind", [TrashKind.OFFLOADED, TrashKind.TRIMMED])
def test_a_broker_that_loads_the_topic_in_between_is_not_overwritten(
    cluster: LiveCluster, trash: Trash, kind: TrashKind, question: int
) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines, version = trash.marked(trash.line(kind, first)), trash.version()
    asked = iter(range(100))

    def load() -> None:
        if next(asked) == question:
            cluster.roll_over(TOPIC)

    trash.owners.when_asked = load
    done = flag(trash, lines) if kind is TrashKind.OFFLOADED else trim(trash, lines, version)
    assert (done.ledger_ids, list(done.postponed)) == ([], [first])
    assert trash.in_bookkeeper(first)
    assert len(trash.listed()) == 4
    assert trash.states() == {first: TrashState.MARKED}


def test_a_list_that_changed_since_it_was_decided_is_left(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    lines, version = trash.marked(trash.line(TrashKind.TRIMMED, first)), trash.version()
    cluster.roll_over(TOPIC)
    done = trim(trash, lines, version)
    assert "changed since it was decided" in done.postponed[first]
    assert first in trash.listed()


def test_a_broker_that_comes_afterwards_lets_the_topic_go(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(TrashKind.OFFLOADED, first))
    asked = iter(range(100))

    def come_back() -> None:
        trash.owners.owner = Owner.SOME if next(asked) >= 2 else Owner.NONE

    trash.owners.when_asked = come_back
    assert flag(trash, lines).ledger_ids == [first]
    assert trash.owners.unloaded == [NAME]


@pytest.mark.parametrize("bound", ["_MOST_LINES", "MOST_BYTES"])
@pytest.mark.parametrize("kind", [TrashKind.OFFLOADED, TrashKind.TRIMMED])
def test_what_one_commit_does_not_take_goes_by_several_the_oldest_first(
    cluster: LiveCluster, trash: Trash, kind: TrashKind, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    *ids, last = ledgers(cluster, 6)
    for one in ids:
        cluster.offload(TOPIC, one)
    lines, version = trash.marked(*(trash.line(kind, one) for one in reversed(ids))), trash.version()
    size = len(cluster.nodes[managed_ledger_path(NAME)])
    monkeypatch.setattr(deletions, bound, 2 if bound == "_MOST_LINES" else size + 2000)
    done = flag(trash, lines) if kind is TrashKind.OFFLOADED else trim(trash, lines, version)
    assert (done.ledger_ids, done.postponed, done.remarks) == (ids, {}, [])
    assert version + 2 <= trash.version() <= version + 3
    assert not any(map(trash.in_bookkeeper, ids))
    assert list(trash.listed()) == ([*ids, last] if kind is TrashKind.OFFLOADED else [last])


def test_a_topic_that_a_broker_loads_between_two_commits_is_left_from_there_on(
    cluster: LiveCluster, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = ledgers(cluster)
    lines, version = trash.marked(*(trash.line(TrashKind.TRIMMED, one) for one in (first, second))), trash.version()
    monkeypatch.setattr(deletions, "_MOST_LINES", 1)
    asked = iter(range(100))

    def load() -> None:
        if next(asked) == 3:
            cluster.roll_over(TOPIC)

    trash.owners.when_asked = load
    done = trim(trash, lines, version)
    assert (done.ledger_ids, list(done.postponed)) == ([first], [second])
    assert second in trash.listed()


def test_lines_of_many_bytes_and_a_large_list_are_less_than_a_zookeeper_takes(
    cluster: LiveCluster, trash: Trash
) -> None:
    first, *_ = ledgers(cluster)
    (noted,) = trash.marked(trash.line(TrashKind.TRIMMED, first, why="why" * 1000))
    listed = listed_now(trash.living.nodes, NAME)
    some, others = deletions._that_fit([noted] * 1000, listed)
    assert (len(some) + len(others), 250 < len(some) < 320) == (1000, True)
    large = replace(listed, node=replace(listed.node, data=bytes(deletions.MOST_BYTES)))
    assert len(deletions._that_fit([noted] * 3, large)[0]) == 1


@pytest.mark.parametrize("dies", [False, True])
def test_a_broker_that_comes_back_lets_the_topic_go_though_the_store_is_broken(
    cluster: LiveCluster, trash: Trash, dies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = ledgers(cluster)
    for one in (first, second):
        cluster.offload(TOPIC, one)
    lines = trash.marked(*(trash.line(TrashKind.TRIMMED, one) for one in (first, second)))
    remove, asked = deletions.remove_for_good, iter(range(100))

    def away(bucket: Any, key: Any) -> None:
        if key.ledger_id == first:
            raise KeyboardInterrupt if dies else StoreError("broken", key="a bucket")
        remove(bucket, key)

    def come_back() -> None:
        trash.owners.owner = Owner.SOME if next(asked) >= 3 else Owner.NONE

    trash.owners.when_asked = come_back
    with monkeypatch.context() as patch:
        patch.setattr(deletions, "remove_for_good", away)
        if dies:
            with pytest.raises(KeyboardInterrupt):
                trim(trash, lines, trash.version())
        else:
            done = trim(trash, lines, trash.version())
            assert (done.ledger_ids, list(done.postponed), len(done.remarks)) == ([second], [first], 1)
    assert trash.owners.unloaded == [NAME]
    unlisted = [one for one in trash.journal() if one.line.state is TrashState.UNLISTED]
    assert len(unlisted) == 1 + dies
    states: list[TrashState] = []
    monkeypatch.setattr(ToldOwners, "unload", lambda *_: states.append(trash.states()[first]))
    trash.deletions.finish(unlisted, Done())
    assert states == [TrashState.UNLISTED]
    assert set(trash.states().values()) == {TrashState.DELETED}


def test_a_line_that_cannot_go_on_holds_up_no_other(
    cluster: LiveCluster, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = ledgers(cluster)
    lines = trash.marked(*(trash.line(TrashKind.TRIMMED, one) for one in (first, second)))
    with monkeypatch.context() as patch:
        patch.setattr(Deletions, "_finish", lambda *_: None)
        trim(trash, lines, trash.version())
    found = ClosedLedgers.found

    def broken(self: ClosedLedgers, ledger_id: int) -> Any:
        if ledger_id == first:
            raise CorruptMetadataError("no node of a ledger", key="a path")
        return found(self, ledger_id)

    monkeypatch.setattr(ClosedLedgers, "found", broken)
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert (done.ledger_ids, list(done.postponed), len(done.remarks)) == ([second], [first], 1)
    assert trash.states() == {first: TrashState.UNLISTED, second: TrashState.DELETED}


@pytest.mark.parametrize("commits", [0, 1])
@pytest.mark.parametrize("kind", [TrashKind.OFFLOADED, TrashKind.TRIMMED])
def test_a_crash_at_each_step_is_gone_on_with(
    cluster: LiveCluster, trash: Trash, kind: TrashKind, commits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    # A folder without anything may be what a share is to be mounted on.
    (cluster.bucket() / "another").write_bytes(b"x")
    lines, version = trash.marked(trash.line(kind, first)), trash.version()
    commit, left = ClusterLock.commit, [commits]

    def dying(self: ClusterLock, operations: Any) -> None:
        if not left[0]:
            cluster.zookeeper.expire_sessions()
        left[0] -= 1
        commit(self, operations)

    def delete(where: Trash, noted: list[NotedLine], list_version: int) -> Done:
        return flag(where, noted) if kind is TrashKind.OFFLOADED else trim(where, noted, list_version)

    with monkeypatch.context() as patch:
        patch.setattr(ClusterLock, "commit", dying)
        with pytest.raises(LockLostError):
            delete(trash, lines, version)
    assert trash.states() == {first: TrashState.MARKED if commits == 0 else TrashState.UNLISTED}
    assert trash.in_bookkeeper(first)
    other = Trash(cluster)
    try:
        (noted,) = other.journal()
        if commits:
            done = Done()
            other.deletions.finish([noted], done)
        else:
            done = delete(other, [noted], other.version())
        assert done.ledger_ids == [first]
        assert not other.in_bookkeeper(first)
        assert other.states() == {first: TrashState.DELETED}
        assert (first in other.listed()) == (kind is TrashKind.OFFLOADED)
        assert (other.objects() == {"another"}) == (kind is TrashKind.TRIMMED)
    finally:
        other.close()


def test_a_deletion_that_is_gone_on_with_looks_at_the_objects_again(
    cluster: LiveCluster, trash: Trash, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = ledgers(cluster)
    uuid = cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(TrashKind.OFFLOADED, first))
    with monkeypatch.context() as patch:
        patch.setattr(Deletions, "_delete_from_bookkeeper", lambda *_: None)
        flag(trash, lines)
    assert trash.states() == {first: TrashState.UNLISTED}
    (cluster.bucket() / f"{uuid}-ledger-{first}").unlink()
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert (done.ledger_ids, list(done.postponed)) == ([], [first])
    assert trash.in_bookkeeper(first)


def test_a_ledger_whose_metadata_changed_since_it_was_marked_stays(cluster: LiveCluster, trash: Trash) -> None:
    orphan = cluster.write_unlisted(messages(3), [("component", b"managed-ledger")], state=3)
    lines = trash.marked(trash.line(TrashKind.ORPHAN, orphan))
    cluster.change_ensemble(orphan, 1)
    done = Done()
    trash.deletions.delete_orphans(NAME, lines, done)
    assert "changed since it was marked" in done.postponed[orphan]
    assert trash.in_bookkeeper(orphan)


@pytest.mark.parametrize(
    ("kind", "is_offloaded"), [(TrashKind.OFFLOADED, True), (TrashKind.TRIMMED, True), (TrashKind.TRIMMED, False)]
)
def test_a_deletion_that_began_goes_on_though_the_ledger_was_replicated_anew(
    cluster: LiveCluster, trash: Trash, kind: TrashKind, is_offloaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = ledgers(cluster)
    if is_offloaded:
        cluster.offload(TOPIC, first)
        (cluster.bucket() / "another").write_bytes(b"x")
    size = cluster.written[first].node.length
    lines = trash.marked(trash.line(kind, first, size=size))
    with monkeypatch.context() as patch:
        patch.setattr(Deletions, "_delete_from_bookkeeper", lambda *_: None)
        flag(trash, lines) if kind is TrashKind.OFFLOADED else trim(trash, lines, trash.version())
    cluster.change_ensemble(first, 15)
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert (done.ledger_ids, done.postponed, done.remarks) == ([first], {}, [])
    assert trash.states() == {first: TrashState.DELETED}
    assert not trash.in_bookkeeper(first)


def test_a_deletion_that_began_waits_while_a_share_is_not_mounted(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(TrashKind.TRIMMED, first))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deletions, "_finish", lambda *_: None)
        trim(trash, lines, trash.version())
    mounted = cluster.bucket().rename(cluster.bucket().with_name("mounted"))
    cluster.bucket().mkdir()
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert "not mounted" in done.postponed[first]
    assert trash.in_bookkeeper(first)
    cluster.bucket().rmdir()
    mounted.rename(cluster.bucket())
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert (done.ledger_ids, trash.objects()) == ([first], set())


def test_a_deletion_that_began_stops_at_a_ledger_with_other_bytes(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    size = cluster.written[first].node.length
    (noted,) = trash.marked(trash.line(TrashKind.TRIMMED, first, size=size + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Deletions, "_delete_from_bookkeeper", lambda *_: None)
        trim(trash, [noted], trash.version())
    cluster.change_ensemble(first, 15)
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert "changed since it was marked" in done.postponed[first]
    assert trash.in_bookkeeper(first)


@pytest.mark.parametrize("kind", [TrashKind.OFFLOADED, TrashKind.TRIMMED])
def test_ledgers_that_have_the_ids_of_deletions_that_began_stay(
    cluster: LiveCluster, trash: Trash, kind: TrashKind
) -> None:
    """A cluster is initialised again, and what is below /ledgerfs is left: ids and versions are given anew."""
    ledgers(cluster)
    others: dict[str, list[tuple[str, bytes]]] = {
        "a schema's": [("component", b"schema"), ("pulsar/schemaId", b"public/default/s")],
        "a subscription's": [
            ("component", b"managed-ledger"),
            (MANAGED_LEDGER_KEY, NAME.encode()),
            ("pulsar/cursor", b"sub"),
        ],
        "another topic's": [("component", b"managed-ledger"), (MANAGED_LEDGER_KEY, b"public/default/persistent/other")],
        "another application's": [("application", b"other")],
        "made later": [("component", b"managed-ledger"), (MANAGED_LEDGER_KEY, NAME.encode())],
    }
    made: dict[str, int] = {}
    for another, custom in others.items():
        # Lines are as old as their nodes.
        created_ms = time.time_ns() // 1_000_000 + (3_600_000 if another == "made later" else 0)
        made[another] = ledger_id = cluster.write_unlisted(messages(3), custom, state=3, created_ms=created_ms)
        size = cluster.written[ledger_id].node.length
        line = trash.line(kind, ledger_id, state=TrashState.UNLISTED, size=size)
        trash.lock.commit([MakeNode(line.path, build_trash_line(line))])
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert (done.postponed, sorted(done.ledger_ids)) == ({}, list(made.values()))
    # Nothing of them was freed.
    assert done.size == 0
    for another, ledger_id in made.items():
        assert trash.in_bookkeeper(ledger_id), another
        assert any(f"ledger {ledger_id} stays" in one for one in done.remarks), another
        assert trash.states()[ledger_id] is TrashState.DELETED, another


@pytest.mark.parametrize("is_between", [False, True], ids=["before", "at the commit"])
def test_an_orphan_that_a_list_names_since_it_was_looked_at_stays(
    cluster: LiveCluster, trash: Trash, is_between: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look serves all orphans for a while, and an operator restores a list meanwhile."""
    first, *_ = ledgers(cluster)
    path = managed_ledger_path(NAME)
    whole = cluster.nodes[path]
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=info.ledgers[1:]))
    lines = trash.marked(trash.line(TrashKind.ORPHAN, first))

    def restore(self: Deletions, ledger_id: int) -> StoredLedger | None:
        cluster.zookeeper.set(path, whole)
        return found(self, ledger_id)

    found = Deletions._found
    if is_between:
        monkeypatch.setattr(Deletions, "_found", restore)
    else:
        cluster.zookeeper.set(path, whole)
    done = Done()
    trash.deletions.delete_orphans(NAME, lines, done)
    assert (done.ledger_ids, list(done.postponed)) == ([], [first])
    assert trash.in_bookkeeper(first)


def test_a_ledger_that_was_made_after_it_was_marked_stays(cluster: LiveCluster, trash: Trash) -> None:
    later_ms = time.time_ns() // 1_000_000 + 3_600_000
    orphan = cluster.write_unlisted(messages(3), [("component", b"managed-ledger")], state=3, created_ms=later_ms)
    lines = trash.marked(trash.line(TrashKind.ORPHAN, orphan))
    done = Done()
    trash.deletions.delete_orphans(NAME, lines, done)
    assert "made after it was marked" in done.postponed[orphan]
    assert trash.in_bookkeeper(orphan)


def test_the_list_of_a_topic_that_was_made_anew_meanwhile_stays(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(TrashKind.OFFLOADED, first))
    path, version = managed_ledger_path(NAME), trash.version()
    anew = build_managed_ledger_info(ManagedLedgerInfo((LedgerInfo(900, 0, 0, 0),)))

    def make_anew() -> None:
        # After the list was read. Versions of a new node begin at 0, and this one has come as far.
        cluster.zookeeper.delete(path)
        for _ in range(version + 1):
            cluster.zookeeper.set(path, anew)

    done = Done()
    trash.deletions.flag(NAME, lines, done, make_anew)
    assert (done.ledger_ids, list(done.postponed)) == ([], [first])
    assert (cluster.nodes[path], trash.version()) == (anew, version)
    assert trash.in_bookkeeper(first)


def test_a_marked_line_is_taken_back_and_another_is_not(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    (noted,) = trash.marked(trash.line(TrashKind.OFFLOADED, first))
    assert undo(trash.lock, noted.line.node_name) == noted.line
    assert trash.journal() == []
    flag(trash, trash.marked(trash.line(TrashKind.OFFLOADED, first)))
    with pytest.raises(OSError, match="cannot be taken back"):
        undo(trash.lock, noted.line.node_name)
    with pytest.raises(FileNotFoundError):
        undo(trash.lock, "orphan-7")


def test_objects_that_a_list_names_stay(cluster: LiveCluster, trash: Trash) -> None:
    first, second, _ = ledgers(cluster)
    named, free = cluster.offload(TOPIC, first), cluster.offload(TOPIC, second)
    cluster.change_ledger(TOPIC, second, lambda info: replace(info, context=None))
    made = [
        trash.line(TrashKind.OBJECTS, one, uuid=uuid, bucket=cluster.bucket_url())
        for one, uuid in ((first, named), (second, free))
    ]
    done = Done()
    for one in trash.marked(*made):
        trash.deletions.delete_objects(one, done)
    assert (done.ledger_ids, list(done.postponed)) == ([second], [first])
    assert trash.objects() == {f"{named}-ledger-{first}", f"{named}-ledger-{first}-index"}


def test_objects_of_an_attempt_that_is_noted_stay(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    uuid = cluster.offload(TOPIC, first)
    cluster.change_ledger(TOPIC, first, lambda info: replace(info, context=None))
    attempt = Attempt(NAME, first, uuid, cluster.bucket_url(), 1)
    trash.lock.commit([MakeNode(attempt.path, attempt.build())])
    (line,) = trash.marked(trash.line(TrashKind.OBJECTS, first, uuid=uuid, bucket=cluster.bucket_url()))
    done = Done()
    trash.deletions.delete_objects(line, done)
    assert (done.ledger_ids, list(done.postponed)) == ([], [first])
    assert len(trash.objects()) == 2
    trash.lock.commit([DropNode(attempt.path, 0)])
    trash.deletions.delete_objects(line, done)
    assert (done.ledger_ids, trash.objects()) == ([first], set())


def test_objects_whose_line_was_taken_back_since_it_was_read_stay(cluster: LiveCluster, trash: Trash) -> None:
    first, *_ = ledgers(cluster)
    uuid = cluster.offload(TOPIC, first)
    cluster.change_ledger(TOPIC, first, lambda info: replace(info, context=None))
    (line,) = trash.marked(trash.line(TrashKind.OBJECTS, first, uuid=uuid, bucket=cluster.bucket_url()))
    undo(trash.lock, line.line.node_name)
    with pytest.raises(ChangedMeanwhileError):
        trash.deletions.delete_objects(line, Done())
    assert len(trash.objects()) == 2


def unnamed_objects(cluster: LiveCluster, ledger_id: int) -> tuple[str, bytes]:
    """Offload a ledger completely, and have its list as it was before; return the uuid, and the list as it was then."""
    path = managed_ledger_path(NAME)
    before = cluster.nodes[path]
    uuid = cluster.offload(TOPIC, ledger_id)
    cluster.zookeeper.set(path, before)
    return uuid, before


@pytest.mark.parametrize("state", ["in BookKeeper", "gone", "collected", "open"])
def test_objects_that_may_be_the_only_copy_stay(cluster: LiveCluster, trash: Trash, state: str) -> None:
    """A list was restored from a dump: since then the offload was completed, and BookKeeper's copy deleted."""
    first, *_ = ledgers(cluster)
    uuid, _ = unnamed_objects(cluster, first)
    line = replace(trash.line(TrashKind.OBJECTS, first), uuid=uuid, bucket=cluster.bucket_url())
    if state == "gone":
        cluster.delete_from_bookkeeper(first, flag=False)
    elif state == "collected":
        cluster.collect(first)
    elif state == "open":
        cluster.change_list(TOPIC, lambda info: replace(info, ledgers=info.ledgers[1:]))
    (noted,) = trash.marked(line)
    done = Done()
    trash.deletions.delete_objects(noted, done)
    if state == "in BookKeeper":
        assert (done.ledger_ids, trash.objects()) == ([first], set())
        return
    if state == "open":
        # The list begins behind it: it was trimmed.
        assert (done.ledger_ids, trash.objects()) == ([first], set())
        return
    assert "these may be its only copy" in done.postponed[first]
    assert len(trash.objects()) == 2


@pytest.mark.parametrize("block", [None, 0, 2])
def test_objects_of_before_a_recovery_stay(cluster: LiveCluster, trash: Trash, block: int | None) -> None:
    """They were marked before something was restored into the cluster, which advances ids first."""
    first, *_ = ledgers(cluster)
    uuid, _ = unnamed_objects(cluster, first)
    (noted,) = trash.marked(replace(trash.line(TrashKind.OBJECTS, first), uuid=uuid, bucket=cluster.bucket_url()))
    if block is not None:
        cluster.zookeeper.set("/ledgerfs/recovery/topics", b"")
        cluster.zookeeper.set(f"/ledgers/idgen-long/HOB-{block:010d}", b"")
    done = Done()
    trash.deletions.delete_objects(noted, done)
    if block:
        assert "from before that" in done.postponed[first]
        assert len(trash.objects()) == 2
    else:
        assert (done.ledger_ids, trash.objects()) == ([first], set())


def test_objects_of_a_ledger_that_a_list_has_lost_stay(cluster: LiveCluster, trash: Trash) -> None:
    _, second, _ = ledgers(cluster)
    uuid, _ = unnamed_objects(cluster, second)
    line = replace(trash.line(TrashKind.OBJECTS, second), uuid=uuid, bucket=cluster.bucket_url())
    cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(info.ledgers[0], *info.ledgers[2:])))
    (noted,) = trash.marked(line)
    done = Done()
    trash.deletions.delete_objects(noted, done)
    assert "it was set back" in done.postponed[second]
    assert len(trash.objects()) == 2


@pytest.mark.parametrize("is_gone", [False, True], ids=["in BookKeeper", "gone"])
def test_attempts_and_contexts_of_an_only_copy_stay(cluster: LiveCluster, trash: Trash, is_gone: bool) -> None:
    """ZooKeeper was put back from a backup of a moment when offloads went on."""
    first, second, _ = ledgers(cluster)
    begun = cluster.offload(TOPIC, second, is_complete=False)
    uuid, _ = unnamed_objects(cluster, first)
    attempt = Attempt(NAME, first, uuid, cluster.bucket_url(), 1)
    trash.lock.commit([MakeNode(attempt.path, attempt.build())])
    if is_gone:
        for one in (first, second):
            cluster.delete_from_bookkeeper(one, flag=False)
    cleaner = Cleaner(trash.means, frozenset)
    now_ms = time.time_ns() // 1_000_000
    gone, troubles = cleaner.attempts(read_journal(trash.living.nodes).noted_attempts, now_ms, now_ms)
    left = cleaner.contexts(NAME, [(second, begun)], now_ms)
    has_context = trash.listed()[second].context is not None
    assert gone == []
    if is_gone:
        assert "may be its only copy" in troubles[0]
        assert (list(left), has_context, len(trash.objects())) == ([second], True, 4)
    else:
        assert (troubles, left, has_context, len(trash.objects())) == ([], {}, False, 2)


def test_what_is_to_stay_by_now_stays_in_the_middle_of_many_orphans(cluster: LiveCluster, trash: Trash) -> None:
    """The policy file is edited while the orphans of a topic are deleted."""
    ledgers(cluster)
    orphans = [cluster.write_unlisted(messages(3), [("component", b"x")], state=3, ledger_id=one) for one in (7, 8, 9)]
    lines = trash.marked(*[trash.line(TrashKind.ORPHAN, one) for one in orphans])
    asked = iter(range(100))
    done = Done()
    trash.deletions.delete_orphans(NAME, lines, done, lambda: "it was edited" if next(asked) >= 1 else None)
    assert (len(done.ledger_ids), list(done.postponed.values())) == (1, ["it was edited"] * 2)
    assert sum(map(trash.in_bookkeeper, orphans)) == 2


@pytest.mark.parametrize("lost", ["ledger", "list"])
def test_a_copy_whose_deletion_began_stays_if_its_list_was_set_back(
    cluster: LiveCluster, trash: Trash, lost: str
) -> None:
    """Nobody can compare it with objects that no list names."""
    _, second, _ = ledgers(cluster)
    cluster.offload(TOPIC, second)
    line = trash.line(TrashKind.OFFLOADED, second, uuid=None, bucket=None, state=TrashState.UNLISTED)
    trash.lock.commit([MakeNode(line.path, build_trash_line(line))])
    if lost == "list":
        cluster.zookeeper.delete(managed_ledger_path(NAME))
    else:
        cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(info.ledgers[0], info.ledgers[2])))
    done = Done()
    trash.deletions.finish(trash.journal(), done)
    assert (done.ledger_ids, list(done.postponed)) == ([], [second])
    assert trash.in_bookkeeper(second)
    # What a broker has trimmed meanwhile goes.
    if lost == "ledger":
        cluster.change_list(TOPIC, lambda info: replace(info, ledgers=info.ledgers[1:]))
        trash.deletions.finish(trash.journal(), done)
        assert done.ledger_ids == [second]


@pytest.mark.parametrize("has_others", [True, False], ids=["whole", "lost"])
def test_objects_go_if_those_that_the_list_names_are_there(
    cluster: LiveCluster, trash: Trash, has_others: bool
) -> None:
    """An attempt that failed has left its objects, and then the ledger was offloaded; BookKeeper's copy is deleted."""
    first, *_ = ledgers(cluster)
    uuid, _ = unnamed_objects(cluster, first)
    left = trash.objects()
    cluster.offload(TOPIC, first)
    cluster.delete_from_bookkeeper(first)
    if not has_others:
        for name in trash.objects() - left:
            (cluster.bucket() / name).unlink()
    now = time.time_ns() // 1_000_000
    state = TrashState.MARKED
    line = TrashLine(TrashKind.OBJECTS, first, NAME, uuid, cluster.bucket_url(), "a test", -1, 100, now, now, state)
    (noted,) = trash.marked(line)
    done = Done()
    trash.deletions.delete_objects(noted, done)
    if has_others:
        assert (done.ledger_ids, trash.objects() & left) == ([first], set())
    else:
        assert "these may be its only copy" in done.postponed[first]
        assert trash.objects() == left
