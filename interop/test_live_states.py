"""What is told of a cluster from its metadata alone, compared with what its broker then does; and its defects, which are all named.

Ledgers roll over every 100 entries; the broker trims only when it is told to, and leaves BookKeeper's copies of what it offloads.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from kazoo.client import KazooClient

from interop import kept_topics, states, threshold_topics
from interop.filling import for_each
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import acknowledging, connected, going_on, produce_to
from interop.processes import LEASH
from interop.s3_server import BUCKET
from interop.stages import stage, took
from interop.surveys import ledgers_of, path_of, survey_of
from interop.waiting import wait_until
from ledgerfs.formats.topic_names import topic_of
from ledgerfs_cluster.formats.managed_ledgers.cursor_info import parse_cursor_info
from ledgerfs_cluster.rules.cursors import cursors
from ledgerfs_cluster.rules.offload_thresholds import chosen_of
from ledgerfs_cluster.snapshot.policies import BrokerDefaults, OffloadThresholds, Retention
from ledgerfs_cluster.snapshot.survey import TopicLedgers
from tests.cluster.support.retained import Retained, retained

_BROKER = {
    "managedLedgerMaxEntriesPerLedger": states.ENTRIES_A_LEDGER,
    "managedLedgerCursorMaxEntriesPerLedger": 20,
    "managedLedgerDefaultMarkDeleteRateLimit": 1000,
    "managedLedgerOffloadDeletionLagMs": 4 * 3_600_000,
    "retentionCheckIntervalInSeconds": 3600,
    "transactionCoordinatorEnabled": "false",
}
_EXTENSIBLE = {
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl",
    "loadBalancerLoadSheddingStrategy": "org.apache.pulsar.broker.loadbalance.extensions.scheduler.TransferShedder",
}
_DEFAULTS = BrokerDefaults(Retention.of(-1, -1))
_OLD_ENOUGH_S = 20
_GRACE_S = 5
_ROLLING_S = 120
"""For how long ledgers roll over below the doctor."""
_LEAST_ROLLOVERS_S = 5
"""Ledgers that are made in a second, at least: ten are wanted, which a machine that does much else may not manage."""
_LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    """The cluster."""
    with lent_live_cluster(folder / "states", _BROKER) as made:
        yield made


@dataclass(frozen=True)
class Begun:
    """What is compared later was sent until ``ended_ms``, ms since 1970 UTC."""

    ended_ms: int


@pytest.fixture(scope="module")
def begun(live: LiveCluster) -> Begun:
    """What has to be old when it is compared."""
    with stage("states: produce"), connected(live.cluster.service_url) as client:
        kept_topics.make_topics(live, client)
        threshold_topics.make_topics(live, client)
    return Begun(time.time_ns() // 1_000_000)


@dataclass(frozen=True)
class Made:
    """All states."""

    orphans: states.Orphans
    crash: states.CrashInTrim
    half: list[states.HalfOffload]
    ended_s: float


@pytest.fixture(scope="module")
def made(live: LiveCluster, begun: Begun) -> Made:
    """All states, and topics of a broker that was killed; another one runs since."""
    with stage("states: make them"), connected(live.cluster.service_url) as client:
        half = states.make_half_offloads(live, client)
        kept_topics.make_topics_of_a_killed_broker(live, client)
    with stage("states: make them"):
        orphans, crash = states.make_orphans_in_a_crash(live)
    with stage("states: start the broker"):
        live.cluster.start_broker(live.s3)
    return Made(orphans, crash, half, time.time())


def test_no_live_ledger_is_named_while_ledgers_roll_over(live: LiveCluster, begun: Begun) -> None:
    """Of topics and of subscriptions, both for minutes."""
    live.cluster.admin.make_namespace("public/rolling")
    topics = [f"persistent://public/rolling/{number}" for number in range(3)]
    cursor_ledgers: dict[str, set[int]] = {topic: set() for topic in topics}
    found: list[dict[str, Any]] = []
    checks = 0
    with connected(live.cluster.service_url) as client, live.unrecorded() as nodes, ExitStack() as stack:
        for topic in topics:
            stack.enter_context(acknowledging(client, topic, "s"))
            stack.enter_context(going_on(produce_to(client, topic, 10), 40, 0.1))
        before, began = _ledgers_ever_made(nodes), time.monotonic()
        while time.monotonic() < began + _ROLLING_S:
            found += _findings(live)
            checks += 1
            for topic in topics:
                path = f"{path_of(topic)}/s"
                cursor_ledgers[topic].add(parse_cursor_info(nodes.get(path)[0], key=path).cursors_ledger)
        made, seconds = _ledgers_ever_made(nodes) - before, time.monotonic() - began
    took(f"states: {checks} checks while {made:,} ledgers were made, {made / seconds:.1f} a second", seconds)
    with live.unrecorded() as nodes:
        of_topics = sum(len(ledgers_of(nodes, topic)) for topic in topics)
        healthy = states.ledgers_of_schemas_that_brokers_lost(nodes, live.cluster.bookkeeper_ledgers())
    assert [one for one in found if not set(one["ledgers"]) <= healthy] == []
    assert made / seconds >= _LEAST_ROLLOVERS_S, f"{made} ledgers in {seconds:.0f} s"
    assert checks > 3
    assert of_topics > _ROLLING_S
    assert min(map(len, cursor_ledgers.values())) > 3, cursor_ledgers


def test_thresholds_choose_what_a_broker_then_offloads(live: LiveCluster, begun: Begun, made: Made) -> None:
    with stage("states: age"):
        time.sleep(max(0.0, _OLD_ENOUGH_S + begun.ended_ms / 1000 - time.time()))
    with stage("states: set thresholds"):
        threshold_topics.set_thresholds(live, begun.ended_ms)
    before = _offloads(live)
    with stage("states: roll over"), connected(live.cluster.service_url) as client:
        threshold_topics.roll_over(client)
    after = _offloads(live)
    expected = {one.topic: _chosen(before[one.topic], after[one.topic]) for one in threshold_topics.TOPICS}
    with live.unrecorded() as nodes, stage("states: offload"):

        def offloaded(topic: str) -> set[int]:
            done = {one.ledger_id for one in ledgers_of(nodes, topic) if one.is_offloaded}
            return done - _offloaded(before[topic])

        wait_until(lambda: all(expected[topic] <= offloaded(topic) for topic in expected), "what is due is offloaded")
        found = {topic: offloaded(topic) for topic in expected}
    assert found == expected
    assert {len(one) for one in found.values()} >= {0, 1, 2, 3, 5}
    assert all(before[topic].ids <= found[topic] for topic in found), "told before the rollover"
    left = _offloads(live)
    assert [topic for topic in found if left[topic].ids] == []


def test_retention_takes_what_a_broker_then_trims(live: LiveCluster, begun: Begun, made: Made) -> None:
    with stage("states: age"):
        time.sleep(max(0.0, kept_topics.OLD_S + begun.ended_ms / 1000 - time.time()))
    with stage("states: produce"), connected(live.cluster.service_url) as client:
        kept_topics.finish_topics(live, client)
    with stage("states: survey"):
        survey = survey_of(live)
    reported = {topic_of(name): one for name, one in retained(survey, _DEFAULTS).items()}
    expected = {one.topic: _leaving(reported[one.topic]) for one in kept_topics.TOPICS}
    marks: dict[str, dict[str, tuple[int, int]]] = {}
    for cursor in cursors(survey, _DEFAULTS, survey.read_ms):
        marks.setdefault(topic_of(cursor.managed_ledger), {})[cursor.name] = cursor.position
    with live.unrecorded() as nodes:
        before = {topic: {one.ledger_id for one in ledgers_of(nodes, topic)} for topic in expected}
    expiring = [one for one in kept_topics.TOPICS if one.expires]
    reached: dict[str, dict[str, tuple[int, int]]] = {}
    with stage("states: expire"):
        for_each(expiring, lambda one: reached.update({one.topic: kept_topics.expire(live, one, marks[one.topic])}))
    for one in expiring:
        assert all(reached[one.topic][name] >= at for name, at in marks[one.topic].items()), one.topic
    with live.unrecorded() as nodes, stage("states: trim"):

        def listed(topic: str) -> set[int]:
            return {one.ledger_id for one in ledgers_of(nodes, topic)}

        for_each(kept_topics.TOPICS, lambda one: kept_topics.trim(live, one))
        gone = {topic: before[topic] - listed(topic) for topic in expected}
    expiring_topics = {one.topic for one in expiring}
    for topic, ledgers in expected.items():
        assert gone[topic] >= ledgers if topic in expiring_topics else gone[topic] == ledgers, topic
    assert sum(bool(one) for one in gone.values()) > 12


def test_the_doctor_names_all_states_and_nothing_else(live: LiveCluster, made: Made) -> None:
    with live.unrecorded() as nodes:
        healthy = states.ledgers_of_schemas_that_brokers_lost(nodes, live.cluster.bookkeeper_ledgers())
    healthy.discard(made.orphans.schema_ledger)
    time.sleep(max(0.0, _GRACE_S - (time.time() - made.ended_s)))
    with stage("states: check"):
        found = _findings(live)
    ledgers: dict[str, set[int]] = {}
    for one in found:
        ledgers.setdefault(one["kind"], set()).update(one["ledgers"])
    orphans, half = made.orphans, {one.state: one.ledger for one in made.half}
    ledgers["orphan-schema-ledger"] -= healthy
    objects = ledgers.pop("orphan-object")
    subjects = " ".join(one["subject"] + one["evidence"] for one in found if one["kind"] == "orphan-object")
    assert len(objects) == 2, objects
    assert all(key.removesuffix("-index") in subjects for key in orphans.objects), subjects
    assert ledgers == {
        "orphan-ledger": {*orphans.ledgers, *made.crash.ledgers},
        "orphan-cursor-ledger": {orphans.cursor_ledger},
        "orphan-schema-ledger": {orphans.schema_ledger},
        "flagged-deleted": {orphans.flagged},
        "lost-ledger": {orphans.absent},
        "lost-objects": {orphans.flagged},
        "truncated-offload": {half["complete"]},
    }


def test_nothing_but_reads_was_ever_sent(live: LiveCluster, made: Made) -> None:
    live.require_only_reads()
    assert sum(live.requests().values()) > 1000


def _findings(live: LiveCluster) -> list[dict[str, Any]]:
    """Run the command in a process of its own, with a grace of seconds; return what it finds."""
    command = [_LEDGERFS, "cluster", "check", live.url, "--json", "--grace", f"{_GRACE_S}s", "--pass-seconds", "2"]
    bucket = ["--bucket", f"s3://{BUCKET}", "-O", f"endpoint_url={live.s3.endpoint}"]
    done = subprocess.run([*LEASH, *command, *bucket], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in {0, 1, 3}, f"{done.returncode}\n{done.stdout}{done.stderr}"
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def _ledgers_ever_made(nodes: KazooClient) -> int:
    """Return how many ids of ledgers were given out: for each a node is made below this one, and deleted."""
    made: int = nodes.get("/ledgers/idgen")[1].cversion // 2
    return made


def _leaving(topic: Retained) -> set[int]:
    """Return the ledgers that a trim deletes, and those without entries that loading the topic forgets."""
    return {*topic.ledger_ids, *topic.ledgers.ids[list(topic.trim.dropped)].tolist()}


class TopicOffloads(NamedTuple):
    """What a topic's thresholds choose of its ledgers."""

    ledgers: TopicLedgers
    thresholds: OffloadThresholds
    chosen: list[int]

    @property
    def ids(self) -> set[int]:
        """The ledgers that are chosen."""
        return set(self.ledgers.ids[self.chosen].tolist())


def _offloads(live: LiveCluster) -> dict[str, TopicOffloads]:
    """Return what is chosen to be offloaded, by topic."""
    with stage("states: survey"):
        survey = survey_of(live)
    found = {}
    for row, name in enumerate(survey.topics):
        ledgers, thresholds = survey.ledgers_of(row), survey.policies_of(name).offload(_DEFAULTS.offload)
        chosen = chosen_of(ledgers, thresholds, survey.read_ms).tolist()
        found[topic_of(name)] = TopicOffloads(ledgers, thresholds, chosen)
    return found


def _offloaded(topic: TopicOffloads) -> set[int]:
    return set(topic.ledgers.ids[topic.ledgers.are_offloaded].tolist())


def _chosen(before: TopicOffloads, after: TopicOffloads) -> set[int]:
    """Return what is chosen at a rollover, when what is offloaded was still that of before, and one more ledger was closed."""
    ledgers = after.ledgers._replace(are_offloaded=np.isin(after.ledgers.ids, list(_offloaded(before))))
    chosen = chosen_of(ledgers, after.thresholds, time.time_ns() // 1_000_000)
    return set(ledgers.ids[chosen].tolist())
