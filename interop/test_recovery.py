"""A cluster was lost while producers wrote: new ones serve its topics as Java read them before, from bucket and dump, and disks."""

import base64
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pulsar
import pytest

from interop.cluster import Cluster
from interop.comparison import differences, in_the_same_words
from interop.java_client import JavaClient, Lines
from interop.keys import KeyPair
from interop.live_producer import connected
from interop.lost_cluster import (
    ACKNOWLEDGED,
    BATCHES,
    EVENTS,
    MESSAGES,
    SEED,
    SUBSCRIBED,
    TERMINATED,
    TRANSACTIONS,
    TYPED,
    Lost,
    delivered_of,
    lent_lost_cluster,
)
from interop.processes import LEASH, Processes
from interop.recover_command import LEDGERFS, into, wait_until_unlocked
from interop.s3_server import BUCKET, CREDENTIALS
from interop.stages import stage
from ledgerfs_cluster.snapshot.kept_dumps import dumps_store, kept_bytes, kept_dumps


@dataclass(frozen=True)
class New:
    """The new cluster."""

    cluster: Cluster
    java: JavaClient

    @property
    def into(self) -> tuple[str, ...]:
        """The arguments that name it."""
        return into(self.cluster)


class WithoutDisks(NamedTuple):
    """The ledgers of the bucket, what a run said that had no disks, and what Java read of the topics then."""

    offloaded: set[int]
    report: dict[str, Any]
    found: Lines


@pytest.fixture(scope="module")
def lost(folder: Path, classes: Path, keys: KeyPair) -> Iterator[Lost]:
    """What is left."""
    with lent_lost_cluster(folder, classes, keys) as made:
        yield made


@pytest.fixture(scope="module")
def without_disks(lost: Lost, folder: Path, classes: Path, keys: KeyPair) -> WithoutDisks:
    """What a new cluster served that was recovered from bucket and dump alone, and is gone again."""
    offloaded = {int(one.rpartition("-")[2]) for one in lost.live.s3.names() if re.search(r"-ledger-\d+$", one)}
    with _lent_new(lost, folder / "without-disks", classes, keys) as new:
        with stage("recovery: run"):
            report = lost.recover("run", *new.into, "--yes")
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
    store = dumps_store(f"s3://{BUCKET}", lost.live.s3.options)
    file.write_bytes(kept_bytes(store, kept_dumps(store)[-1]))
    return file


@pytest.fixture(scope="module")
def restored(lost: Lost, new: New, dump: Path) -> dict[str, Any]:
    """What a run says that was killed some times before."""
    chance = random.Random(SEED)
    with stage("recovery: copy from disks"):
        line = [*LEASH, *LEDGERFS, "offload", *lost.disks, f"s3://{BUCKET}", "--metadata", str(dump)]
        options = ("-o", "open_end=recovered", "-O", f"endpoint_url={lost.live.s3.endpoint}")
        done = subprocess.run(
            [*line, *options], capture_output=True, text=True, timeout=300, check=False, env=os.environ | CREDENTIALS
        )
        # 1 where the list has a ledger of which no disk has an entry.
        assert done.returncode in {0, 1}, done.stderr
    with stage("recovery: killed runs"):
        for _ in range(2):
            # Long enough to be anywhere: making namespaces, or topics.
            process = subprocess.Popen(
                lost.recover.line("run", *new.into, "--yes"),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            time.sleep(chance.uniform(1, 3))
            assert process.poll() is None, "it has ended"
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            wait_until_unlocked(new.cluster)
    with stage("recovery: run"):
        found: dict[str, Any] = lost.recover("run", *new.into, "--yes")
    return found


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


def test_a_plan_reports_what_is_missing_without_disks_and_writes_nothing(lost: Lost, new: New) -> None:
    before = set(new.cluster.admin.call("GET", "v2/tenants"))
    plan = lost.recover("plan", *new.into)
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


def test_the_check_reads_all_of_it(lost: Lost, new: New, restored: dict[str, Any]) -> None:
    with stage("recovery: check"):
        found = lost.recover("check", *new.into)
    compared = {one["topic"]: one["compared"] for one in found["topics"] if one["compared"] is not None}
    assert lost.truth.keys() <= compared.keys()
    assert all(one["same"] == one["expected"] for one in compared.values())
    assert sum(one["expected"] for one in compared.values()) > 500


@pytest.mark.parametrize("topic", [SUBSCRIBED, BATCHES])
def test_a_subscription_goes_on_where_it_was(lost: Lost, new: New, restored: dict[str, Any], topic: str) -> None:
    assert len({row["entry_id"] for row in lost.truth[topic]}) == (MESSAGES if topic == SUBSCRIBED else MESSAGES // 8)
    wanted = [number for number in range(MESSAGES) if number not in ACKNOWLEDGED]
    with connected(new.cluster.service_url) as client:
        found = delivered_of(client, topic)
    assert found == lost.delivered[topic]
    # A broker that loads a topic delivers batches as a whole again that were acknowledged in part.
    assert found == wanted if topic == SUBSCRIBED else set(wanted) < set(found) <= set(range(8, MESSAGES))


def test_under_another_name_beside_the_topic(lost: Lost, new: New, restored: dict[str, Any], dump: Path) -> None:
    """What is asked for by name, of ledgers whose ids are taken; and without, it is refused."""
    name = next(one for one in sorted(lost.truth) if re.fullmatch(r".*/txn", one))
    chosen = ("--topics", re.escape(name.removeprefix("persistent://")), "--dump", str(dump))
    wanted = (*chosen, "--as", "public/again/{topic}")
    refused = lost.recover("run", *new.into, *wanted, "--yes", code=1)
    assert "ids are already used" in refused["topics"][0]["why"]
    lost.recover("run", *new.into, *wanted, "--yes", "--new-ids")
    again = f"persistent://public/again/{name.rpartition('/')[2]}"
    rows = in_the_same_words(new.java.read([again]))[again]
    assert [row["value"] for row in rows] == [row["value"] for row in lost.truth[name]]
    found = lost.recover("check", *new.into, *chosen[:2])
    assert [one["target"] for one in found["topics"]] == [again, name]


def test_producers_append(lost: Lost, new: New, restored: dict[str, Any]) -> None:
    with connected(new.cluster.service_url) as client:
        producer = client.create_producer(SUBSCRIBED, batching_enabled=False)
        last = producer.send(b"%08d" % MESSAGES)
        producer.close()
    assert 2**32 <= last.ledger_id() < 2**33
    found = lost.recover("check", *new.into, "--topics", re.escape(SUBSCRIBED.removeprefix("persistent://")))
    assert found["topics"][0]["compared"]["appended"] == 1


def test_a_topic_that_was_terminated_is_reported_and_can_be_terminated_again(
    lost: Lost, new: New, restored: dict[str, Any]
) -> None:
    reported = next(one["remarks"] for one in restored["topics"] if one["topic"] == TERMINATED)
    assert any(f"pulsar-admin topics terminate {TERMINATED}" in one for one in reported)
    with connected(new.cluster.service_url) as client:
        producer = client.create_producer(TERMINATED)
        producer.send(b"the last one")
        new.cluster.admin.terminate(TERMINATED)
        producer.close()
        new.cluster.admin.unload(TERMINATED)
        with pytest.raises(pulsar.TopicTerminated):
            client.create_producer(TERMINATED).send(b"more")
    found = in_the_same_words(new.java.read([TERMINATED]))[TERMINATED]
    assert [row["value"] for row in found[:-1]] == [row["value"] for row in lost.truth[TERMINATED]]
    assert base64.b64decode(found[-1]["value"]) == b"the last one"


def test_credentials_are_not_in_the_report(restored: dict[str, Any]) -> None:
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in json.dumps(restored)
