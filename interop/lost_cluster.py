"""A cluster that is lost while producers write, transactions run and dumps are kept: all of it is killed at once, at some moment.

Some topics were offloaded as a whole, some in part, some never. What remains is the bucket with dumps in it, and the bookies' disks.
"""

import contextlib
import os
import random
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pulsar
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String

from interop import workload
from interop.comparison import in_the_same_words
from interop.filling import fill, subscribe
from interop.java_client import JavaClient, Lines
from interop.keys import KeyPair
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import connected, produce_to
from interop.processes import LEASH
from interop.recover_command import LEDGERFS, RecoverCommand
from interop.s3_server import BUCKET
from interop.stages import stage
from interop.waiting import wait_until

NAMESPACE = workload.NAMESPACE
# Names of Pulsar 1 are restored under others alone.
OTHER_NAMESPACE = "public/others"
TYPED = tuple(f"persistent://{NAMESPACE}/typed-{name}" for name in ("evolved", "deleted"))
EVENTS = f"persistent://{NAMESPACE}/events"
SUBSCRIBED = f"persistent://{NAMESPACE}/subscribed"
TRANSACTIONS = f"persistent://{NAMESPACE}/transactions-under-way"
BATCHES = f"persistent://{NAMESPACE}/subscribed-in-batches"
TERMINATED = f"persistent://{NAMESPACE}/terminated"
MESSAGES, ACKNOWLEDGED = 40, (*range(10), 12, 15, 16)


class Visit(Record):  # type: ignore[misc]
    """A value as it was at first."""

    who = String()
    count = Integer()


VisitSince: Any = type("Visit", (Record,), {"who": String(), "count": Integer(), "note": String(required_default=True)})
"""The same with a field more, under the same name."""

SEED = int(os.environ.get("LEDGERFS_KILL_SEED", "11"))
_DUMP_EVERY_S = int(os.environ.get("LEDGERFS_DUMP_EVERY_S", "5"))


class Ended(NamedTuple):
    """A transaction that somebody was told the end of: when, ms since 1970, and how many messages it has."""

    time_ms: int
    fate: str
    number: int
    messages: int

    @classmethod
    def reported(cls, log: Path) -> "list[Ended]":
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
    def recover(self) -> RecoverCommand:
        """The command about it."""
        return RecoverCommand(self.live.s3)

    @property
    def disks(self) -> list[str]:
        """The folders of its bookies' disks."""
        return [str(self.live.cluster.folder / f"bookie{number}") for number in range(3)]


@contextmanager
def lent_lost_cluster(folder: Path, classes: Path, keys: KeyPair) -> Iterator[Lost]:
    """Fill a cluster, lose it, and lend what is left of it: its bucket stays."""
    chance = random.Random(SEED)
    with lent_live_cluster(folder / "lost") as live:
        java = JavaClient(live.cluster, classes, keys)
        workload.prepare(live.cluster, OTHER_NAMESPACE)
        live.cluster.admin.set_retention(NAMESPACE, -1, -1)
        topics: list[str] = []
        for number in range(2):
            with stage("recovery: produce"):
                workload.produce(live.cluster, java, number, OTHER_NAMESPACE)
            topics = workload.topics(live.cluster, OTHER_NAMESPACE)
            # Of the second round a third of the topics is offloaded: of the others only disks have it.
            with stage("recovery: offload"):
                for topic in topics if number == 0 else chance.sample(topics, len(topics) // 3):
                    live.cluster.admin.offload(topic)
        with connected(live.cluster.service_url) as client:
            delivered = _subscribed(live, client)
            _typed(live, client)
            fill(client, TERMINATED, MESSAGES, 10)
            live.cluster.admin.terminate(TERMINATED)
            with stage("recovery: Pulsar's reader"):
                truth = in_the_same_words(java.read([*topics, SUBSCRIBED, BATCHES, TERMINATED]))
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
        delivered[topic] = delivered_of(client, topic)
        live.cluster.admin.unload(topic)
    return delivered


def delivered_of(client: pulsar.Client, topic: str) -> list[int]:
    """Return the messages that the subscription of a topic delivers, none of which is acknowledged."""
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
    chance = random.Random(SEED)
    processes = live.cluster.processes
    producer = produce_to(client, EVENTS, 300)
    target = ("--to", f"s3://{BUCKET}", "-O", f"endpoint_url={live.s3.endpoint}")
    # On a leash, too, so that a dump under way ends with the loop.
    dump = shlex.join([*LEASH, *LEDGERFS, "cluster", "dump", f"pulsar+zk://{live.cluster.zookeeper}", *target])
    processes.launch("dumps", ["sh", "-c", f"while true; do {dump}; sleep {_DUMP_EVERY_S}; done"], {})
    processes.launch("transactions", java.command("Transactions", TRANSACTIONS, str(SEED)), {})
    kept = live.s3.folder / BUCKET / "_ledgerfs" / "dumps"
    acknowledged = []
    with stage("recovery: dumps while producers write"):
        wait_until(lambda: "committed" in processes.log("transactions").read_text(), "a transaction has ended")
        wait_until(lambda: any(kept.rglob("*.json.zst")), "there is a dump")
        dumps = len(list(kept.rglob("*.json.zst")))
        end = time.monotonic() + chance.uniform(1, 3) * _DUMP_EVERY_S
        # One dump may be under way; the next one has what is acknowledged by now.
        while time.monotonic() < end or len(list(kept.rglob("*.json.zst"))) < dumps + 2:
            producer.send(20)
            acknowledged.append((time.time_ns() // 1_000_000, producer.acknowledged))
            time.sleep(0.1)
    with stage("recovery: kill all"):
        for name in ("bookie0", "broker", "bookie1", "dumps", "zookeeper", "bookie2", "transactions"):
            processes.kill(name)
    return Lost(live, *read, acknowledged, Ended.reported(processes.log("transactions")), folder)
