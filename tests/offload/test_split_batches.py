"""Batches are split by an offload only where nobody knows an id of the ledger, and then all messages are served, whoever acts or dies."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ledgerfs.clusters.bundles import Owner
from ledgerfs.errors import LockLostError, StoreUnreachableError
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.formats.managed_ledgers.cursor_info import CursorInfo, build_cursor_info
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs.formats.topic_names import encode_topic
from ledgerfs.lifecycle.journal.reading import read_journal
from ledgerfs.lifecycle.journal.trash_line import TRASH, TrashKind, TrashState
from ledgerfs.offload import one_step
from ledgerfs.offload.cleaning import AGAIN_MS, clean
from ledgerfs.offload.known_positions import known_positions
from ledgerfs.offload.one_step import OneStep
from ledgerfs.storage.zookeeper.changes import ClusterLock
from ledgerfs.storage.zookeeper.operations import Operation
from tests.support.entries import frame, metadata
from tests.support.live_clusters import TOPIC, LiveCluster
from tests.support.split_offloads import ENTRIES, GRACE_MS, MESSAGES, Splitting, batches, topic_in_batches
from tests.support.told_owners import NAME


@pytest.fixture
def splitting(cluster: LiveCluster) -> Iterator[Splitting]:
    made = Splitting(cluster)
    yield made
    made.close()


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_each_message_is_an_entry_and_the_list_tells_of_the_objects(cluster: LiveCluster, codec: str | None) -> None:
    first, second, last = topic_in_batches(cluster)
    splitting = Splitting(cluster, codec)
    try:
        before, version = splitting.values(), splitting.living.nodes.get(managed_ledger_path(NAME)).version
        outcome = splitting.offload(first, second)
        assert (outcome.done, outcome.not_done, outcome.remarks) == ([first, second], [], [])
        assert splitting.living.nodes.get(managed_ledger_path(NAME)).version == version + 1
        listed = splitting.listed()
        assert [listed[one].entries for one in (first, second)] == [MESSAGES] * 2
        assert all(listed[one].context.is_deleted_from_bookkeeper for one in (first, second))
        assert listed[last].context is None
        for one, line in splitting.lines().items():
            node = cluster.written[one].node
            assert (line.kind, line.state, line.size) == (TrashKind.UNBATCHED, TrashState.UNLISTED, node.length)
            assert line.due_ms == line.marked_ms + GRACE_MS
            assert f"its {ENTRIES} entries are {MESSAGES} in offload {listed[one].context.uuid}" in line.why
        assert set(splitting.lines()) == {first, second}
        splitting.require_nothing_left_over()
        assert splitting.values() == before
        assert len(before) == 3 * MESSAGES
        for one in (first, second):
            cluster.zookeeper.delete(ledger_path(one))
        assert splitting.values() == before
        assert sorted(splitting.offload(first, second).done) == [first, second], "they are offloaded already"
    finally:
        splitting.close()


def test_lines_and_subscriptions_count_in_what_one_commit_takes(
    cluster: LiveCluster, splitting: Splitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, last = topic_in_batches(cluster)
    cluster.add_cursor(TOPIC, "behind", (last, -1))
    counted: list[set[str]] = []

    def takes_one_line(changes: Sequence[Operation]) -> bool:
        counted.append({one.path for one in changes})
        return sum(one.path.startswith(f"{TRASH}/") for one in changes) <= 1

    monkeypatch.setattr(one_step, "fits", takes_one_line)
    cursor = cursor_path(NAME, "behind")
    versions = [splitting.living.nodes.get(one).version for one in (cursor, managed_ledger_path(NAME))]
    outcome = splitting.offload(first, second)
    assert (outcome.done, outcome.not_done, outcome.remarks) == ([first, second], [], [])
    assert all(cursor in one for one in counted)
    after = [splitting.living.nodes.get(one).version for one in (cursor, managed_ledger_path(NAME))]
    assert after == [one + 2 for one in versions]
    assert set(splitting.lines()) == {first, second}
    splitting.require_nothing_left_over()


def test_subscriptions_before_it_and_behind_it_do_not_matter(cluster: LiveCluster, splitting: Splitting) -> None:
    first, second, last = topic_in_batches(cluster)
    cluster.add_cursor(TOPIC, "older", (first - 1, 70))
    cluster.add_cursor(TOPIC, "start", (first, -1))
    cluster.add_cursor(TOPIC, "behind", (last, -1), holes=[(Position(last, 1), Position(last, 2))])
    cluster.add_cursor(TOPIC, "pulsar.dedup", (last, 0))
    cluster.add_cursor(TOPIC, "pulsar.repl.west", (last, 0))
    names = ["older", "start", "behind", "pulsar.dedup", "pulsar.repl.west"]
    paths = [cursor_path(NAME, one) for one in names]
    before = {one: splitting.living.nodes.get(one) for one in paths}
    assert sorted(splitting.offload(first, second).done) == [first, second]
    # Their bytes stay, and who had read them before cannot set them.
    after = {one: splitting.living.nodes.get(one) for one in paths}
    assert [after[one].data for one in paths] == [before[one].data for one in paths]
    assert [after[one].version for one in paths] == [before[one].version + 1 for one in paths]


def test_a_subscription_keeps_the_ids_of_the_ledger_that_it_is_in_alone(
    cluster: LiveCluster, splitting: Splitting
) -> None:
    first, second, third = cluster.write_ledgers(TOPIC, [batches(prefix) for prefix in "abc"])
    fourth = cluster.roll_over(TOPIC)
    cluster.close(fourth)
    cluster.add_cursor(TOPIC, "s", (second, 1))
    outcome = splitting.offload(first, second, third)
    assert sorted(outcome.done) == [first, third]
    assert [(one.ledger_id, f"in it, or at its end: at {second}:1" in one.reason) for one in outcome.not_done] == [
        (second, True)
    ]
    assert not splitting.listed()[second].is_offloaded
    splitting.require_nothing_left_over()


def a_cursor(name: str = "s", at: tuple[int, int] = (0, 1), **options: Any) -> Callable[[LiveCluster, int], None]:
    """Return what adds a cursor, at an entry of a ledger so many behind the first."""

    def add(cluster: LiveCluster, first: int) -> None:
        cluster.add_cursor(TOPIC, name, (first + at[0], at[1]), **options)

    return add


def with_hole(cluster: LiveCluster, first: int) -> None:
    cluster.add_cursor(TOPIC, "s", (first - 1, 3), holes=[(Position(first, 1), Position(first, 2))])


def with_hole_over_ledgers(cluster: LiveCluster, first: int) -> None:
    cluster.add_cursor(TOPIC, "s", (first - 1, 3), holes=[(Position(first - 1, 5), Position(first + 1, 2))])


def with_part_of_a_batch(cluster: LiveCluster, first: int) -> None:
    state = CursorInfo(-1, Position(first - 1, 3), partly_deleted=(Position(first, 2),))
    cluster.zookeeper.set(cursor_path(NAME, "s"), build_cursor_info(state))


def nowhere(cluster: LiveCluster, first: int) -> None:
    cluster.zookeeper.set(cursor_path(NAME, "s"), build_cursor_info(CursorInfo(-1, None)))


def damaged(cluster: LiveCluster, first: int) -> None:
    cluster.zookeeper.set(cursor_path(NAME, "s"), b"\xff\xff")


def with_transactions(cluster: LiveCluster, first: int) -> None:
    cluster.add_cursor(TOPIC, "s/1", (first - 1, 0))
    topic = encode_topic("orders-s/1__transaction_pending_ack")
    cluster.zookeeper.set(managed_ledger_path(f"public/default/persistent/{topic}"), b"")


def terminated(cluster: LiveCluster, first: int) -> None:
    cluster.change_list(TOPIC, lambda info: replace(info, terminated=Position(first + 2, 1)))


def shadow(cluster: LiveCluster, first: int) -> None:
    properties = (("PULSAR.SHADOW_SOURCE", "persistent://public/default/source"),)
    cluster.change_list(TOPIC, lambda info: replace(info, properties=properties))


def last_open(cluster: LiveCluster, first: int) -> None:
    cluster.roll_over(TOPIC)


def last_gone(cluster: LiveCluster, first: int) -> None:
    cluster.zookeeper.delete(ledger_path(first + 2))


KNOWN = {
    "in it": (a_cursor(), "subscription s is in it, or at its end"),
    "at its first entry": (a_cursor(at=(0, 0)), "subscription s is in it, or at its end"),
    "at its end": (a_cursor(at=(0, ENTRIES - 1)), "subscription s is in it, or at its end"),
    "hole": (with_hole, "s has not passed it, and has acknowledged some of its messages"),
    "hole over ledgers": (with_hole_over_ledgers, "has acknowledged some of its messages"),
    "part of a batch": (with_part_of_a_batch, "has acknowledged some of its messages"),
    "in a ledger": (a_cursor(at=(2, 1), stale=(150, 1)), "to which the broker that had it may still write"),
    "delayed": (
        a_cursor(at=(-1, 0), cursor_properties={"#pulsar.internal.delayed.bucket1": "4711"}),
        "delayed messages are kept for it by their ids",
    ),
    "transactions": (with_transactions, "s/1 has not passed it, and acknowledges in transactions"),
    "compacted": (a_cursor("__compaction", at=(2, 0)), "the topic is compacted"),
    "deduplication": (a_cursor("pulsar.dedup", at=(-1, 0)), "pulsar.dedup, which brokers keep, has not passed it"),
    "replication": (
        a_cursor("pulsar.repl.west", at=(0, -1)),
        "pulsar.repl.west, which brokers keep, has not passed it",
    ),
    "replicated": (a_cursor(at=(2, 1), properties={"pulsar.replicated.subscription": 1}), "s is replicated"),
    "nowhere": (nowhere, "not known where subscription s is"),
    "damaged": (damaged, "the node of subscription s cannot be read"),
    "terminated": (terminated, "the topic is terminated"),
    "shadow": (shadow, "the topic is the shadow of another"),
    "last open": (last_open, "is open: its broker has died, or was stopped"),
    "last gone": (last_gone, "BookKeeper does not have the topic's last ledger"),
}


@pytest.mark.parametrize("what", KNOWN)
def test_ids_that_somebody_knows_stay(cluster: LiveCluster, splitting: Splitting, what: str) -> None:
    first, *_ = topic_in_batches(cluster)
    make, words = KNOWN[what]
    make(cluster, first)
    before = cluster.nodes[managed_ledger_path(NAME)]
    outcome = splitting.offload(first)
    assert (outcome.done, [words in one.reason for one in outcome.not_done]) == ([], [True]), outcome.not_done
    assert cluster.nodes[managed_ledger_path(NAME)] == before
    assert (splitting.objects(), splitting.lines()) == (set(), {})
    splitting.require_nothing_left_over()


@pytest.mark.parametrize("what", ["in it", "hole", "transactions", "compacted", "last open", "terminated"])
@pytest.mark.parametrize("behind_the_look", [False, True])
def test_whoever_comes_to_know_ids_while_a_ledger_is_copied_is_seen(
    cluster: LiveCluster, splitting: Splitting, monkeypatch: pytest.MonkeyPatch, what: str, *, behind_the_look: bool
) -> None:
    first, *_ = topic_in_batches(cluster)
    cluster.add_cursor(TOPIC, "s", (first - 1, 5))
    cluster.add_cursor(TOPIC, "s/1", (first - 1, 0))
    make, words = KNOWN[what]
    if behind_the_look and what in {"transactions", "compacted"}:
        # A broker that makes these has loaded the topic, which changes the list.
        load, words = last_open, KNOWN["last open"][1]
        make = load
    looks = iter(range(100))

    def look(*arguments: Any) -> Any:
        """The first look is before the copy; the second when it is to be completed."""
        is_second = next(looks) == 1
        if is_second and not behind_the_look:
            make(cluster, first)
        found = known_positions(*arguments)
        if is_second and behind_the_look:
            make(cluster, first)
        return found

    monkeypatch.setattr(one_step, "known_positions", look)
    outcome = splitting.offload(first)
    assert (outcome.done, [words in one.reason for one in outcome.not_done]) == ([], [True]), outcome.not_done
    assert not splitting.listed()[first].is_offloaded
    assert (splitting.objects(), splitting.lines()) == (set(), {})
    splitting.require_nothing_left_over()


def test_a_subscription_that_is_as_it_was_but_for_its_version_is_looked_at_again(
    cluster: LiveCluster, splitting: Splitting, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = topic_in_batches(cluster)
    cluster.add_cursor(TOPIC, "s", (first - 1, 5))
    looks = iter(range(100))

    def look(*arguments: Any) -> Any:
        found = known_positions(*arguments)
        if next(looks) == 1:
            cluster.add_cursor(TOPIC, "s", (first - 1, 7))
        return found

    monkeypatch.setattr(one_step, "known_positions", look)
    assert splitting.offload(first).done == [first]
    assert next(looks) == 3


@pytest.mark.parametrize("question", [1, 2])
def test_a_broker_that_takes_the_topic_ends_it_also_if_it_could_be_unloaded(
    cluster: LiveCluster, splitting: Splitting, question: int
) -> None:
    first, *_ = topic_in_batches(cluster)
    asked = iter(range(100))

    def take() -> None:
        if next(asked) == question:
            splitting.owners.owner = Owner.SOME

    splitting.owners.when_asked = take
    outcome = splitting.offload(first)
    if question == 1:
        assert (outcome.done, [one.reason for one in outcome.not_done]) == (
            [],
            ["a broker has taken the topic meanwhile"],
        )
        assert splitting.owners.unloaded == []
    else:
        # It came behind the commit, and may have been stopped before.
        assert (outcome.done, splitting.owners.unloaded) == ([first], [NAME])
    splitting.require_nothing_left_over()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"transaction_least": 0, "transaction_most": 7}, "entry 2 is of a transaction"),
        ({"marker_type": 10}, "entry 2 is a marker of brokers"),
    ],
)
def test_ledgers_with_markers_and_transactions_keep_their_ids(
    cluster: LiveCluster, splitting: Splitting, fields: dict[str, int], words: str
) -> None:
    entries = batches("a")
    entries.insert(2, frame(metadata(**fields), b"x"))
    first, second, last = cluster.write_ledgers(TOPIC, [entries, batches("b"), batches("c")])
    cluster.close(last)
    outcome = splitting.offload(first, second)
    assert (outcome.done, [words in one.reason for one in outcome.not_done]) == ([second], [True]), outcome.not_done
    splitting.require_nothing_left_over()


def test_nothing_is_split_if_nobody_notes_how_the_other_copy_goes(cluster: LiveCluster, splitting: Splitting) -> None:
    first, *_ = topic_in_batches(cluster)
    step = OneStep(
        *(splitting.lock, splitting.step._ledgers, splitting.owners, splitting.tier),
        noted_ms=lambda: 1,
        url_of=splitting.tier.url_of,
    )
    (told,) = step.offload(NAME, [first]).not_done
    assert "nothing would delete BookKeeper's copy" in told.reason
    assert splitting.objects() == set()


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("commit", [0, 1, 2])
def test_a_crash_at_any_commit_is_gone_on_from(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch, commit: int, *, is_done: bool
) -> None:
    first, second, _ = topic_in_batches(cluster)
    cluster.add_cursor(TOPIC, "s", (first - 1, 5))
    splitting = Splitting(cluster)
    before, sent, commits = splitting.values(), ClusterLock.commit, iter(range(100))

    def dying(lock: ClusterLock, operations: Any) -> None:
        number = next(commits)
        if number == commit and not is_done:
            cluster.zookeeper.expire_sessions()
        sent(lock, operations)
        if number == commit:
            cluster.zookeeper.expire_sessions()
            sent(lock, [])

    with monkeypatch.context() as patch:
        patch.setattr(ClusterLock, "commit", dying)
        # Of two copies the other one may be about to read.
        with pytest.raises((LockLostError, StoreUnreachableError)):
            splitting.offload(first, second)
    splitting.close()
    again = Splitting(cluster)
    try:
        assert again.values() == before
        for at in (0, 2 * AGAIN_MS):
            for noted in list(read_journal(again.living.nodes).noted_attempts):
                now_ms = noted.attempt.began_ms + at + 1
                clean(again.lock, again.bucket, noted, now_ms, now_ms)
        again.require_nothing_left_over()
        assert sorted(again.offload(first, second).done) == [first, second]
        again.require_nothing_left_over()
        assert again.values() == before
        assert set(again.lines()) == {first, second}
        assert [one.entries for one in again.listed().values() if one.is_offloaded] == [MESSAGES] * 2
    finally:
        again.close()
