"""Offloading without the broker against the broker's own offload, of the same entries on the same machine, and the memory that ours takes.

``python -m benchmarks.offload`` starts a real Pulsar with one bookie, and a real S3 server, as `make interop` does (Java 17, Maven and Go).
Each shape is written to two topics: the broker offloads one of them; then it is stopped, and ledgerfs offloads the other, in a process of
its own. What ours takes includes reading back all that it wrote, which a broker doesn't do.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pulsar

from interop import machine, workload
from interop.cluster import Cluster
from interop.live_producer import connected
from interop.processes import LEASH, Processes
from interop.s3_server import BUCKET, CREDENTIALS, S3Server
from ledgerfs_cluster.offload import ManagedLedger

NAMESPACE = "public/offloads"
_MIB = 1 << 20
_SETTINGS: dict[str, dict[str, object]] = {
    "broker": {
        "managedLedgerMaxEntriesPerLedger": 1_000_000,
        "managedLedgerMaxSizePerLedgerMbytes": 128,
        "managedLedgerOffloadDeletionLagMs": 4 * 3_600_000,
        "retentionCheckIntervalInSeconds": 3600,
        "s3ManagedLedgerOffloadMaxBlockSizeInBytes": 64 * _MIB,
        "transactionCoordinatorEnabled": "false",
        "brokerEntryMetadataInterceptors": "",
        "exposingBrokerEntryMetadataToClientEnabled": "false",
        "metadataStoreSessionTimeoutMillis": 5000,
    },
    "bookie": {"nettyMaxFrameSizeBytes": 5_253_120},
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How the messages of a topic are sent; ``size`` is bytes of each."""

    name: str
    size: int
    is_batched: bool


SHAPES = (Shape("1 KiB messages in batches", 1024, True), Shape("1 KiB messages, one an entry", 1024, False))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=512, help="of messages in each topic")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ours", nargs=3, metavar=("CLUSTER", "TOPICS", "ENDPOINT"), help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.ours:
        ours(*told.ours)
        return
    machine.require_commands()
    with tempfile.TemporaryDirectory(prefix="offload-") as name:
        folder = Path(name)
        processes = Processes(folder)
        s3 = S3Server("s3", folder / "s3", processes)
        cluster = Cluster(folder / "pulsar", processes, settings=_SETTINGS, lives_long=True)
        try:
            cluster.start(s3.start())
            compare(cluster, s3, told.mib * _MIB, told.rounds)
        finally:
            processes.stop_all()


def compare(cluster: Cluster, s3: S3Server, size: int, rounds: int) -> None:
    """Fill the topics, offload them both ways, and print what each took."""
    workload.make_tenant(cluster)
    cluster.admin.make_namespace(NAMESPACE)
    theirs: dict[str, list[float]] = {}
    with connected(cluster.service_url) as client:
        for shape in SHAPES:
            # The broker's code is compiled as it runs; the least of it counts.
            theirs[shape.name] = [broker_seconds(cluster, client, shape, size) for _ in range(rounds)]
        ours_of = [[filled(client, shape, size) for _ in range(rounds)] for shape in SHAPES]
        warm = filled(client, SHAPES[0], _MIB)
        for topic in (warm, *(topic for topics in ours_of for topic in topics)):
            cluster.admin.unload(topic)
    processes = cluster.processes
    processes.stop("broker", seconds=120)
    wait_until_forgotten(cluster)
    names = [warm, *(topic for topics in ours_of for topic in topics)]
    url = f"pulsar+zk://{cluster.zookeeper}"
    command = [sys.executable, "-m", "benchmarks.offload", "--ours", url, json.dumps(names), s3.endpoint]
    environment = os.environ | CREDENTIALS
    done = subprocess.run([*LEASH, *command], check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found = json.loads(done.stdout)
    for number, shape in enumerate(SHAPES):
        seconds = found["seconds"][1 + number * rounds :][:rounds]
        broker, direct = (size / _MIB / min(one) for one in (theirs[shape.name], seconds))
        print(f"{shape.name}, {size >> 20} MiB: {direct:.0f} MiB/s, {direct / broker:.1f} x the broker's {broker:.0f}")
    print(
        f"memory at most {found['most'] >> 20} MiB, {found['before'] >> 20} of which were there before the first byte"
    )


def broker_seconds(cluster: Cluster, client: pulsar.Client, shape: Shape, size: int) -> float:
    """Return how long the broker takes for a topic."""
    topic = filled(client, shape, size)
    cluster.admin.unload(topic)
    began = time.perf_counter()
    cluster.admin.offload(topic)
    return time.perf_counter() - began


def filled(client: pulsar.Client, shape: Shape, size: int) -> str:
    """Make a topic, and return its name."""
    topic = f"persistent://{NAMESPACE}/{time.time_ns()}"
    options = {"batching_max_publish_delay_ms": 10, "batching_max_messages": 1000, "max_pending_messages": 5000}
    producer = client.create_producer(topic, batching_enabled=shape.is_batched, block_if_queue_full=True, **options)
    payload = os.urandom(shape.size)
    refused: list[pulsar.Result] = []
    for _ in range(size // shape.size):
        producer.send_async(payload, partial(_answered, refused.append))
    producer.flush()
    producer.close()
    if refused:
        raise RuntimeError(f"{topic}: {refused[0]}")
    return topic


def _answered(refuse: Callable[[pulsar.Result], None], result: pulsar.Result, _id: pulsar.MessageId) -> None:
    if result != pulsar.Result.Ok:
        refuse(result)


def wait_until_forgotten(cluster: Cluster) -> None:
    """Wait until ZooKeeper tells of no broker."""
    from kazoo.client import KazooClient

    client = KazooClient(cluster.zookeeper)
    client.start()
    while client.exists("/loadbalance/brokers") and client.get_children("/loadbalance/brokers"):
        time.sleep(0.2)
    client.stop()
    client.close()


def ours(cluster: str, topics: str, endpoint: str) -> None:
    """Offload topics one after the other, and print as JSON what each took, seconds, and memory, bytes."""
    seconds: list[float] = []
    before = 0
    for topic in json.loads(topics):
        with ManagedLedger.open(
            cluster,
            topic,
            f"s3://{BUCKET}",
            region="us-east-1",
            endpoint=endpoint,
            storage_options={"endpoint_url": endpoint},
        ) as opened:
            before = before or _most_memory()
            began = time.perf_counter()
            opened.offload_prefix((_last_ledger(opened), 0))
            seconds.append(time.perf_counter() - began)
    print(json.dumps({"seconds": seconds, "before": before, "most": _most_memory()}))


def _last_ledger(opened: ManagedLedger) -> int:
    return opened._info().ledgers[-1].ledger_id  # noqa: SLF001  (whatever it is)


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    main()
