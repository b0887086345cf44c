"""What ``ledgerfs bookie space`` tells of a real bookie's logs is what the bookie then deletes and compacts."""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interop.cluster import Cluster
from interop.live_producer import connected, produce_to
from interop.processes import Processes, free_ports
from interop.s3_server import S3Server
from interop.stages import stage
from interop.waiting import wait_until
from interop.workload import make_tenant
from tests.support.commands import output

NAMESPACE = "public/space"
LOG_BYTES = 4 << 20
ENTRIES_A_LOG = LOG_BYTES // 2100
SHARES = (0, 0, 0.08, 0.08, 0.35, 0.35, 0.8, 0.8)
"""What is to stay of what fills a log, each twice: logs do not begin where it does."""


@pytest.fixture(scope="module")
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def cluster(folder: Path, port: int) -> Iterator[Cluster]:
    """One bookie with small logs, which collects only when it is told to."""
    place = folder / "space"
    place.mkdir()
    processes = Processes(place)
    bookie = {
        "httpServerEnabled": "true",
        "httpServerPort": port,
        "httpServerClass": "org.apache.bookkeeper.http.vertx.VertxHttpServer",
        "logSizeLimit": LOG_BYTES,
        "gcWaitTime": 3_600_000,
        "minorCompactionInterval": 0,
        "majorCompactionInterval": 0,
        "forceAllowCompaction": "true",
        "compactionRateByEntries": 20_000,
        "entryLogFilePreallocationEnabled": "true",
    }
    made = Cluster(
        place / "pulsar", processes, settings={"bookie": bookie, "broker": {"managedLedgerMaxEntriesPerLedger": 500}}
    )
    try:
        with stage("space: start Pulsar"):
            made.start(S3Server("s3", place / "s3", processes).start())
        make_tenant(made)
        made.admin.make_namespace(NAMESPACE)
        # The broker trims topics without subscriptions every two minutes, also just before the bookie collects.
        made.admin.set_retention(NAMESPACE, -1, -1)
        yield made
    finally:
        processes.stop_all()


def disk_of(cluster: Cluster) -> Path:
    return cluster.folder / "bookie0"


def space_of(cluster: Cluster) -> dict[str, Any]:
    metadata = ("--metadata", f"pulsar+zk://{cluster.zookeeper}")
    (reported,) = json.loads(output("bookie", "space", str(disk_of(cluster)), "--json", *metadata))
    return dict(reported)


def logs_of(cluster: Cluster) -> set[str]:
    return {path.stem for path in (disk_of(cluster) / "ledgers" / "current").glob("*.log")}


def collect(port: int) -> None:
    """Have the bookie collect and compact all it may, and wait until it is done."""

    def is_forced() -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/bookie/gc", timeout=10) as answer:
            return '"true"' in answer.read().decode()

    body = json.dumps({"forceMajor": True, "forceMinor": True}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/bookie/gc", body, method="PUT")
    with urllib.request.urlopen(request, timeout=10):
        time.sleep(1)
    wait_until(lambda: not is_forced(), "the bookie has collected")


def test_the_bookie_deletes_and_compacts_what_is_reported(cluster: Cluster, port: int) -> None:
    """Of two topics that fill the logs one is deleted."""
    with connected(cluster.service_url) as client, stage("space: produce"):
        producers = [produce_to(client, f"persistent://{NAMESPACE}/{name}", 2000) for name in ("gone", "kept")]
        for share in SHARES:
            for producer, part in zip(producers, (1 - share, share), strict=True):
                producer.send(round(ENTRIES_A_LOG * part))
            for producer in producers:
                producer.wait(producer.sent)
            # What comes between two flushes is written in the order of ledgers.
            time.sleep(2.5)
    with stage("space: flush"):
        # Logs are written a second after entries came, and ended when they are full.
        before = -1
        while before != (before := sum(path.stat().st_size for path in (disk_of(cluster) / "ledgers").rglob("*.log"))):
            time.sleep(3)
    cluster.admin.call("DELETE", f"v2/persistent/{NAMESPACE}/gone?force=true")
    nodes = cluster.bookkeeper_ledgers()
    with stage("space: tell"):
        reported = space_of(cluster)
    fates: dict[str, set[str]] = {}
    for log in reported["logs"]:
        fates.setdefault(log["fate"], set()).add(log["id"])
    assert nodes == cluster.bookkeeper_ledgers()
    going = fates.get("deleted", set()) | fates.get("minor", set()) | fates.get("major", set())
    assert all(fates.get(fate) for fate in ("deleted", "minor", "major", "kept", "current")), fates
    with stage("space: collect"):
        collect(port)
        wait_until(lambda: not going & logs_of(cluster), f"{sorted(going & logs_of(cluster))} go")
    left = logs_of(cluster)
    assert fates["kept"] <= left
    assert fates["current"] & left
    after = space_of(cluster)
    size = sum(log["size"] for log in after["logs"])
    # What is written again is in the log that was current, and in those after it.
    assert abs(size - (reported["size"] - sum(reported["frees"].values()))) < 64 << 10
    assert not [log["id"] for log in after["logs"] if log["id"] in going]
