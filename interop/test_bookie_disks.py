"""Three bookies that are killed while producers write: their disks have all that was acknowledged, as Java read it, and so have any two.

Entries are striped over all bookies, two copies of each. What ledgerfs offloads from the disks is served by the broker of another cluster.
"""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop import workload
from interop.cluster import Cluster
from interop.comparison import differences, in_the_same_words
from interop.java_client import JavaClient, Lines
from interop.keys import KEY_NAME, KeyPair
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import connected, produce_to
from interop.managed_ledgers import introduce
from interop.processes import LEASH, Processes
from interop.s3_server import BUCKET, S3Server
from interop.stages import stage
from interop.waiting import wait_until
from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from tests.support.golden_rows import rows_of

EVENTS, TXN = (f"persistent://{workload.NAMESPACE}/{name}" for name in ("events", "txn"))
BOOKIES = (0, 1, 2)
_LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    with lent_live_cluster(folder / "disks") as made:
        yield made


@pytest.fixture(scope="module")
def java(live: LiveCluster, classes: Path, keys: KeyPair) -> JavaClient:
    return JavaClient(live.cluster, classes, keys)


@pytest.fixture(scope="module")
def truth(live: LiveCluster, java: JavaClient) -> Lines:
    """What Pulsar's reader returned of all topics but that of the producer who never stopped; then all bookies were killed at once."""
    workload.prepare(live.cluster)
    with stage("disks: produce"):
        for number in range(2):
            workload.produce(live.cluster, java, number)
    topics = workload.topics(live.cluster)
    with stage("disks: Pulsar's reader"):
        found = in_the_same_words(java.read(topics))
    with connected(live.cluster.service_url) as client:
        producer = produce_to(client, EVENTS, 300)
        with stage("disks: kill all bookies"):
            producer.send(1900)
            producer.wait(950)
            for number in BOOKIES:
                live.kill_bookie(number)
            acknowledged = producer.acknowledged
            live.kill_broker()
    with live.unrecorded() as nodes:
        wait_until(lambda: nodes.get_children("/ledgers/available") == ["readonly"], "ZooKeeper knows of no bookie")
    assert acknowledged >= 950
    return {**found, EVENTS: [{"acknowledged": acknowledged}]}


def disk_of(live: LiveCluster, number: int) -> Path:
    """Return the folder with a bookie's journal and ledgers."""
    return live.cluster.folder / f"bookie{number}"


def opened(live: LiveCluster, numbers: tuple[int, ...], open_end: str = "recovered") -> Bucket:
    paths = ",".join(str(disk_of(live, number)) for number in numbers)
    return open_bucket(
        f"bookies://{paths}", {"metadata": f"pulsar+zk://{live.cluster.zookeeper}", "open_end": open_end}
    )


def read(bucket: Bucket, topics: list[str], keys: KeyPair) -> Lines:
    private = {KEY_NAME: keys.private}
    return {topic: rows_of(bucket.topic(topic).scan(private_keys=private)) for topic in topics}


def require_events(rows: list[dict[str, Any]], acknowledged: int) -> None:
    """See to it that the producer's messages are there from the first on, at least as far as they were acknowledged."""
    numbers = [int(base64.b64decode(row["value"])[:8]) for row in rows]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= acknowledged


def command(live: LiveCluster, name: str, *arguments: str) -> str:
    """Run a command with the metadata of the dead cluster's ZooKeeper; return what it says."""
    metadata = ("--metadata", f"pulsar+zk://{live.cluster.zookeeper}", "-o", "open_end=recovered")
    command = [*LEASH, _LEDGERFS, name, *arguments, *metadata]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{name}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("given", [(0, 1, 2), (1, 2), (0, 2), (0, 1)], ids=str)
def test_the_disks_have_what_java_read(given: tuple[int, ...], live: LiveCluster, truth: Lines, keys: KeyPair) -> None:
    with stage("disks: read"):
        bucket = opened(live, given)
        topics = [topic for topic in truth if topic != EVENTS]
        found = read(bucket, [*topics, EVENTS], keys)
    require_events(found.pop(EVENTS), truth[EVENTS][0]["acknowledged"])
    assert differences(found, {topic: truth[topic] for topic in topics}) == []


def test_nothing_is_wrong_with_the_disks(live: LiveCluster, truth: Lines) -> None:
    del truth
    with stage("disks: verify"):
        report = json.loads(command(live, "verify", "--json", *map(str, (disk_of(live, number) for number in BOOKIES))))
    assert report["complete"]
    assert not report["damaged"], report["findings"][:5]
    assert report["entries"] > 2000


def test_a_new_broker_serves_what_was_offloaded_from_two_of_the_disks(
    live: LiveCluster, truth: Lines, classes: Path, keys: KeyPair, folder: Path
) -> None:
    processes = Processes(folder / "disks-new")
    (folder / "disks-new").mkdir()
    s3 = S3Server("s3", folder / "disks-new" / "s3", processes).start()
    try:
        options = [text for key, value in s3.options.items() for text in ("-O", f"{key}={value}")]
        with stage("disks: offload"):
            command(live, "offload", str(disk_of(live, 0)), str(disk_of(live, 2)), f"s3://{BUCKET}", *options)
        bucket = open_bucket(f"s3://{BUCKET}", storage_options=s3.options)
        topics = [topic for topic in truth if bucket.topic(topic).ledgers]
        assert {topic for topic in truth if truth[topic]} == set(topics)
        new = Cluster(folder / "disks-new" / "pulsar", processes)
        with stage("disks: start another Pulsar"):
            new.start(s3)
            workload.make_tenant(new)
            for namespace in (workload.NAMESPACE, workload.OLD_NAMESPACE):
                new.admin.make_namespace(namespace)
            introduce(new.zookeeper, {topic: [one.ref for one in bucket.topic(topic).ledgers] for topic in topics}, s3)
            new.restart_broker(s3)
        with stage("disks: Pulsar's reader"):
            found = in_the_same_words(JavaClient(new, classes, keys).read(topics))
        require_events(found.pop(EVENTS), truth[EVENTS][0]["acknowledged"])
        expected = {topic: truth[topic] for topic in topics if topic != EVENTS}
        # Which transactions were aborted, the other cluster does not know: its broker serves their messages, too.
        expected[TXN] = rows_of(opened(live, (0, 2)).topic(TXN).scan(transactions="all"))
        assert len(expected[TXN]) > len(truth[TXN])
        assert differences(found, expected) == []
    finally:
        processes.stop_all()
        shutil.rmtree(folder / "disks-new", ignore_errors=True)
