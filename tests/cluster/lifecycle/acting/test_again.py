"""One time of planning again serves the orphans of all topics, for a while."""

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerfs.errors import StoreUnreachableError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.lifecycle.acting.again import PlanAgain
from ledgerfs_cluster.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs_cluster.lifecycle.service.making import service_of
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.surveying import look_again
from ledgerfs_cluster.snapshot.walk import Walk
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.marked import Marked
from tests.cluster.support.sick_clusters import write_of

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

    monkeypatch.setattr("ledgerfs_cluster.snapshot.surveying.Walk", noted)
    return made


def run_once(cluster: LiveCluster) -> None:
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        with service_of(parse_policy_file(POLICY.encode(), Path("policy.toml")), living, None, None, 0.0) as made:
            made.run(lambda *_: None, once=True)
            assert made.events.troubles() == []
    finally:
        living.nodes.close()


def test_the_orphans_of_all_topics_are_planned_again_at_once(
    cluster: LiveCluster, walks: list[Walk], monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a slow machine, too.
    monkeypatch.setattr("ledgerfs_cluster.lifecycle.acting.again._HOLDS_S", math.inf)
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


@pytest.mark.parametrize(("takes_s", "holds_s"), [(1, 30), (100, 100)])
def test_one_time_holds_for_a_while_and_one_that_fails_is_not_tried_again_in_a_pass(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch, takes_s: float, holds_s: float
) -> None:
    marked = Marked(cluster)
    now_s, errors, asked = [0.0], list[StoreUnreachableError](), list[float]()

    def look(*args: Any, **options: Any) -> Survey:
        asked.append(now_s[0])
        now_s[0] += takes_s
        if errors:
            raise errors[0]
        return look_again(*args, **options)

    monkeypatch.setattr("ledgerfs_cluster.lifecycle.acting.again.look_again", look)
    again = PlanAgain(marked.context, *marked.seen(), lambda: now_s[0])
    again.deletions()
    now_s[0] += holds_s - 0.5
    again.deletions()
    now_s[0] += 1
    again.deletions()
    assert asked == [0, takes_s + holds_s + 0.5]
    errors.append(StoreUnreachableError("no answer"))
    now_s[0] += 2 * holds_s
    for _ in range(2):
        with pytest.raises(StoreUnreachableError):
            again.deletions()
    assert len(asked) == 3
    marked.close()
