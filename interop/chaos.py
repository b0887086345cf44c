"""A cluster in which all that can fail does, at random times, while its topics are offloaded, trimmed and deleted by the lifecycle.

Producers send, subscriptions acknowledge, and ledgers roll over. Meanwhile the broker is killed and stopped, bookies are killed, the
service is killed and stopped, the store goes away or answers late, and topics are unloaded. What happens is drawn from a seed, so a run can
be had again, as far as time lets it. For an hour of it: ``python -m interop.chaos --minutes 60 --seed 7``.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pulsar
from kazoo.client import KazooClient

from interop import machine
from interop.admin import AdminError
from interop.chaos_watch import HeldLock, Watcher, lock_of, records_now
from interop.java_client import JavaClient, JavaClientError, Lines
from interop.keys import make_key_pair
from interop.lasting_producer import LastingProducer
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import connected, going_on
from interop.processes import ServerFailedError
from interop.s3_server import BUCKET, CREDENTIALS
from interop.service_steps import Step, steps_now, uncleaned_attempts
from interop.waiting import wait_until
from ledgerfs_cluster.offload.journal import AGAIN_MS
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH

KEPT, PASSING, BRIEF = "public/chaos-kept", "public/chaos-passing", "public/chaos-brief"
"""Namespaces that keep all, nothing that is acknowledged, and that for a minute, which only long runs have."""
LAG_S, GRACE_S, RETENTION_S, ORPHAN_GRACE_S = 3, 2, 60, 10
LONG_S = 180
"""A run that is longer is told of at the end by more: a minute is over in it, and all steps are met."""
_SERVICES = ("lifecycle", "lifecycle-second")
_STEP_S = 5.0
_TRIES = 5
_LOCKED_OUT = 3
"""The exit code of a service that has not, or has no longer, the lock."""
_OVER = "the session with ZooKeeper has ended"
"""What one says that has lost it, of whichever node it was about to change."""
LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))
BROKER = {
    "managedLedgerMaxEntriesPerLedger": 60,
    "managedLedgerDefaultMarkDeleteRateLimit": 1000,
    "managedLedgerOffloadDeletionLagMs": LAG_S * 1000,
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
    kills
        The steps that the service was at, for each time that it was killed.
    refused, taken_over
        How often a second service was kept out by the first one, and how often it went on for one that was stopped for too long.

    """

    live: LiveCluster
    folder: Path
    seed: int
    done: list[tuple[float, str]] = field(default_factory=list)
    kills: list[set[Step]] = field(default_factory=list)
    refused: int = 0
    taken_over: int = 0
    _began: float = field(default_factory=time.monotonic)
    _service: str = _SERVICES[0]

    def run(self, seconds: float) -> None:
        """Do things until the time is over; then all servers are up, and the service is, too."""
        chance = random.Random(self.seed)
        acts: list[tuple[int, Callable[[random.Random], None]]] = [
            (4, self._kill_service),
            (2, self._kill_service_without_broker),
            (2, self._pause_service),
            (1, self._start_second_service),
            (3, self._kill_broker),
            (2, self._pause_broker),
            (2, self._kill_bookie),
            (2, self._lose_store),
            (2, self._pause_store),
            (4, self._unload),
        ]
        self.start_service()
        # What no run is to be without.
        time.sleep(3)
        self._start_second_service(chance)
        self._kill_service_without_broker(chance)
        until = time.monotonic() + seconds - (time.monotonic() - self._began)
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.5, 4))
            (act,) = chance.choices([one for _, one in acts], [weight for weight, _ in acts])
            act(chance)
            self.restart_what_ended()

    def start_service(self) -> None:
        """Start the service."""
        self._note("start the service")
        self._launch(self._service)

    def stop_service(self) -> None:
        """Have the service end, as systemd does."""
        self.live.cluster.processes.stop(self._service)

    def _launch(self, name: str) -> None:
        command = [LEDGERFS, "lifecycle", "run", str(self.policy()), "--yes", "--pass-seconds", "0.5"]
        self.live.cluster.processes.launch(name, command, CREDENTIALS)

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
        """Kill the service at a step, if it comes to that one soon."""
        self._kill_service_at(chance.choice(list(Step)), _STEP_S)
        time.sleep(chance.uniform(0, 1))
        self.start_service()

    def _kill_service_without_broker(self, chance: random.Random) -> None:
        """Kill the service while it copies and deletes ledgers itself, having no broker that would."""
        self._note("kill the broker")
        self.live.cluster.processes.kill("broker")
        # The broker's session ends, copies are made, their lag and their grace go by.
        self._kill_service_at(chance.choice(list(Step)), 20)
        self.start_service()
        self._start_broker()

    def _kill_service_at(self, wanted: Step, seconds: float) -> None:
        with self.live.unrecorded() as nodes:
            since_ms = self._wait_until_it_works(nodes).since_ms
            until = time.monotonic() + seconds
            while wanted not in steps_now(nodes, self.live.s3, since_ms) and time.monotonic() < until:
                time.sleep(0.01)
            self.live.cluster.processes.kill(self._service)
            # What is left is what it was at.
            self.kills.append(steps_now(nodes, self.live.s3, since_ms))
        self._note(f"kill the service: {', '.join(sorted(one.value for one in self.kills[-1])) or 'at nothing'}")

    def _wait_until_it_works(self, nodes: KazooClient) -> HeldLock:
        """Return the lock once the service has it: one that waits for the session of the one before is at no step."""
        until = time.monotonic() + 60
        while True:
            held = lock_of(nodes)
            if held is not None and held.pid == self.live.cluster.processes.pid(self._service):
                return held
            assert time.monotonic() < until, f"no service has got the lock in a minute: {held}"
            if not self.live.cluster.processes.is_running(self._service):
                self.start_service()
            time.sleep(0.1)

    def _pause_service(self, chance: random.Random) -> None:
        """Stop the service, perhaps for longer than its session lives, while another one begins."""
        seconds = chance.choice([1, 3, 18])
        with self.live.unrecorded() as nodes:
            self._wait_until_it_works(nodes)
            self._note(f"stop the service for {seconds} s, and start a second one")
            with self.live.cluster.processes.paused(self._service):
                until = time.monotonic() + seconds
                second = self._begin_second()
                while time.monotonic() < until:
                    if not self.live.cluster.processes.is_running(second):
                        self._begin_second()
                    time.sleep(0.2)
        self._see_one_end(second)

    def _start_second_service(self, _: random.Random) -> None:
        """Start another service while the first one lives."""
        self._note("start a second service")
        self._see_one_end(self._begin_second())

    def _begin_second(self) -> str:
        (second,) = set(_SERVICES) - {self._service}
        self._launch(second)
        return second

    def _see_one_end(self, second: str) -> None:
        """Wait until one of two services has ended, and raise unless it is the one that has not got the lock, and says so."""
        processes = self.live.cluster.processes
        first = self._service
        names = (first, second)
        wait_until(lambda: not all(map(processes.is_running, names)), f"one of two services ends: {names}", 90)
        ended = second if not processes.is_running(second) else first
        said = _last_word(processes.log(ended).read_text(errors="replace").splitlines())
        code = processes.exit_code(ended)
        has_reported = LOCK_PATH in said or _OVER in said
        assert (code, has_reported) == (_LOCKED_OUT, True), f"{ended} ended with {code}: {said}"
        other = first if ended == second else second
        if not processes.is_running(other):
            # Both came too soon after one that was killed, whose session was not over.
            self._note("both services have ended")
        elif ended == first:
            self._note(f"the first service has ended, and the second one goes on: {said[:120]}")
            self._service = second
            # The first one had the lock, and lost it; otherwise it came too soon itself.
            self.taken_over += "held since" not in said
        else:
            self._note(f"the second service has ended: {said[:120]}")
            self.refused += 1
        self._require_holder()

    def _require_holder(self) -> None:
        """Raise if the lock is held by a process that is none of the services that run."""
        processes = self.live.cluster.processes
        with self.live.unrecorded() as nodes:
            held = lock_of(nodes)
        if held is not None and processes.is_running(self._service):
            pid = processes.pid(self._service)
            # The lock of one that was killed stays as long as its session; then the one that runs ends by itself, or waits.
            assert held.pid == pid or not Path(f"/proc/{held.pid}").exists(), f"{held} has the lock, and {pid} works"

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

    def restart_what_ended(self) -> None:
        """Start the service again if it has lost its lock, and the broker, as systemd does."""
        if not self.live.cluster.processes.is_running("broker"):
            self._note("the broker has ended")
            self._start_broker()
        if not self.live.cluster.processes.is_running(self._service):
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
        [broker]
        deletion_lag = "{LAG_S}s"
        [defaults]
        trash_grace = "{GRACE_S}s"
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
    """


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
        How many of each topic of `PASSING` and `BRIEF` its subscription had acknowledged at least, when all was over.
    early
        What a Java reader has of the topics of `KEPT` before anything is unloaded for it.
    found
        What a Java reader has of each topic when all is over.
    chaos, watcher
        What was done, and what was seen.
    seconds
        How long things happened.

    """

    sent: dict[str, int]
    acknowledged: dict[str, int]
    early: Lines
    found: Lines
    chaos: Chaos
    watcher: Watcher
    seconds: float

    @property
    def is_long(self) -> bool:
        """Whether the run was long enough for what takes minutes."""
        return self.seconds > LONG_S

    @property
    def history(self) -> str:
        """What was done, one line each."""
        return "\n".join(f"{when:7.1f} {what}" for when, what in self.chaos.done)


def play(live: LiveCluster, reader: JavaClient, folder: Path, seed: int, seconds: float) -> Outcome:
    """Have it all happen for so long; then let the service and the broker end what is due, and read all topics."""
    subscribed = topics(PASSING) + (topics(BRIEF) if seconds > LONG_S else [])
    every = topics(KEPT) + subscribed
    _make_namespaces(live, seconds > LONG_S)
    chaos, watcher = Chaos(live, folder, seed), Watcher(live)
    with watcher.watching(every):
        with connected(live.cluster.service_url) as client:
            subscribers = [Subscriber(client, topic) for topic in subscribed]
            with _all(one.going_on() for one in subscribers):
                producers = [LastingProducer(live.cluster.service_url, topic, 500) for topic in every]
                with _all(going_on(one, 5, 0.1) for one in producers):
                    chaos.run(seconds)
                for one in producers:
                    one.close()
                time.sleep(2)
                acknowledged = {one.topic: one.acknowledged for one in subscribers}
            sent = {one.topic: one.acknowledged for one in producers}
            # While all are loaded as they were: what a broker has wrong in its memory is not mended by the unload below.
            early = _read_until_whole(chaos, reader, {topic: sent[topic] for topic in topics(KEPT)}, 60 + seconds / 4)
        # What no broker has listed goes when its topic has none.
        for namespace in {one.removeprefix("persistent://").rpartition("/")[0] for one in every}:
            live.cluster.admin.call("PUT", f"v2/namespaces/{namespace}/unload")
        _let_service_end_its_work(chaos, seconds)
    # Each ledger takes the broker some requests to the store.
    found = reader.read(every, 240 + seconds)
    return Outcome(sent, acknowledged, early, found, chaos, watcher, seconds)


def _make_namespaces(live: LiveCluster, is_long: bool) -> None:
    admin = live.cluster.admin
    retentions = {KEPT: -1, PASSING: 0} | ({BRIEF: RETENTION_S // 60} if is_long else {})
    for namespace, minutes in retentions.items():
        admin.make_namespace(namespace)
        admin.set_retention(namespace, minutes, -1 if minutes else 0)


def _read_until_whole(chaos: Chaos, reader: JavaClient, sent: dict[str, int], seconds: float) -> Lines:
    """Return what a reader has of topics, as soon as it is all of it, or after some time; nothing if the last reader was stuck."""
    until = time.monotonic() + seconds
    while True:
        chaos.restart_what_ended()
        try:
            found = reader.read(list(sent), max(20, until - time.monotonic()))
        except (JavaClientError, subprocess.TimeoutExpired) as error:
            print(f"a reader was stuck: {str(error)[-300:]}", flush=True)
            found = {topic: [] for topic in sent}
        if time.monotonic() > until or all(len(found[topic]) >= count for topic, count in sent.items()):
            return found


def _let_service_end_its_work(chaos: Chaos, seconds: float) -> None:
    """Let the service work until nothing is marked, and no attempt that it may clean up after; then end it."""
    # What is young is no orphan, and the longer all went on, the more there is to look at.
    least = time.monotonic() + ORPHAN_GRACE_S + 10 + seconds / 60
    until = time.monotonic() + 60 + (AGAIN_MS / 1000 + seconds / 10 if seconds > LONG_S else 0)
    with chaos.live.unrecorded() as nodes:
        while time.monotonic() < until:
            chaos.restart_what_ended()
            attempts, uncleaned = uncleaned_attempts(nodes)
            left = attempts if seconds > LONG_S else uncleaned
            if not left and not [one for one in records_now(nodes) if one.is_marked] and time.monotonic() > least:
                break
            time.sleep(1)
    chaos.stop_service()


def _last_word(lines: list[str]) -> str:
    """Return why a service has ended; what it waits for until then, such as a broker's answer, is told behind that."""
    return next((line for line in reversed(lines) if line.startswith("ledgerfs: ")), lines[-1])


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
    reported = asked.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    print(f"seed {reported.seed}, in {folder}", flush=True)
    machine.require_commands()
    from interop.test_chaos import check

    with lent_live_cluster(folder / "cluster", BROKER) as live:
        classes = machine.compiled_clients(folder / "classes")
        reader = JavaClient(live.cluster, classes, make_key_pair(folder / "keys"))
        check(live, play(live, reader, folder, reported.seed, reported.minutes * 60))


if __name__ == "__main__":
    main()
