"""A cluster in which all that can fail does, at random times, while its topics are offloaded, trimmed and deleted by the lifecycle.

Producers send, subscriptions acknowledge, and ledgers roll over. Meanwhile the broker is killed and stopped, bookies are killed, the
service is killed and stopped, the store goes away or answers late, and topics are unloaded. What happens is drawn from a seed, so a run can
be had again, as far as time lets it. For an hour of it: ``python -m interop.chaos --minutes 60 --seed 7``.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pulsar
from kazoo.exceptions import NoNodeError

from interop import machine
from interop.admin import AdminError
from interop.java_client import JavaClient, Lines
from interop.keys import make_key_pair
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import LiveProducer, connected, going_on, produce_to
from interop.processes import ServerFailedError
from interop.s3_server import BUCKET, CREDENTIALS
from interop.surveys import ledgers_of
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo

KEPT, PASSING = "public/chaos-kept", "public/chaos-passing"
SERVICE = "lifecycle"
_TRIES = 5
LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))
BROKER = {
    "managedLedgerMaxEntriesPerLedger": 60,
    "managedLedgerDefaultMarkDeleteRateLimit": 1000,
    "managedLedgerOffloadDeletionLagMs": 1000,
    "retentionCheckIntervalInSeconds": 5,
    "transactionCoordinatorEnabled": "false",
    # What a client sends again after a broker was killed is stored once.
    "brokerDeduplicationEnabled": "true",
    "brokerDeduplicationEntriesInterval": 20,
}


@dataclass
class Chaos:
    """What goes on.

    Attributes
    ----------
    done
        What was done to the cluster, in order, with seconds since the beginning.

    """

    live: LiveCluster
    folder: Path
    seed: int
    done: list[tuple[float, str]] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _is_broker_up: bool = True

    def run(self, seconds: float) -> None:
        """Do things until the time is over; then all servers are up, and the service is not."""
        chance = random.Random(self.seed)
        acts: list[tuple[int, Callable[[random.Random], None]]] = [
            (4, self._kill_service),
            (2, self._pause_service),
            (3, self._kill_broker),
            (2, self._pause_broker),
            (2, self._kill_bookie),
            (2, self._lose_store),
            (2, self._pause_store),
            (4, self._unload),
        ]
        self.start_service()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.5, 4))
            (act,) = chance.choices([one for _, one in acts], [weight for weight, _ in acts])
            act(chance)
            self._restart_what_ended()
        self.live.cluster.processes.stop(SERVICE)

    def start_service(self) -> None:
        """Start the service."""
        self._note("start the service")
        command = [LEDGERFS, "lifecycle", "run", str(self.policy()), "--yes", "--pass-seconds", "0.5"]
        self.live.cluster.processes.launch(SERVICE, command, CREDENTIALS)

    def policy(self) -> Path:
        """Return the policy file, which is written if it is not there."""
        path = self.folder / "chaos.toml"
        if not path.exists():
            path.write_text(_policy(self.live))
        return path

    def _note(self, what: str) -> None:
        self.done.append((round(time.monotonic() - self._began, 1), what))
        print(*self.done[-1], flush=True)

    # What happens.

    def _kill_service(self, chance: random.Random) -> None:
        self._note("kill the service")
        self.live.cluster.processes.kill(SERVICE)
        time.sleep(chance.uniform(0, 1))
        self.start_service()

    def _pause_service(self, chance: random.Random) -> None:
        """Stop the service, perhaps for longer than its session lives, while another one begins."""
        seconds = chance.choice([1, 3, 14])
        self._note(f"stop the service for {seconds} s")
        with self.live.cluster.processes.paused(SERVICE):
            time.sleep(seconds)

    def _kill_broker(self, chance: random.Random) -> None:
        seconds = chance.choice([0.5, 2, 8, 12])
        self._note(f"kill the broker for {seconds} s")
        self.live.cluster.processes.kill("broker")
        time.sleep(seconds)
        self._start_broker()

    def _start_broker(self) -> None:
        """Start the broker, again if it ends, as systemd does: one that begins while ZooKeeper forgets the one before shuts itself down."""
        for left in reversed(range(_TRIES)):
            try:
                self.live.cluster.start_broker(self.live.s3)
            except (ServerFailedError, AdminError) as error:
                if not left:
                    raise
                self._note(f"the broker did not start: {str(error)[:80]!r}")
                self.live.cluster.processes.stop("broker")
            else:
                self._note("the broker is up")
                return

    def _pause_broker(self, chance: random.Random) -> None:
        """Stop the broker, perhaps for longer than its session lives: its topics look free, and it has their lists in memory."""
        seconds = chance.choice([2, 6, 9])
        self._note(f"stop the broker for {seconds} s")
        with self.live.cluster.processes.paused("broker"):
            time.sleep(seconds)

    def _kill_bookie(self, chance: random.Random) -> None:
        number = chance.randrange(len(self.live.bookies))
        self._note(f"kill bookie {number}")
        self.live.kill_bookie(number)
        time.sleep(chance.uniform(0, 3))
        self.live.start_bookie(number)

    def _lose_store(self, chance: random.Random) -> None:
        self._note("the store is away")
        self.live.s3.stop()
        time.sleep(chance.uniform(0.5, 4))
        self.live.s3.start()

    def _pause_store(self, chance: random.Random) -> None:
        """Have the store take what is sent, and answer late."""
        self._note("the store does not answer")
        with self.live.cluster.processes.paused(self.live.s3.name):
            time.sleep(chance.uniform(1, 6))

    def _unload(self, chance: random.Random) -> None:
        topic = chance.choice(topics(KEPT) + topics(PASSING))
        self._note(f"unload {topic}")
        with suppress(AdminError, OSError):
            self.live.cluster.admin.unload(topic)

    def _restart_what_ended(self) -> None:
        """Start the service again if it has lost its lock, and the broker, as systemd does."""
        if not self.live.cluster.processes.is_running("broker"):
            self._note("the broker has ended")
            self._start_broker()
        if not self.live.cluster.processes.is_running(SERVICE):
            self._note("the service has ended")
            self.start_service()


def topics(namespace: str) -> list[str]:
    """Return the topics of a namespace."""
    return [f"persistent://{namespace}/{number}" for number in range(3)]


def _policy(live: LiveCluster) -> str:
    return f"""
        cluster = "pulsar+zk://{live.cluster.zookeeper}"
        admin = "{live.cluster.admin.address}"
        [service]
        every = "1s"
        [defaults]
        trash_grace = "1s"
        via = "auto"
        orphans = true
        orphan_grace = "{ORPHAN_GRACE_S}s"
        [buckets.tier]
        url = "s3://{BUCKET}"
        bucket = "{BUCKET}"
        region = "us-east-1"
        endpoint = "{live.s3.endpoint}"
        block_size = "5MiB"
        [[topics]]
        match = "public/chaos-.*"
        bucket = "tier"
        offload_after = "1s"
        deletion_lag = "1s"
    """


ORPHAN_GRACE_S = 10


@dataclass
class Watcher:
    """Notes which ledgers a topic listed, as they were when they were seen last, and when they were missed first, ms since 1970 UTC."""

    live: LiveCluster
    seen: dict[str, dict[int, LedgerInfo]] = field(default_factory=dict)
    gone_ms: dict[str, dict[int, int]] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watching(self, names: list[str]) -> Iterator[None]:
        """Watch until the end of the ``with``."""
        thread = threading.Thread(target=self._watch, args=(names,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _watch(self, names: list[str]) -> None:
        with self.live.unrecorded() as nodes:
            while not self._ending.wait(0.3):
                for topic in names:
                    with suppress(NoNodeError):
                        self._look(topic, {one.ledger_id: one for one in ledgers_of(nodes, topic)})

    def _look(self, topic: str, now: dict[int, LedgerInfo]) -> None:
        seen = self.seen.setdefault(topic, {})
        gone = self.gone_ms.setdefault(topic, {})
        for ledger_id in seen.keys() - now.keys() - gone.keys():
            gone[ledger_id] = time.time_ns() // 1_000_000
        seen.update(now)


@dataclass
class Subscriber:
    """Acknowledges all but the newest messages of a topic, through whatever happens to its broker."""

    client: pulsar.Client
    topic: str
    acknowledged: int = 0
    _ending: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def going_on(self) -> Iterator["Subscriber"]:
        """Receive until the end of the ``with``."""
        consumer = self.client.subscribe(self.topic, "s", initial_position=pulsar.InitialPosition.Earliest)
        thread = threading.Thread(target=self._receive, args=(consumer,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ending.set()
            thread.join()
            consumer.close()

    def _receive(self, consumer: pulsar.Consumer) -> None:
        while not self._ending.is_set():
            try:
                message = consumer.receive(500)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            self.acknowledged = max(self.acknowledged, int(message.data()[:8]) + 1)


@dataclass(frozen=True)
class Outcome:
    """What a run left.

    Attributes
    ----------
    sent
        How many messages of each topic were acknowledged to their producer.
    acknowledged
        How many of each topic in `PASSING` its subscription had acknowledged at least, when all was over.
    found
        What a Java reader then has of each topic.

    """

    sent: dict[str, int]
    acknowledged: dict[str, int]
    found: Lines
    watcher: Watcher
    done: list[tuple[float, str]]


def play(live: LiveCluster, reader: JavaClient, folder: Path, seed: int, seconds: float) -> Outcome:
    """Have it all happen for so long; then let the service and the broker end what is due, and read all topics."""
    admin = live.cluster.admin
    for namespace in (KEPT, PASSING):
        admin.make_namespace(namespace)
    admin.set_retention(KEPT, -1, -1)
    admin.set_retention(PASSING, 0, 0)
    every = topics(KEPT) + topics(PASSING)
    chaos, watcher = Chaos(live, folder, seed), Watcher(live)
    with connected(live.cluster.service_url) as client:
        subscribers = [Subscriber(client, topic) for topic in topics(PASSING)]
        with _all(one.going_on() for one in subscribers):
            producers = [produce_to(client, topic, 500) for topic in every]
            with watcher.watching(every):
                with _all(going_on(one, 5, 0.1) for one in producers):
                    chaos.run(seconds)
                _wait_for_acknowledgements(producers)
                time.sleep(2)
                acknowledged = {one.topic: one.acknowledged for one in subscribers}
    # What no broker has listed goes when its topic has none.
    for namespace in (KEPT, PASSING):
        admin.call("PUT", f"v2/namespaces/{namespace}/unload")
    chaos.start_service()
    # The longer all went on, the more there is to look at.
    time.sleep(ORPHAN_GRACE_S + 12 + seconds / 20)
    live.cluster.processes.stop(SERVICE)
    # Each ledger takes the broker some requests to the store.
    found = reader.read(every, 240 + seconds)
    return Outcome({one.topic: one.acknowledged for one in producers}, acknowledged, found, watcher, chaos.done)


def _wait_for_acknowledgements(producers: list[LiveProducer]) -> None:
    for one in producers:
        one.wait(one.sent, 120)


@contextmanager
def _all(many: Iterator[object]) -> Iterator[None]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        for one in many:
            stack.enter_context(one)  # type: ignore[arg-type]
        yield


def main() -> None:
    """Play it from the command line."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--minutes", type=float, default=60)
    asked.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    told = asked.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    print(f"seed {told.seed}, in {folder}", flush=True)
    machine.require_commands()
    from interop.test_chaos import check

    with lent_live_cluster(folder / "cluster", BROKER) as live:
        classes = machine.compiled_clients(folder / "classes")
        reader = JavaClient(live.cluster, classes, make_key_pair(folder / "keys"))
        outcome = play(live, reader, folder, told.seed, told.minutes * 60)
        check(live, outcome)
        print({topic: (outcome.sent[topic], len(outcome.found[topic])) for topic in outcome.sent})


if __name__ == "__main__":
    main()
