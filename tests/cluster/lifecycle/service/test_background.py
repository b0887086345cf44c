"""Copies that wait to be completed while policies change; and turns of topics: each gets its share of bytes, within the largest ledger."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerfs.bucket.opening import open_bucket
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind
from ledgerfs_cluster.lifecycle.policy.policy_file import Via
from ledgerfs_cluster.lifecycle.service.background import BackgroundOffloads, Due, FairTurns
from ledgerfs_cluster.lifecycle.service.events import Events
from ledgerfs_cluster.live_source.closed_ledgers import ClosedLedgers
from ledgerfs_cluster.offload.offload_bucket import OffloadBucket
from ledgerfs_cluster.offload.one_step import OneStep
from ledgerfs_cluster.zookeeper.changes import ClusterLock
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.live_offloads import S3
from tests.cluster.support.reported_owners import NAME, ReportedOwners
from tests.support.waiting import wait_until


@pytest.fixture(name="step")
def _step(cluster: LiveCluster) -> Iterator[OneStep]:
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    with ClusterLock.take(living.nodes.settings, b"{}") as lock:
        yield OneStep(
            *(lock, ClosedLedgers(living), open_bucket, {"pulsarclustername": "ours"}),
            noted_ms=lambda: 1_000,
            url_of=lambda _: None,
            owner_of=ReportedOwners().owner_of,
        )
    living.nodes.close()


def rule_of(cluster: LiveCluster, bucket: str) -> Any:
    """Return a rule by which ledgers are offloaded to a bucket."""
    cluster.bucket(bucket).mkdir(parents=True)
    return SimpleNamespace(bucket=OffloadBucket(bucket, cluster.bucket_url(bucket), S3, bucket, "us-east-1"))


def test_what_is_copied_to_two_buckets_is_listed_where_it_is(cluster: LiveCluster, step: OneStep) -> None:
    """The policies name another bucket after the first ledger was copied; both are completed together."""
    first, second, _ = cluster.write_ledgers(TOPIC, [messages(20, prefix=str(number)) for number in range(3)])
    offloads = BackgroundOffloads(step, Events())
    try:
        for ledger_id, bucket in ((first, "tier"), (second, "vault")):
            rule = rule_of(cluster, bucket)
            due = Action(
                ActionKind.OFFLOAD,
                NAME,
                (first, second)[: ledger_id - first + 1],
                1000,
                Via.DIRECT,
                None,
                "a test",
                rule,
            )
            offloads.replace([due], {first: 500, second: 500})
            wait_until(lambda: offloads.has_begun_all)
        offloads.complete(everything=True)
        assert offloads.is_idle
    finally:
        offloads.stop()
    listed = parse_managed_ledger_info(cluster.nodes[managed_ledger_path(NAME)], key="").ledgers
    found = {one.ledger_id: one.context for one in listed if one.context is not None}
    assert set(found) == {first, second}
    for ledger_id, bucket in ((first, "tier"), (second, "vault")):
        context = found[ledger_id]
        assert (context.is_complete, dict(context.properties)["bucket"]) == (True, bucket)
        names = {one.name for one in cluster.bucket(bucket).iterdir()}
        assert names == {f"{context.uuid}-ledger-{ledger_id}{end}" for end in ("", "-index")}


# Turns.

MIB = 1 << 20


def ledgers(topic: str, sizes: Iterable[int], first: int = 0) -> list[Due]:
    """Return ledgers of so many MiB."""
    return [Due(topic, first + number, size * MIB) for number, size in enumerate(sizes)]


def drained(turns: FairTurns) -> list[Due]:
    return list(iter(turns.take, None))


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(st.integers(1, 5000), min_size=1, max_size=20), min_size=1))
def test_a_topic_is_never_further_from_others_than_the_largest_ledger(sizes: dict[str, list[int]]) -> None:
    turns = FairTurns()
    turns.replace({name: ledgers(name, some) for name, some in sizes.items()})
    largest = max(map(max, sizes.values())) * MIB
    sent: Counter[str] = Counter()
    for due in drained(turns):
        sent[due.topic] += due.size
        waiting = [name for name in sizes if turns.has(name)]
        assert all(sent[due.topic] - sent[name] <= largest for name in waiting)
    assert sent == {name: sum(some) * MIB for name, some in sizes.items()}


def test_a_hundred_thousand_topics_have_their_turns_beside_a_large_one() -> None:
    """And a new plan meanwhile; only if each pick is cheap does this end."""
    names = [f"t-{number}" for number in range(100_000)]
    plan = {"large": ledgers("large", [10_000] * 50), **{name: ledgers(name, [2, 2]) for name in names}}
    turns = FairTurns()
    turns.replace(plan)
    order = list(islice(iter(turns.take, None), 50_000))
    begun = {(one.topic, one.ledger_id) for one in order}
    turns.replace({name: [one for one in some if (name, one.ledger_id) not in begun] for name, some in plan.items()})
    order += drained(turns)
    assert Counter(one.topic for one in order) == {name: len(some) for name, some in plan.items()}
    # Every topic has its first ledger sent before any has its second, and the large topic waits for all of them.
    assert {one.ledger_id for one in order[:100_001]} == {0}
    assert {one.topic for one in order[-49:]} == {"large"}


def test_debts_stay_in_a_new_plan_and_who_had_nothing_to_do_has_saved_nothing() -> None:
    turns = FairTurns()
    turns.replace({"greedy": ledgers("greedy", [100])})
    assert turns.take() is not None
    turns.replace({"greedy": ledgers("greedy", [1] * 5, first=1), "new": ledgers("new", [1] * 50)})
    assert [one.topic for one in drained(turns)] == ["new"] * 50 + ["greedy"] * 5
    turns.replace({"busy": ledgers("busy", [10] * 100), "idle": ledgers("idle", [1])})
    for _ in range(90):
        assert turns.take() is not None
    turns.replace({"busy": ledgers("busy", [10] * 10), "idle": ledgers("idle", [10] * 10)})
    order = [one.topic for one in drained(turns)]
    assert all(abs(order[:end].count("busy") - order[:end].count("idle")) <= 2 for end in range(1, 20))
