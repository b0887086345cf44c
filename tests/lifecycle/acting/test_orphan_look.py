"""One look serves the orphans of all topics, for a while; what it could not see is not looked at again by the same plan."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.walk import Walk
from ledgerfs.errors import StoreUnreachableError
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.lifecycle.acting.orphan_look import OrphanLook
from ledgerfs.lifecycle.acting.turn import Turn
from ledgerfs.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs.lifecycle.service.making import service_of
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.live_clusters import CLOSED, LiveCluster, messages
from tests.support.made_surveys import NOW, MadeCluster, current, listed
from tests.support.sick_clusters import write_of

TOPICS = [f"public/default/t{number}" for number in range(6)]
POLICY = (
    '[defaults]\norphans = true\norphan_grace = "0s"\ntrash_grace = "0s"\n[[topics]]\nmatch = ".*"\noffload = false\n'
)


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path) as made:
        made.zookeeper.takes_writes = True
        made.set_policies("public/default", retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
        for topic in TOPICS:
            made.write_ledgers(topic, [messages(2)])
        yield made


@pytest.fixture(name="walks")
def _walks(monkeypatch: pytest.MonkeyPatch) -> list[Walk]:
    """Each look at a cluster."""
    made: list[Walk] = []

    def noted(*args: Any, **options: Any) -> Walk:
        made.append(Walk(*args, **options))
        return made[-1]

    monkeypatch.setattr("ledgerfs.clusters.surveying.Walk", noted)
    return made


def run_once(cluster: LiveCluster) -> None:
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        with service_of(parse_policy_file(POLICY.encode(), Path("policy.toml")), living, None, None, 0.0) as made:
            made.service.run(lambda *_: None, once=True)
            assert made.events.troubles() == []
    finally:
        living.nodes.close()


def test_the_orphans_of_all_topics_are_deleted_after_one_look(
    cluster: LiveCluster, walks: list[Walk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a slow machine, too.
    monkeypatch.setattr("ledgerfs.lifecycle.acting.orphan_look._HOLDS_S", math.inf)
    old = time.time_ns() // 1_000_000 - 3_600_000
    orphans = []
    for number, one in enumerate(TOPICS):
        # Older than all that is listed: what trims have left.
        older = {"created_ms": old, "state": CLOSED, "ledger_id": 7 + number}
        owner = ("pulsar/managed-ledger", managed_ledger_of(one))
        orphans.append(write_of(cluster, "managed-ledger", owner, **older))
    looks = []
    for _ in range(2):
        before = len(walks)
        run_once(cluster)
        looks.append(len(walks) - before)
    assert not any(ledger_path(one) in cluster.nodes for one in orphans)
    # The first pass marks. Each pass looks twice for its plan, and once more before it deletes.
    assert looks == [2, 3]


class _Looks:
    """Stands for `look_again`: orphans are those of a made cluster, a look takes a time, and may fail."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.now_s = self.takes_s = 0.0
        self.error: StoreUnreachableError | None = None
        self.cluster = MadeCluster()
        self.cluster.topic("t/ns/persistent/x", [listed(1), current(2)])
        for one in (70, 71):
            self.cluster.ledger(one, "t/ns/persistent/x")

    def __call__(self, _: object, ids: Any, *__: object, skips_denied: bool) -> Survey:
        assert skips_denied
        self.asked.append(ids.tolist())
        self.now_s += self.takes_s
        if self.error is not None:
            raise self.error
        return self.cluster.survey()


@pytest.fixture(name="looks")
def _looks(monkeypatch: pytest.MonkeyPatch) -> _Looks:
    made = _Looks()
    monkeypatch.setattr("ledgerfs.lifecycle.acting.orphan_look.look_again", made)
    return made


def looking(looks: _Looks) -> OrphanLook:
    cluster: Any = None
    return OrphanLook(cluster, None, Turn(), lambda: looks.now_s)


@pytest.mark.parametrize(("takes_s", "holds_s"), [(1, 30), (100, 100)])
def test_a_look_holds_for_a_while(looks: _Looks, takes_s: float, holds_s: float) -> None:
    look, looks.takes_s = looking(looks), takes_s
    assert look.free_of([70, 1], [70, 71], NOW) == {70}
    looks.now_s += holds_s - 0.5
    assert look.free_of([71], [70, 71], NOW) == {71}
    assert looks.asked == [[1, 70, 71]]
    # Somebody names it meanwhile.
    looks.cluster.topic("t/ns/persistent/y", [listed(71), current(72)], absent=[71])
    looks.now_s += 1
    assert look.free_of([71], [70, 71], NOW) == set()
    assert look.free_of([9], [], NOW) == set()
    assert looks.asked == [[1, 70, 71], [70, 71], [9]]


def test_a_look_that_fails_is_not_tried_again_for_each_topic(looks: _Looks) -> None:
    look, looks.error = looking(looks), StoreUnreachableError("no answer")
    for _ in range(3):
        with pytest.raises(StoreUnreachableError):
            look.free_of([70], [70, 71], NOW)
    assert len(looks.asked) == 1
    looks.error = None
    look.forget()
    assert look.free_of([70], [70, 71], NOW) == {70}


def test_objects_that_a_list_of_another_topic_names_are_seen(cluster: LiveCluster) -> None:
    """A list was restored under another name."""
    cluster.bucket().mkdir(parents=True, exist_ok=True)
    ledger_id = cluster.list_of(TOPICS[0]).ledgers[0].ledger_id
    cluster.roll_over(TOPICS[0])
    uuid = cluster.offload(TOPICS[0], ledger_id)
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        look = OrphanLook(living, None, Turn())
        assert look.names_offload(ledger_id, uuid, [], 0)
        assert not look.names_offload(ledger_id, str(UUID(int=5)), [], 0)
        assert not look.names_offload(ledger_id + 1, uuid, [], 0)
    finally:
        living.nodes.close()
