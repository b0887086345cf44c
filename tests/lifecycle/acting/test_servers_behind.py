"""A server that is behind the others answers all the same: what is deleted is decided by what it does not know yet.

Each test has a server that shows the nodes as they were, to all that do not ask it for more, and something that has changed since.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.subscriptions_now import subscriptions_now
from ledgerfs.clusters.topic_owners import owner_now
from ledgerfs.dialects.closed_ledgers import ClosedLedgers
from ledgerfs.dialects.newest_entries import NewestEntries
from ledgerfs.dialects.offloaded_copies import OffloadedCopies
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerState
from ledgerfs.formats.ledger_metadata import MANAGED_LEDGER_KEY
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.lifecycle.acting.carrying_out import CarryingOut, Seen
from ledgerfs.lifecycle.acting.deletions import Deletions
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.trash_journal import mark, undo
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.lifecycle.service.status import STATUS_PATH, Status, write_status
from ledgerfs.offload.one_step import OneStep
from ledgerfs.offload.owners import OwnersInZooKeeper
from ledgerfs.offload.tier import Tier
from ledgerfs.storage.zookeeper.changes import ClusterLock
from ledgerfs.storage.zookeeper.cluster_clock import ClusterClock
from tests.lifecycle.acting.test_deletions import Trash, ledgers
from tests.support.live_clusters import TOPIC, LiveCluster, messages
from tests.support.live_offloads import S3, driver_properties
from tests.support.told_owners import NAME

WHOLE = "0x00000000_0xffffffff"
NAMESPACE = "public/default"
DAY_MS = 86_400_000


class BehindTrash(Trash):
    """Deletes by what ZooKeeper tells, of owners, too."""

    def __init__(self, cluster: LiveCluster) -> None:
        super().__init__(cluster)
        copies = OffloadedCopies(self.living.reading)
        owners, bookies = OwnersInZooKeeper(self.lock), NewestEntries(self.living.reading)
        means = Means(
            *(self.lock, ClosedLedgers(self.living), copies, owners, open_bucket), lambda _: cluster.bucket_url()
        )
        self.deletions = Deletions(
            means, lambda name: subscriptions_now(self.lock.newest(), self.living.reading.ledgers_path, bookies, name)
        )
        self.hands = CarryingOut(self.living, means, bookies, None, frozenset)


@pytest.fixture
def trash(cluster: LiveCluster) -> Iterator[BehindTrash]:
    made = BehindTrash(cluster)
    yield made
    made.close()


def seen(trash: BehindTrash) -> Seen:
    """Return what the lines tell that are there now, and nothing else."""
    lines = {one.line.path: one for one in trash.journal()}
    now_ms = time.time_ns() // 1_000_000
    return Seen(lines, {}, {NAME: trash.version()}, {}, now_ms, now_ms)


def is_old(trash: BehindTrash) -> bool:
    """Whether who just reads is told that no broker has the topic."""
    return owner_now(trash.living.nodes, NAME) is Owner.NONE


def test_a_broker_that_has_the_topic(cluster: LiveCluster, trash: BehindTrash) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines = trash.marked(trash.line(TrashKind.OFFLOADED, first))
    cluster.zookeeper.fall_behind()
    cluster.own_bundle(NAMESPACE, WHOLE)
    assert is_old(trash)
    done = Done()
    trash.deletions.flag(NAME, lines, done)
    assert (done.ledger_ids, done.postponed) == ([], {first: "a broker has the topic"})
    assert trash.in_bookkeeper(first)


@pytest.mark.parametrize("kind", [TrashKind.OFFLOADED, TrashKind.TRIMMED])
def test_a_broker_that_takes_the_topic_before_its_list_is_changed_is_told_of(
    cluster: LiveCluster, trash: BehindTrash, kind: TrashKind
) -> None:
    first, *_ = ledgers(cluster)
    cluster.offload(TOPIC, first)
    lines, version = trash.marked(trash.line(kind, first)), trash.version()
    cluster.zookeeper.fall_behind()

    def take() -> None:
        # As a broker that was stopped, and goes on with the list that it has in memory.
        cluster.zookeeper.at_write = None
        cluster.own_bundle(NAMESPACE, WHOLE)

    cluster.zookeeper.at_write = take
    done = Done()
    if kind is TrashKind.OFFLOADED:
        trash.deletions.flag(NAME, lines, done)
    else:
        trash.deletions.trim(NAME, lines, version, done)
    assert is_old(trash)
    assert done.ledger_ids == [first]
    assert any("a broker has taken" in one for one in done.remarks)


def test_a_trim_goes_on_behind_the_change_of_the_list(cluster: LiveCluster, trash: BehindTrash) -> None:
    first, *_ = ledgers(cluster)
    lines, version = trash.marked(trash.line(TrashKind.TRIMMED, first)), trash.version()
    cluster.zookeeper.fall_behind()
    done = Done()
    trash.deletions.trim(NAME, lines, version, done)
    assert (done.ledger_ids, done.postponed, done.remarks) == ([first], {}, [])
    assert trash.living.nodes.get(managed_ledger_path(NAME)).version == version


@pytest.mark.parametrize("is_named", [False, True])
def test_a_ledger_that_is_named_by_now_is_no_orphan(cluster: LiveCluster, trash: BehindTrash, is_named: bool) -> None:
    ledgers(cluster)
    custom = ("application", b"pulsar"), ("component", b"managed-ledger"), (MANAGED_LEDGER_KEY, NAME.encode())
    orphan = cluster.write_unlisted(messages(5), custom, state=LedgerState.CLOSED)
    trash.marked(trash.line(TrashKind.ORPHAN, orphan))
    found = seen(trash)
    cluster.zookeeper.fall_behind()
    if is_named:
        cluster.change_list(TOPIC, lambda info: replace(info, ledgers=(*info.ledgers, LedgerInfo(orphan, 5, 100, 1))))
    done = deleted(trash, found, orphan)
    assert (done.ledger_ids, list(done.postponed)) == (([], [orphan]) if is_named else ([orphan], []))
    assert trash.in_bookkeeper(orphan) == is_named


def deleted(trash: BehindTrash, found: Seen, ledger_id: int) -> Done:
    """Carry out what a plan has of the lines that were seen."""
    lines = tuple(one.line for one in found.lines.values())
    action = Action(ActionKind.DELETE, NAME, (ledger_id,), 100, Via.DIRECT, None, "a test", lines=lines)
    return trash.hands.carry_out(action, found)


def test_a_list_that_others_change_is_completed(cluster: LiveCluster, trash: BehindTrash) -> None:
    first, second, _ = ledgers(cluster)
    folder = cluster.bucket()
    folder.mkdir(parents=True, exist_ok=True)
    tier = Tier(
        open_bucket(cluster.bucket_url()),
        S3,
        driver_properties(S3, folder, endpoint="", region="us-east-1"),
        {"pulsarclustername": "ours"},
        5 << 20,
    )
    step = OneStep(
        *(trash.lock, ClosedLedgers(trash.living), OwnersInZooKeeper(trash.lock), tier),
        noted_ms=lambda: 1,
        url_of=tier.url_of,
    )
    cluster.zookeeper.fall_behind()
    cluster.offload(TOPIC, first)
    outcome = step.offload(NAME, [first, second])
    assert (outcome.done, outcome.not_done, outcome.remarks) == ([first, second], [], [])


def test_a_subscription_that_was_moved_while_its_broker_was_not_yet_asked_for(
    cluster: LiveCluster, trash: BehindTrash
) -> None:
    first, *_ = ledgers(cluster)
    cluster.add_cursor(TOPIC, "audit", (first, 19))
    lines, version = trash.marked(trash.line(TrashKind.TRIMMED, first)), trash.version()
    cluster.zookeeper.fall_behind()
    cluster.add_cursor(TOPIC, "audit", (first, -1))
    done = Done()
    trash.deletions.trim(NAME, lines, version, done)
    assert (done.ledger_ids, done.postponed) == ([], {first: "a subscription has not passed it (any more)"})
    assert trash.in_bookkeeper(first)
    assert first in trash.listed()
    cluster.add_cursor(TOPIC, "audit", (first, 19))
    trash.deletions.trim(NAME, lines, version, done)
    assert done.ledger_ids == [first]


def test_what_was_marked_just_now_is_taken_back(cluster: LiveCluster, trash: BehindTrash) -> None:
    first, *_ = ledgers(cluster)
    line = trash.line(TrashKind.TRIMMED, first)
    cluster.zookeeper.fall_behind()
    mark(trash.lock, [line])
    assert trash.journal() == []
    taken = undo(trash.lock, line.node_name)
    assert taken is not None
    assert taken.path == line.path
    assert trash.lock.node(line.path) is None


def test_the_time_is_that_of_a_lock_that_was_made_just_now(cluster: LiveCluster, trash: BehindTrash) -> None:
    trash.lock.release()
    cluster.zookeeper.fall_behind()
    now_ms = time.time_ns() // 1_000_000
    with ClusterLock.take(trash.living.nodes.settings, b"{}") as lock:
        clock = ClusterClock(lock, now_ms + DAY_MS)
    assert clock.now_ms() < now_ms + DAY_MS


def test_the_status_is_written_after_each_pass(cluster: LiveCluster, trash: BehindTrash) -> None:
    cluster.zookeeper.fall_behind()
    for number in range(3):
        assert write_status(trash.lock, Status(1, 2, number)) is not None
    assert cluster.zookeeper.versions[STATUS_PATH] == 2


def test_a_line_that_is_done_is_not_done_again(cluster: LiveCluster, trash: BehindTrash) -> None:
    first, *_ = ledgers(cluster)
    lines, version = trash.marked(trash.line(TrashKind.TRIMMED, first)), trash.version()
    old = seen(trash)
    trash.deletions.trim(NAME, lines, version, Done())
    assert trash.states() == {first: TrashState.DELETED}
    cluster.zookeeper.fall_behind()
    assert deleted(trash, old, first).ledger_ids == []
