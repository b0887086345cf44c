"""A cluster is lost while producers write: a new one serves its topics as Java read them before, from bucket, dump and disks.

Some topics were offloaded as a whole, some in part, some never. All that the lost cluster had is killed at once: bookies, broker,
ZooKeeper. What remains is the bucket with a dump that was kept in it, and the bookies' disks.
"""

import base64
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String

from interop import workload
from interop.cluster import Cluster
from interop.comparison import differences, in_the_same_words
from interop.filling import subscribe
from interop.java_client import JavaClient, Lines
from interop.keys import KeyPair
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import connected, produce_to
from interop.processes import LEASH, Processes
from interop.s3_server import BUCKET, CREDENTIALS
from interop.stages import stage
from interop.waiting import wait_until

NAMESPACE = workload.NAMESPACE
TYPED = tuple(f"persistent://{NAMESPACE}/typed-{name}" for name in ("evolved", "deleted"))
EVENTS = f"persistent://{NAMESPACE}/events"
SUBSCRIBED = f"persistent://{NAMESPACE}/subscribed"
MESSAGES, ACKNOWLEDGED = 40, (*range(10), 12, 15, 16)


class Visit(Record):  # type: ignore[misc]
    """A value as it was at first."""

    who = String()
    count = Integer()


VisitSince: Any = type("Visit", (Record,), {"who": String(), "count": Integer(), "note": String(required_default=True)})
"""The same with a field more, under the same name."""

_LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))
_SEED = int(os.environ.get("LEDGERFS_KILL_SEED", "11"))


@dataclass
class Lost:
    """What is left of the lost cluster, and what it had.

    Attributes
    ----------
    truth, typed
        What Java read of each topic that nobody wrote to any more, and what it decoded of those with schemas.
    acknowledged, dumped
        How many messages of `EVENTS` were acknowledged in all, and when the last dump began.

    """

    live: LiveCluster
    truth: Lines
    typed: Lines
    acknowledged: int
    dumped: int
    folder: Path

    @property
    def disks(self) -> str:
        """The URL of its bookies' disks."""
        return "bookies://" + ",".join(str(self.live.cluster.folder / f"bookie{number}") for number in range(3))


@dataclass
class New:
    """The new cluster."""

    cluster: Cluster
    java: JavaClient

    def arguments(self, *more: str) -> tuple[str, ...]:
        """Return what names it."""
        return ("--into", f"pulsar+zk://{self.cluster.zookeeper}", "--admin", self.cluster.admin.address, *more)


def command(lost_bucket: str, name: str, *arguments: str, codes: Sequence[int] = (0,)) -> Any:
    """Run ``ledgerfs recover`` about a bucket; return what its JSON says."""
    done = subprocess.run(
        _line(lost_bucket, name, *arguments), capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode in codes, (
        f"{name}: exit code {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    )
    return json.loads(done.stdout)


def _line(lost_bucket: str, name: str, *arguments: str) -> list[str]:
    return [
        *LEASH,
        _LEDGERFS,
        "recover",
        name,
        f"s3://{BUCKET}",
        "-o",
        f"endpoint_url={lost_bucket}",
        "--json",
        *arguments,
    ]


@pytest.fixture(scope="module")
def lost(folder: Path, classes: Path, keys: KeyPair) -> Iterator[Lost]:
    """The cluster, until it is lost; its bucket stays."""
    chance = random.Random(_SEED)
    with lent_live_cluster(folder / "lost") as live:
        java = JavaClient(live.cluster, classes, keys)
        workload.prepare(live.cluster)
        live.cluster.admin.set_retention(NAMESPACE, -1, -1)
        topics: list[str] = []
        for number in range(2):
            with stage("recovery: produce"):
                workload.produce(live.cluster, java, number)
            topics = workload.topics(live.cluster)
            # Of the second round a third of the topics is offloaded: of the others only disks have it.
            with stage("recovery: offload"):
                for topic in topics if number == 0 else chance.sample(topics, len(topics) // 3):
                    live.cluster.admin.offload(topic)
        with connected(live.cluster.service_url) as client:
            _subscribed(live, client)
            _typed(live, client)
            with stage("recovery: Pulsar's reader"):
                truth = in_the_same_words(java.read([*topics, SUBSCRIBED]))
                typed = java.read_typed(TYPED)
            yield _killed(live, client, (truth, typed), folder, chance)


def _subscribed(live: LiveCluster, client: pulsar.Client) -> None:
    """Make a topic with a subscription that has acknowledged some messages out of order, and parts of a batch."""
    subscription = client.subscribe(SUBSCRIBED, "s", consumer_type=pulsar.ConsumerType.Shared)
    subscription.close()
    producer = client.create_producer(SUBSCRIBED, batching_enabled=False)
    for number in range(MESSAGES):
        producer.send(b"%08d" % number)
    producer.close()
    subscribe(client, SUBSCRIBED, "s", ACKNOWLEDGED)
    live.cluster.admin.unload(SUBSCRIBED)


def _typed(live: LiveCluster, client: pulsar.Client) -> None:
    """Make topics with schemas: one that evolves, and one of which a schema of another type was deleted before."""
    evolved, deleted = TYPED
    for kind in (Visit, VisitSince, Visit):
        producer = client.create_producer(evolved, schema=AvroSchema(kind))
        for number in range(20):
            producer.send(kind(who=f"visit {number}", count=number))
        producer.close()
        live.cluster.admin.unload(evolved)
    client.create_producer(deleted, schema=AvroSchema(Visit)).close()
    live.cluster.admin.call("DELETE", f"v2/schemas/{deleted.removeprefix('persistent://')}/schema")
    producer = client.create_producer(deleted, schema=JsonSchema(VisitSince))
    for number in range(20):
        producer.send(VisitSince(who=f"json {number}", count=number))
    producer.close()
    for topic in TYPED:
        live.cluster.admin.unload(topic)


def _killed(
    live: LiveCluster, client: pulsar.Client, read: tuple[Lines, Lines], folder: Path, chance: random.Random
) -> Lost:
    """Dump the cluster while a producer writes, and then kill all of it."""
    producer = produce_to(client, EVENTS, 300)
    producer.send(600)
    producer.wait(300)
    dumped = producer.acknowledged
    target = ("--to", f"s3://{BUCKET}", "-O", f"endpoint_url={live.s3.endpoint}")
    line = [*LEASH, _LEDGERFS, "cluster", "dump", f"pulsar+zk://{live.cluster.zookeeper}", *target]
    with stage("recovery: dump"):
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    producer.send(400)
    time.sleep(chance.uniform(0, 0.5))
    with stage("recovery: kill all"):
        for name in ("bookie0", "broker", "bookie1", "zookeeper", "bookie2"):
            live.cluster.processes.kill(name)
    return Lost(live, *read, producer.acknowledged, dumped, folder)


@pytest.fixture(scope="module")
def new(lost: Lost, folder: Path, classes: Path, keys: KeyPair) -> Iterator[New]:
    """An empty cluster whose broker has the bucket."""
    processes = Processes(folder)
    cluster = Cluster(folder / "recovered", processes)
    try:
        with stage("recovery: start Pulsar"):
            cluster.start(lost.live.s3)
        yield New(cluster, JavaClient(cluster, classes, keys))
    finally:
        processes.stop_all()


@pytest.fixture(scope="module")
def dump(lost: Lost, folder: Path) -> Path:
    """The newest dump of the bucket, as a file."""
    file = folder / "dump.json.zst"
    line = [*LEASH, _LEDGERFS, "cluster", "dumps", f"s3://{BUCKET}", "-o", f"endpoint_url={lost.live.s3.endpoint}"]
    done = subprocess.run([*line, "--get", str(file)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module")
def restored(lost: Lost, new: New, dump: Path) -> dict[str, Any]:
    """What a run says that was killed some times before."""
    chance = random.Random(_SEED)
    more = ("--disks", lost.disks, "--yes")
    with stage("recovery: killed runs"):
        for _ in range(3):
            # Long enough to be anywhere: copying from disks, making namespaces, topics, or comparing.
            process = subprocess.Popen(
                _line(lost.live.s3.endpoint, "run", *new.arguments(*more)),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            time.sleep(chance.uniform(2, 12))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    with stage("recovery: run"):
        _until_the_lock_is_free(new.cluster)
        found: dict[str, Any] = command(
            lost.live.s3.endpoint, "run", *new.arguments(*more, "--report", str(lost.folder / "report.html"))
        )
    return found


def _until_the_lock_is_free(cluster: Cluster) -> None:
    """Wait until the session of a killed run is over."""
    from kazoo.client import KazooClient

    client = KazooClient(cluster.zookeeper)
    client.start(timeout=60)
    try:
        wait_until(lambda: client.exists("/ledgerfs/lifecycle/lock") is None, "nobody has the lock")
    finally:
        client.stop()
        client.close()


def test_a_plan_tells_what_is_missing_without_disks_and_writes_nothing(lost: Lost, new: New) -> None:
    before = set(new.cluster.admin.call("GET", "v2/tenants"))
    plan = command(lost.live.s3.endpoint, "plan", *new.arguments())
    topics = {one["topic"]: one for one in plan["topics"]}
    assert plan["dump"].startswith(f"s3://{BUCKET}/_ledgerfs/dumps/")
    assert lost.truth.keys() <= topics.keys()
    assert all(topics[one]["why"] is None for one in lost.truth)
    missing = [one for one in lost.truth if topics[one]["missing_entries"]]
    assert len(missing) > len(lost.truth) // 2
    assert set(new.cluster.admin.call("GET", "v2/tenants")) == before


def test_all_topics_are_served_as_before(lost: Lost, new: New, restored: dict[str, Any]) -> None:
    topics = {one["topic"]: one for one in restored["topics"]}
    assert {topics[one]["state"] for one in lost.truth} <= {"restored", "there before"}
    assert [one for one in lost.truth if topics[one]["missing_entries"]] == []
    with stage("recovery: Pulsar's reader"):
        found = in_the_same_words(new.java.read([*lost.truth, EVENTS]))
    numbers = [int(base64.b64decode(row["value"])[:8]) for row in found.pop(EVENTS)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= lost.dumped
    assert differences(found, lost.truth) == []
    assert (lost.folder / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_values_are_decoded_as_before(lost: Lost, new: New, restored: dict[str, Any]) -> None:
    found = new.java.read_typed(TYPED)
    assert found == lost.typed
    versions = {topic: {row["schema_version"] for row in rows} for topic, rows in found.items()}
    assert [len(versions[topic]) for topic in TYPED] == [2, 1]


def test_the_check_reads_all_of_it(lost: Lost, new: New, restored: dict[str, Any], dump: Path) -> None:
    with stage("recovery: check"):
        found = command(lost.live.s3.endpoint, "check", *new.arguments("--dump", str(dump)))
    compared = {one["topic"]: one["compared"] for one in found["topics"] if one["compared"] is not None}
    assert lost.truth.keys() <= compared.keys()
    assert all(one["same"] == one["expected"] for one in compared.values())
    assert sum(one["expected"] for one in compared.values()) > 500


def test_a_subscription_goes_on_where_it_was(lost: Lost, new: New, restored: dict[str, Any]) -> None:
    with connected(new.cluster.service_url) as client:
        consumer = client.subscribe(SUBSCRIBED, "s", consumer_type=pulsar.ConsumerType.Shared)
        wanted = [number for number in range(MESSAGES) if number not in ACKNOWLEDGED]
        found = [int(consumer.receive(30_000).data()) for _ in wanted]
        assert found == wanted
        with pytest.raises(pulsar.Timeout):
            consumer.receive(500)
        consumer.close()


def test_run_again_changes_nothing(lost: Lost, new: New, restored: dict[str, Any], dump: Path) -> None:
    again = command(lost.live.s3.endpoint, "run", *new.arguments("--dump", str(dump), "--yes", "--no-compare"))
    assert {one["state"] for one in again["topics"] if one["topic"] in lost.truth} == {"there before"}


def test_under_another_name_beside_the_topic(lost: Lost, new: New, restored: dict[str, Any], dump: Path) -> None:
    """What is asked for by name, of ledgers whose ids are taken; and without, it is refused."""
    name = next(one for one in sorted(lost.truth) if re.fullmatch(r".*/txn", one))
    wanted = (
        "--topics",
        re.escape(name.removeprefix("persistent://")),
        "--as",
        "public/again/{topic}",
        "--dump",
        str(dump),
    )
    refused = command(lost.live.s3.endpoint, "run", *new.arguments(*wanted, "--yes"), codes=(1,))
    assert "ids are taken" in refused["topics"][0]["why"]
    command(lost.live.s3.endpoint, "run", *new.arguments(*wanted, "--yes", "--new-ids"))
    again = f"persistent://public/again/{name.rpartition('/')[2]}"
    found = in_the_same_words(new.java.read([again]))
    assert [row["value"] for row in found[again]] == [row["value"] for row in lost.truth[name]]
    command(lost.live.s3.endpoint, "check", *new.arguments(*wanted, "--new-ids"))


def test_producers_append(lost: Lost, new: New, restored: dict[str, Any], dump: Path) -> None:
    name = next(
        one
        for one in sorted(lost.truth)
        if one.startswith(f"persistent://{NAMESPACE}/") and "partition" not in one and lost.truth[one]
    )
    with connected(new.cluster.service_url) as client:
        producer = client.create_producer(SUBSCRIBED, batching_enabled=False)
        last = producer.send(b"%08d" % MESSAGES)
        producer.close()
    assert last.ledger_id() >= 2**32
    found = command(
        lost.live.s3.endpoint, "check",
        *new.arguments("--dump", str(dump), "--topics", re.escape(SUBSCRIBED.removeprefix("persistent://"))),
    )  # fmt: skip
    assert found["topics"][0]["compared"]["appended"] == 1
    assert name


def test_credentials_are_not_in_the_report(lost: Lost, restored: dict[str, Any]) -> None:
    text = (lost.folder / "report.html").read_text() + json.dumps(restored)
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in text
