"""What is marked stays where policies have changed since that was decided: those of the namespace, and those of the topic alone.

The policies of topics are the events of a real broker, as it wrote them one after the other.
"""

import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.clusters.partitioned_topics import partitioned_path
from ledgerfs.clusters.policies import NOTHING_SET, NamespacePolicies, Retention
from ledgerfs.clusters.policies_now import SetPolicies, policies_now
from ledgerfs.clusters.surveying import survey_cluster
from ledgerfs.dialects.closed_ledgers import ClosedLedgers
from ledgerfs.dialects.newest_entries import NewestEntries
from ledgerfs.dialects.offloaded_copies import OffloadedCopies
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.schemas.schema_info import SchemaInfo
from ledgerfs.formats.schemas.stored_schema import parse_stored_schema
from ledgerfs.lifecycle.acting.carrying_out import CarryingOut, Seen
from ledgerfs.lifecycle.acting.means import Means
from ledgerfs.lifecycle.acting.outcomes import Done
from ledgerfs.lifecycle.journal.reading import read_journal
from ledgerfs.lifecycle.journal.trash_journal import mark
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.storage.zookeeper.changes import ClusterLock
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.live_clusters import LiveCluster, messages
from tests.support.living_clusters import PATIENCE_S
from tests.support.told_owners import ToldOwners

REAL = json.loads((Path(__file__).parents[2] / "data" / "topic_policies" / "events.json").read_text())
EVENTS = [base64.b64decode(one) for one in REAL["entries"]]
SPACE, TOPIC, NAME = "public/default", "public/default/a", "public/default/persistent/a"
EVENTS_TOPIC = f"{SPACE}/__change_events"
SAME, OTHER = slice(1, 5), slice(1, 6)
"""Of the events behind the first: none of them, and one, is about the topic."""


def schema() -> SchemaInfo:
    ((number, data),) = REAL["schemas"]
    return parse_stored_schema(base64.b64decode(data), key="k", version=number).schema


class Hands:
    """Carries out deletions in a cluster of ours."""

    def __init__(self, cluster: LiveCluster) -> None:
        self.cluster = cluster
        options = {"bucket_urls": {"tier": cluster.bucket_url()}, "timeout_s": PATIENCE_S}
        self.living = ClusterFileSystem(**options).cluster(cluster.url.removeprefix("pulsar+zk://"))
        self.lock = ClusterLock.take(self.living.nodes.settings, b"{}")
        self.owners = ToldOwners()
        self.bookies = NewestEntries(self.living.reading)
        ledgers, copies = ClosedLedgers(self.living), OffloadedCopies(self.living.reading)
        means = Means(self.lock, ledgers, copies, self.owners, open_bucket, lambda _: None)
        self.hands = CarryingOut(self.living, means, self.bookies, None, frozenset)

    def marked(self, kind: TrashKind, *ledger_ids: int) -> Seen:
        now = time.time_ns() // 1_000_000
        versions = [ClosedLedgers(self.living).found(one).version for one in ledger_ids]
        mark(
            self.lock,
            [
                TrashLine(kind, one, NAME, None, None, "a test", version, 100, now, now, TrashState.MARKED)
                for one, version in zip(ledger_ids, versions, strict=True)
            ],
        )
        survey = survey_cluster(self.living, self.bookies, lambda *_: None)
        return Seen.of(survey, read_journal(self.living.nodes), now, now)

    def delete(self, seen: Seen) -> Done:
        lines = tuple(one.line for one in seen.lines.values())
        ids = tuple(one.ledger_id for one in lines)
        return self.hands.carry_out(Action(ActionKind.DELETE, NAME, ids, 0, Via.DIRECT, None, "", lines=lines), seen)

    def now(self) -> SetPolicies:
        return policies_now(self.living.nodes, NAME, self.bookies)

    def close(self) -> None:
        self.lock.release()
        self.living.nodes.close()


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveCluster]:
    monkeypatch.setattr("tests.support.told_owners.NAME", NAME)
    with LiveCluster(tmp_path) as made:
        made.zookeeper.takes_writes = True
        made.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(3)])
        made.set_policies(SPACE, retention_policies={"retentionTimeInMinutes": 1, "retentionSizeInMB": -1})
        yield made


@pytest.fixture(name="hands")
def _hands(cluster: LiveCluster) -> Iterator[Hands]:
    made = Hands(cluster)
    yield made
    made.close()


def first(cluster: LiveCluster) -> int:
    return cluster.list_of(TOPIC).ledgers[0].ledger_id


def with_events(cluster: LiveCluster) -> None:
    cluster.add_schema(EVENTS_TOPIC, schema())
    cluster.write_ledger(EVENTS_TOPIC, EVENTS[:1])


def is_there(cluster: LiveCluster, ledger_id: int) -> bool:
    return ledger_path(ledger_id) in cluster.nodes


def test_what_is_set_now_is_what_a_survey_reads(cluster: LiveCluster, hands: Hands) -> None:
    nothing = hands.now()
    assert nothing == SetPolicies(NamespacePolicies(Retention.of(1, -1)), NOTHING_SET)
    with_events(cluster)
    seen = hands.marked(TrashKind.TRIMMED, first(cluster))
    assert seen.policies[NAME] == hands.now()
    assert hands.now().of_topic != nothing.of_topic


def test_nothing_goes_by_a_policy_of_the_topic_that_has_changed(cluster: LiveCluster, hands: Hands) -> None:
    with_events(cluster)
    seen = hands.marked(TrashKind.TRIMMED, first(cluster))
    cluster.publish(EVENTS_TOPIC, EVENTS[OTHER])
    done = hands.delete(seen)
    assert done.postponed == {first(cluster): "the topic's own policies have changed since it was decided"}
    assert is_there(cluster, first(cluster))


def test_a_first_policy_of_a_topic_in_its_namespace_counts(cluster: LiveCluster, hands: Hands) -> None:
    seen = hands.marked(TrashKind.TRIMMED, first(cluster))
    with_events(cluster)
    assert "own policies have changed" in hands.delete(seen).postponed[first(cluster)]
    assert is_there(cluster, first(cluster))


def test_events_in_a_partition_count(cluster: LiveCluster, hands: Hands) -> None:
    seen = hands.marked(TrashKind.TRIMMED, first(cluster))
    cluster.add_schema(EVENTS_TOPIC, schema())
    cluster.zookeeper.set(partitioned_path(f"{SPACE}/persistent/__change_events"), b'{"partitions": 2}')
    cluster.write_ledger(f"{EVENTS_TOPIC}-partition-1", EVENTS[:1])
    assert "own policies have changed" in hands.delete(seen).postponed[first(cluster)]


def test_policies_of_other_topics_keep_nothing(cluster: LiveCluster, hands: Hands) -> None:
    with_events(cluster)
    seen = hands.marked(TrashKind.TRIMMED, first(cluster))
    cluster.publish(EVENTS_TOPIC, EVENTS[SAME])
    done = hands.delete(seen)
    assert (done.ledger_ids, done.postponed) == ([first(cluster)], {})
    assert ledger_path(first(cluster)) not in cluster.nodes


def test_nothing_goes_while_the_policies_of_topics_cannot_be_read(cluster: LiveCluster, hands: Hands) -> None:
    with_events(cluster)
    seen = hands.marked(TrashKind.TRIMMED, first(cluster))
    cluster.zookeeper.set(managed_ledger_path(f"{SPACE}/persistent/__change_events"), b"\xff no list")
    assert "cannot be read now" in hands.delete(seen).postponed[first(cluster)]
    assert is_there(cluster, first(cluster))


def test_a_policy_that_changes_while_objects_are_compared_counts(cluster: LiveCluster, hands: Hands) -> None:
    with_events(cluster)
    cluster.offload(TOPIC, first(cluster))
    seen = hands.marked(TrashKind.OFFLOADED, first(cluster))
    # It is asked for the topic's owner before its objects are read.
    hands.owners.when_asked = lambda: (
        len(cluster.written[events].payloads) == 1 and cluster.append(events, EVENTS[OTHER])
    )
    events = cluster.list_of(EVENTS_TOPIC).ledgers[-1].ledger_id
    assert "own policies have changed" in hands.delete(seen).postponed[first(cluster)]
    assert is_there(cluster, first(cluster))


def test_a_policy_of_the_namespace_that_changes_meanwhile_counts(cluster: LiveCluster, hands: Hands) -> None:
    cluster.offload(TOPIC, first(cluster))
    seen = hands.marked(TrashKind.OFFLOADED, first(cluster))
    hands.owners.when_asked = lambda: cluster.set_policies(
        SPACE, retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    )
    assert "policies of its namespace" in hands.delete(seen).postponed[first(cluster)]
    assert is_there(cluster, first(cluster))
