"""Only what was cleaned up is told as cleaned: neither what goes on, nor what is looked at once more later."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.clusters.bundles import Owner
from ledgerfs.dialects.closed_ledgers import ClosedLedgers
from ledgerfs.dialects.offloaded_copies import OffloadedCopies
from ledgerfs.errors import BrokerOffloadError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.lifecycle.acting import carrying_out
from ledgerfs.lifecycle.acting.carrying_out import CarryingOut, Seen
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.brokers.outcomes import OffloadReport
from ledgerfs.lifecycle.journal.reading import read_journal
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.lifecycle.planning.tier_places import url_of
from ledgerfs.lifecycle.policy.policy_file import Via, parse_policy_file
from ledgerfs.lifecycle.policy.topic_rules import TopicRules
from ledgerfs.offload.attempts import Attempt
from ledgerfs.offload.cleaning import AGAIN_MS
from ledgerfs.storage.zookeeper.changes import ClusterLock, MakeNode
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.live_clusters import TOPIC, LiveCluster, messages
from tests.support.made_surveys import MadeCluster

NAME = managed_ledger_of(TOPIC)
LONG_AFTER_MS = AGAIN_MS + 600_000
"""Behind a first look, whose time is that of its note in ZooKeeper at the earliest."""


class _NoOwners:
    """Topics that no broker has."""

    can_unload = False

    def owner_of(self, _: str) -> Owner:
        return Owner.NONE

    def unload(self, managed_ledger: str) -> None:
        raise AssertionError(managed_ledger)


class _Cleaning:
    """Cleans up after an attempt of a cluster of ours, which goes on if the test says so."""

    def __init__(self, cluster: LiveCluster) -> None:
        living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
        self.nodes = living.nodes
        self.lock = ClusterLock.take(living.nodes.settings, b"{}")
        means = Means(
            self.lock,
            ClosedLedgers(living),
            OffloadedCopies(living.reading),
            _NoOwners(),
            open_bucket,
            lambda _: None,
        )
        self.in_flight: set[str] = set()
        self.hands = CarryingOut(living, means, None, None, lambda: frozenset(self.in_flight))
        self.now_ms = time.time_ns() // 1_000_000
        ledger_id, _ = cluster.write_ledgers(TOPIC, [messages(5), messages(1)])
        self.attempt = Attempt.begun(NAME, ledger_id, cluster.bucket_url(), self.now_ms)
        self.lock.commit([MakeNode(self.attempt.path, self.attempt.build())])

    def told(self, now_ms: int) -> list[int]:
        ids = (self.attempt.ledger_id,)
        action = Action(ActionKind.CLEAN, NAME, ids, 0, Via.DIRECT, None, "a test", attempts=(self.attempt,))
        noted = {one.attempt.uuid: one for one in read_journal(self.nodes).noted_attempts}
        done = self.hands.carry_out(action, Seen({}, noted, {}, {}, now_ms, now_ms))
        assert (done.remarks, done.postponed) == ([], {})
        return done.ledger_ids

    def close(self) -> None:
        self.lock.release()
        self.nodes.close()


@pytest.fixture(name="cleaning")
def _cleaning(tmp_path: Path) -> Iterator[_Cleaning]:
    with LiveCluster(tmp_path) as cluster:
        cluster.zookeeper.takes_writes = True
        cluster.bucket().mkdir(parents=True)
        # A folder without anything may be what a share is to be mounted on.
        (cluster.bucket() / "another").write_bytes(b"x")
        made = _Cleaning(cluster)
        yield made
        made.close()


def test_an_attempt_that_goes_on_is_not_told_as_cleaned(cleaning: _Cleaning) -> None:
    cleaning.in_flight.add(cleaning.attempt.uuid)
    assert cleaning.told(cleaning.now_ms) == []
    assert cleaning.nodes.get(cleaning.attempt.path).version == 0


def test_an_attempt_is_told_as_cleaned_once_its_note_is_gone(cleaning: _Cleaning) -> None:
    assert cleaning.told(cleaning.now_ms) == []
    assert cleaning.told(cleaning.now_ms + 1000) == []
    assert cleaning.told(cleaning.now_ms + LONG_AFTER_MS) == [cleaning.attempt.ledger_id]
    assert cleaning.told(cleaning.now_ms + LONG_AFTER_MS) == []


@pytest.mark.parametrize("is_forgotten", [True, False], ids=["loaded for it", "failed"])
def test_a_broker_that_forgets_the_last_ledger_as_it_loads_the_topic_is_asked_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_forgotten: bool
) -> None:
    """It was unloaded since: its last ledger has no entries, goes when the topic is loaded, and is no position of it then."""
    with LiveCluster(tmp_path) as cluster:
        cluster.zookeeper.takes_writes = True
        first, empty = cluster.write_ledgers(TOPIC, [messages(5), ()])
        living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
        lock = ClusterLock.take(living.nodes.settings, b"{}")
        copies, owners = OffloadedCopies(living.reading), _NoOwners()
        means = Means(lock, ClosedLedgers(living), copies, owners, open_bucket, lambda _: None)
        asked: list[int] = []

        def ask(_: object, __: str, up_to: Position, *___: object) -> OffloadReport:
            asked.append(up_to.ledger_id)
            if up_to.ledger_id == empty:
                if is_forgotten:
                    cluster.change_list(
                        TOPIC, lambda info: replace(info, ledgers=(info.ledgers[0], LedgerInfo(900, 0, 0, 0)))
                    )
                raise BrokerOffloadError("Invalid position for offload", key=TOPIC)
            return OffloadReport(NAME, ())

        monkeypatch.setattr(carrying_out, "offload_and_compare", ask)
        hands = CarryingOut(living, means, None, object(), frozenset)  # type: ignore[arg-type]
        action = Action(ActionKind.OFFLOAD, NAME, (first,), 0, Via.BROKER, None, "a test")
        try:
            if is_forgotten:
                hands.by_broker(action)
                assert asked == [empty, 900]
            else:
                with pytest.raises(BrokerOffloadError):
                    hands.by_broker(action)
                assert asked == [empty]
        finally:
            lock.release()
            living.nodes.close()


BUCKET = """
[buckets.tier]
url = "s3://tier"
endpoint = "http://store:9000"
region = "eu-west-1"
"""
ALIAS = """
[buckets.alias]
url = "s3://tier"
endpoint = "http://store:9000"
region = "eu-west-1"
"""


@pytest.mark.parametrize(
    ("noted", "differing"),
    [
        ({}, None),
        ({"endpoint": "http://other:9000"}, "endpoint http://other:9000 instead of http://store:9000"),
        ({"endpoint": ""}, "endpoint none instead of http://store:9000"),
        (
            {"bucket": "vault", "region": "us-east-1"},
            "bucket vault instead of tier, region us-east-1 instead of eu-west-1",
        ),
        ({"driver": "google-cloud-storage"}, "driver google-cloud-storage instead of aws-s3"),
    ],
)
@pytest.mark.parametrize("is_twice", [True, False])
def test_a_broker_that_offloads_elsewhere_is_reported_with_all_that_differs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    noted: dict[str, str],
    differing: str | None,
    is_twice: bool,
) -> None:
    """The place of the file is no other one because the file names it twice."""
    text = BUCKET + ALIAS * is_twice + "[[topics]]\nmatch = '.*'\nbucket = 'tier'"
    file = parse_policy_file(text.encode(), Path("policy.toml"))
    with LiveCluster(tmp_path) as cluster:
        cluster.zookeeper.takes_writes = True
        first, _ = cluster.write_ledgers(TOPIC, [messages(5), messages(1)])
        living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
        lock = ClusterLock.take(living.nodes.settings, b"{}")
        copies, owners = OffloadedCopies(living.reading), _NoOwners()
        means = Means(
            lock,
            ClosedLedgers(living),
            copies,
            owners,
            open_bucket,
            lambda context: url_of(file, context.driver, context.properties),
        )

        def ask(*_: object) -> OffloadReport:
            cluster.offload(TOPIC, first, **{"endpoint": "http://store:9000", "region": "eu-west-1", **noted})  # type: ignore[arg-type]
            return OffloadReport(NAME, (first,))

        monkeypatch.setattr(carrying_out, "offload_and_compare", ask)
        hands = CarryingOut(living, means, None, object(), frozenset)  # type: ignore[arg-type]
        rule = TopicRules(file, MadeCluster().survey()).of(NAME)
        try:
            done = hands.by_broker(Action(ActionKind.OFFLOAD, NAME, (first,), 0, Via.BROKER, None, "a test", rule))
        finally:
            lock.release()
            living.nodes.close()
    place = (
        f"the broker of {NAME} has offloaded by its own settings to another place than bucket tier of the policy file: "
    )
    assert done.remarks == ([] if differing is None else [place + differing])
