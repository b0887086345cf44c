"""A bucket that cannot be reached is waited for once in a pass: all else of it is told at once, and asked again in the next pass."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.opening import open_bucket
from ledgerfs.clusters.policies import NOTHING_SET
from ledgerfs.clusters.policies_now import SetPolicies
from ledgerfs.dialects.closed_ledgers import ClosedLedgers
from ledgerfs.dialects.offloaded_copies import OffloadedCopies
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.lifecycle.acting.carrying_out import CarryingOut, Seen
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.reading import read_journal
from ledgerfs.lifecycle.journal.trash_journal import mark
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.offload.attempts import Attempt
from ledgerfs.storage.zookeeper.changes import ClusterLock, MakeNode
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.live_clusters import TOPIC, LiveCluster, messages
from tests.support.living_clusters import PATIENCE_S
from tests.support.told_owners import NAME, ToldOwners
from tests.support.tries import without_pauses

AGAIN = "not asked again in this pass"


@pytest.fixture(name="nowhere", scope="module")
def _nowhere() -> Iterator[dict[str, object]]:
    """Options of an S3 that refuses all connections: its port is taken, and not listened at."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield {"endpoint_url": f"http://127.0.0.1:{taken.getsockname()[1]}", "key": "k", "secret": "s"}


class Hands:
    """Carries out what is due in a cluster of ours, whose bucket is away."""

    def __init__(self, cluster: LiveCluster, options_of_bucket: dict[str, object]) -> None:
        self.options = options_of_bucket
        options = {"bucket_urls": {"tier": "s3://tier"}, "bucket_options": self.options, "timeout_s": PATIENCE_S}
        self.living = ClusterFileSystem(**options).cluster(cluster.url.removeprefix("pulsar+zk://"))
        self.lock = ClusterLock.take(self.living.nodes.settings, b"{}")
        ledgers, copies = ClosedLedgers(self.living), OffloadedCopies(self.living.reading)
        means = Means(self.lock, ledgers, copies, ToldOwners(), self.bucket_at, lambda _: None)
        self.hands = CarryingOut(self.living, means, None, None, frozenset)
        self.now_ms = time.time_ns() // 1_000_000

    def bucket_at(self, url: str) -> Bucket:
        return open_bucket(url, self.options)

    def mark(self, kind: TrashKind, ledger_id: int, uuid: str | None, state: TrashState = TrashState.MARKED) -> None:
        bucket = None if uuid is None else "s3://tier"
        line = TrashLine(kind, ledger_id, NAME, uuid, bucket, "a test", 0, 100, self.now_ms, self.now_ms, state)
        mark(self.lock, [line])

    def delete(self) -> Done:
        journal = read_journal(self.living.nodes)
        noted = {one.line.path: one for one in journal.noted_lines}
        attempts = {one.attempt.uuid: one for one in journal.noted_attempts}
        seen = Seen(noted, attempts, {}, {NAME: SetPolicies(NOTHING_SET, NOTHING_SET)}, self.now_ms, self.now_ms)
        kind = ActionKind.DELETE if noted else ActionKind.CLEAN
        ids = tuple(one.ledger_id for one in journal.lines)
        action = Action(kind, NAME, ids, 0, Via.DIRECT, None, "", lines=journal.lines, attempts=journal.attempts)
        return self.hands.carry_out(action, seen)

    def close(self) -> None:
        self.lock.release()
        self.living.nodes.close()


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveCluster]:
    without_pauses(monkeypatch)
    with LiveCluster(tmp_path) as made:
        made.zookeeper.takes_writes = True
        made.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(4)])
        yield made


@pytest.fixture(name="hands")
def _hands(cluster: LiveCluster, nowhere: dict[str, object]) -> Iterator[Hands]:
    made = Hands(cluster, nowhere)
    yield made
    made.close()


def uuids(cluster: LiveCluster) -> dict[int, str]:
    return {one.ledger_id: cluster.offload(TOPIC, one.ledger_id) for one in cluster.list_of(TOPIC).ledgers[:-1]}


def waited(told: list[str]) -> int:
    """Return how many of some were waited for; all were told."""
    assert len(told) == 3
    return sum(AGAIN not in one for one in told)


@pytest.mark.parametrize("kind", [TrashKind.OFFLOADED, TrashKind.FLAGGED, TrashKind.OBJECTS])
def test_lines_whose_bucket_is_away_wait_once_for_it(cluster: LiveCluster, hands: Hands, kind: TrashKind) -> None:
    for ledger_id, uuid in uuids(cluster).items():
        if kind is TrashKind.FLAGGED:
            cluster.delete_from_bookkeeper(ledger_id, node=False, collected=False)
        # Objects that no list names have other names than those that it does.
        hands.mark(kind, ledger_id, str(UUID(int=UUID(uuid).int ^ 1)) if kind is TrashKind.OBJECTS else None)
    # In each pass, the first one asks.
    for _ in range(2):
        done = hands.delete()
        assert (done.ledger_ids, waited(list(done.postponed.values()))) == ([], 1)
    assert all(ledger_path(one.ledger_id) in cluster.nodes for one in cluster.list_of(TOPIC).ledgers)


def test_deletions_that_go_on_wait_once_for_a_bucket_that_is_away(cluster: LiveCluster, hands: Hands) -> None:
    for ledger_id, uuid in uuids(cluster).items():
        cluster.trim(TOPIC, ledger_id, only_list=True)
        hands.mark(TrashKind.TRIMMED, ledger_id, uuid, TrashState.UNLISTED)
    for _ in range(2):
        done = hands.delete()
        assert (done.ledger_ids, waited(list(done.postponed.values()))) == ([], 1)
    assert {one.state for one in read_journal(hands.living.nodes).lines} == {TrashState.UNLISTED}


def test_attempts_are_cleaned_later_if_their_bucket_is_away(cluster: LiveCluster, hands: Hands) -> None:
    for one in cluster.list_of(TOPIC).ledgers[:-1]:
        attempt = Attempt.begun(NAME, one.ledger_id, "s3://tier", hands.now_ms)
        hands.lock.commit([MakeNode(attempt.path, attempt.build())])
    for _ in range(2):
        done = hands.delete()
        assert (done.ledger_ids, waited(done.remarks)) == ([], 1)
    assert len(read_journal(hands.living.nodes).attempts) == 3
