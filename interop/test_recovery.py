"""A cluster is lost while producers write: a new one serves its topics as Java read them before, from bucket, dump and disks.

Some topics were offloaded as a whole, some in part, some never. All that the lost cluster had is killed at once: bookies, broker,
ZooKeeper. What remains is the bucket with a dump that was kept in it, and the bookies' disks.
"""

import base64
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

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
TRANSACTIONS = f"persistent://{NAMESPACE}/transactions-under-way"
BATCHES = f"persistent://{NAMESPACE}/subscribed-in-batches"
MESSAGES, ACKNOWLEDGED = 40, (*range(10), 12, 15, 16)


class Visit(Record):  # type: ignore[misc]
    """A value as it was at first."""

    who = String()
    count = Integer()


VisitSince: Any = type("Visit", (Record,), {"who": String(), "count": Integer(), "note": String(required_default=True)})
"""The same with a field more, under the same name."""

_LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))
_SEED = int(os.environ.get("LEDGERFS_KILL_SEED", "11"))
_DUMP_EVERY_S = int(os.environ.get("LEDGERFS_DUMP_EVERY_S", "5"))


class Ended(NamedTuple):
    """A transaction that somebody was told the end of: when, ms since 1970, and how many messages it has."""

    time_ms: int
    fate: str
    number: int
    messages: int

    @classmethod
    def told(cls, log: Path) -> "list[Ended]":
        """Return what `Transactions` has printed, line by line."""
        lines = [line.split() for line in log.read_text().splitlines()]
        return [cls(int(line[0]), line[1], int(line[2]), int(line[3])) for line in lines if len(line) == 4]


@dataclass
class Lost:
    """What is left of the lost cluster, and what it had.

    Attributes
    ----------
    truth, typed
        What Java read of each topic that nobody wrote to any more, and what it decoded of those with schemas.
    delivered
        What subscriptions delivered, by topic.
    acknowledged
        How many messages of `EVENTS` were acknowledged at which times, ms since 1970.
    ended
        What became of the transactions that ended, or were left open.

    """

    live: LiveCluster
    truth: Lines
    typed: Lines
    delivered: dict[str, list[int]]
    acknowledged: list[tuple[int, int]]
    ended: list[Ended]
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


class WithoutDisks(NamedTuple):
    """The ledgers of the bucket, what a run said that had no disks, and what Java read of the topics then."""

    offloaded: set[int]
    report: dict[str, Any]
    found: Lines


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
            delivered = _subscribed(live, client)
            _typed(live, client)
            with stage("recovery: Pulsar's reader"):
                truth = in_the_same_words(java.read([*topics, SUBSCRIBED, BATCHES]))
                typed = java.read_typed(TYPED)
            yield _killed(live, client, (truth, typed, delivered), java, folder)


def _subscribed(live: LiveCluster, client: pulsar.Client) -> dict[str, list[int]]:
    """Make topics with a subscription that has acknowledged some messages out of order, of one of them parts of batches.

    Return what it delivers after a restart.
    """
    delivered = {}
    for topic, in_batch in ((SUBSCRIBED, 1), (BATCHES, 8)):
        client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared).close()
        producer = client.create_producer(
            topic,
            batching_enabled=in_batch > 1,
            batching_max_messages=max(2, in_batch),
            batching_max_publish_delay_ms=60_000,
        )
        for number in range(MESSAGES):
            producer.send_async(b"%08d" % number, None)
        producer.flush()
        producer.close()
        subscribe(client, topic, "s", ACKNOWLEDGED)
        live.cluster.admin.unload(topic)
        delivered[topic] = _delivered(client, topic)
        live.cluster.admin.unload(topic)
    return delivered


def _delivered(client: pulsar.Client, topic: str) -> list[int]:
    """Return the messages that the subscription delivers, none of which is acknowledged."""
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, batch_index_ack_enabled=True)
    found = [int(consumer.receive(30_000).data())]
    with contextlib.suppress(pulsar.Timeout):
        while True:
            found.append(int(consumer.receive(2_000).data()))
    consumer.close()
    return found


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
    live: LiveCluster,
    client: pulsar.Client,
    read: tuple[Lines, Lines, dict[str, list[int]]],
    java: JavaClient,
    folder: Path,
) -> Lost:
    """Dump the cluster every few seconds while producers write, transactions among them, and kill all of it at some moment."""
    chance = random.Random(_SEED)
    processes = live.cluster.processes
    producer = produce_to(client, EVENTS, 300)
    target = ("--to", f"s3://{BUCKET}", "-O", f"endpoint_url={live.s3.endpoint}", "--every", f"{_DUMP_EVERY_S}s")
    processes.launch("dumps", [_LEDGERFS, "cluster", "dump", f"pulsar+zk://{live.cluster.zookeeper}", *target], {})
    processes.launch("transactions", java.command("Transactions", TRANSACTIONS, str(_SEED)), {})
    kept = live.s3.folder / BUCKET / "_ledgerfs" / "dumps"
    acknowledged = []
    with stage("recovery: dumps while producers write"):
        wait_until(lambda: "committed" in processes.log("transactions").read_text(), "a transaction has ended")
        wait_until(lambda: any(kept.rglob("*.json.zst")), "there is a dump")
        end = time.monotonic() + chance.uniform(1, 3) * _DUMP_EVERY_S
        while time.monotonic() < end:
            producer.send(20)
            acknowledged.append((time.time_ns() // 1_000_000, producer.acknowledged))
            time.sleep(0.1)
    with stage("recovery: kill all"):
        for name in ("bookie0", "broker", "bookie1", "dumps", "zookeeper", "bookie2", "transactions"):
            processes.kill(name)
    return Lost(live, *read, acknowledged, Ended.told(processes.log("transactions")), folder)


@pytest.fixture(scope="module")
def without_disks(lost: Lost, folder: Path, classes: Path, keys: KeyPair) -> WithoutDisks:
    """What a new cluster served that was recovered from bucket and dump alone, and is gone again."""
    offloaded = {int(one.rpartition("-")[2]) for one in lost.live.s3.names() if re.search(r"-ledger-\d+$", one)}
    with _lent_new(lost, folder / "without-disks", classes, keys) as new:
        with stage("recovery: run"):
            report = command(lost.live.s3.endpoint, "run", *new.arguments("--yes"))
        with stage("recovery: Pulsar's reader"):
            return WithoutDisks(offloaded, report, in_the_same_words(new.java.read([*lost.truth, TRANSACTIONS])))


@pytest.fixture(scope="module")
def new(lost: Lost, without_disks: WithoutDisks, folder: Path, classes: Path, keys: KeyPair) -> Iterator[New]:
    """An empty cluster whose broker has the bucket, in which nothing is yet that only disks have."""
    with _lent_new(lost, folder / "recovered", classes, keys) as made:
        yield made


@contextmanager
def _lent_new(lost: Lost, folder: Path, classes: Path, keys: KeyPair) -> Iterator[New]:
    folder.mkdir()
    processes = Processes(folder)
    cluster = Cluster(folder / "pulsar", processes)
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


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def test_without_disks_what_was_offloaded_is_served_and_what_was_not_is_counted(
    lost: Lost, without_disks: WithoutDisks
) -> None:
    offloaded, report, found = without_disks
    found.pop(TRANSACTIONS)
    expected = {topic: [row for row in rows if row["ledger_id"] in offloaded] for topic, rows in lost.truth.items()}
    assert differences(found, expected) == []
    missing = {one["topic"]: one["missing_entries"] for one in report["topics"]}
    # Of these each entry has messages that are read.
    for topic in (one for one in lost.truth if re.search(r"/(plain|batched-\w+|single-\w+)$", one)):
        left = {(row["ledger_id"], row["entry_id"]) for row in lost.truth[topic] if row["ledger_id"] not in offloaded}
        assert missing[topic] == len(left), topic
    assert sum(missing[topic] > 0 for topic in lost.truth) > len(lost.truth) // 2


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
    known_ms = _ms(restored["known_until"])
    with stage("recovery: Pulsar's reader"):
        found = in_the_same_words(new.java.read([*lost.truth, EVENTS]))
    numbers = [int(base64.b64decode(row["value"])[:8]) for row in found.pop(EVENTS)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= max(count for time_ms, count in lost.acknowledged if time_ms < known_ms)
    assert differences(found, lost.truth) == []
    assert (lost.folder / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_transactions_under_way_are_there_as_a_whole_or_not_at_all(
    lost: Lost, new: New, restored: dict[str, Any]
) -> None:
    rows = new.java.read([TRANSACTIONS])[TRANSACTIONS]
    values = [tuple(map(int, base64.b64decode(row["value"]).split(b" of "))) for row in rows]
    found = Counter(values)
    assert values == sorted(values)
    assert all(count == messages for (_, messages), count in found.items())
    known_ms = _ms(restored["known_until"])
    committed = {(one.number, one.messages) for one in lost.ended if one.fate == "committed"}
    others = {(one.number, one.messages) for one in lost.ended} - committed
    before = {(one.number, one.messages) for one in lost.ended if one.time_ms < known_ms}
    assert before & committed <= found.keys()
    assert len(before & committed) > 5
    assert len(before & others) > 1
    assert others & found.keys() == set()


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


@pytest.mark.parametrize("topic", [SUBSCRIBED, BATCHES])
def test_a_subscription_goes_on_where_it_was(lost: Lost, new: New, restored: dict[str, Any], topic: str) -> None:
    assert len({row["entry_id"] for row in lost.truth[topic]}) == (MESSAGES if topic == SUBSCRIBED else MESSAGES // 8)
    wanted = [number for number in range(MESSAGES) if number not in ACKNOWLEDGED]
    with connected(new.cluster.service_url) as client:
        found = _delivered(client, topic)
    assert found == lost.delivered[topic]
    # A broker that loads a topic delivers batches as a whole again that were acknowledged in part.
    assert found == wanted if topic == SUBSCRIBED else set(wanted) < set(found) <= set(range(8, MESSAGES))


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
