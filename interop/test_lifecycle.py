"""Topics of a real cluster are offloaded without a broker, which deletes what is due when it is asked, and serves them as before."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.filling import fill, subscribe
from interop.java_client import JavaClient
from interop.keys import KeyPair
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import connected
from interop.processes import LEASH
from interop.s3_server import BUCKET
from interop.stages import stage
from interop.surveys import ledgers_of
from interop.waiting import wait_until
from ledgerfs.formats.topic_names import managed_ledger_of, topic_of
from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests

_BROKER = {
    "managedLedgerMaxEntriesPerLedger": 100,
    "managedLedgerDefaultMarkDeleteRateLimit": 1000,
    "managedLedgerOffloadDeletionLagMs": 0,
    "retentionCheckIntervalInSeconds": 3600,
    "transactionCoordinatorEnabled": "false",
}
_LEDGERFS = str(Path(sys.executable).with_name("ledgerfs"))
_KEPT, _PASSING = "public/kept", "public/passing"
_TOPICS = [f"persistent://{_KEPT}/{number}" for number in range(3)]
_TRIMMED = f"persistent://{_PASSING}/trimmed"


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    """The cluster."""
    with lent_live_cluster(folder / "lifecycle", _BROKER) as made:
        yield made


@pytest.fixture(scope="module")
def reader(live: LiveCluster, classes: Path, keys: KeyPair) -> JavaClient:
    """The Java client of this cluster."""
    return JavaClient(live.cluster, classes, keys)


def policy(live: LiveCluster, folder: Path, *, has_admin: bool, **topics: str) -> Path:
    """Write a policy file; return where it is."""
    wishes = "\n".join(f"{name} = {value}" for name, value in topics.items())
    admin = f'admin = "{live.cluster.admin.address}"' if has_admin else ""
    path = folder / "policy.toml"
    path.write_text(
        f"""
        cluster = "pulsar+zk://{live.cluster.zookeeper}"
        {admin}
        [service]
        every = "1s"
        [broker]
        deletion_lag = "0s"
        [defaults]
        trash_grace = "0s"
        via = "auto"
        [buckets.tier]
        url = "s3://{BUCKET}"
        bucket = "{BUCKET}"
        region = "us-east-1"
        endpoint = "{live.s3.endpoint}"
        block_size = "5MiB"
        [[topics]]
        match = "public/(kept|passing)/.*"
        bucket = "tier"
        {wishes}
        """
    )
    return path


def lifecycle(*arguments: str) -> str:
    command = [*LEASH, _LEDGERFS, "lifecycle", *arguments]
    environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        try:
            said, _ = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            # Where all threads are is the end of what it says.
            process.send_signal(signal.SIGABRT)
            said, _ = process.communicate()
    assert process.returncode == 0, said
    return said


def test_what_is_offloaded_and_trimmed_without_a_broker_is_served_by_the_next_one(
    live: LiveCluster, reader: JavaClient, tmp_path: Path
) -> None:
    admin = live.cluster.admin
    for namespace in (_KEPT, _PASSING):
        admin.make_namespace(namespace)
    admin.set_retention(_KEPT, -1, -1)
    admin.set_retention(_PASSING, -1, -1)
    with connected(live.cluster.service_url) as client, stage("lifecycle: produce"):
        for topic in (*_TOPICS, _TRIMMED):
            fill(client, topic, 450, 1000)
        subscribe(client, _TRIMMED, "s", range(330))
    before = reader.read(_TOPICS)
    # A broker that has the topic trims it with each acknowledgement.
    admin.unload(_TRIMMED)
    admin.set_retention(_PASSING, 0, 0)
    live.kill_broker()
    with live.unrecorded() as nodes:
        listed = {topic: [one.ledger_id for one in ledgers_of(nodes, topic)] for topic in (*_TOPICS, _TRIMMED)}
    wanted = policy(live, tmp_path, has_admin=False, offload_after='"0s"')
    with stage("lifecycle: without a broker"):
        said = lifecycle("run", str(wanted), "--once", "--yes")
    with live.unrecorded() as nodes:
        for topic in _TOPICS:
            infos = ledgers_of(nodes, topic)
            assert [one.ledger_id for one in infos] == listed[topic]
            assert [one.is_offloaded for one in infos] == [True] * (len(infos) - 1) + [False], said
        assert [one.ledger_id for one in ledgers_of(nodes, _TRIMMED)] == listed[_TRIMMED]
    gone = {one for topic in _TOPICS for one in listed[topic][:-1]} | set(listed[_TRIMMED][:3])
    # Nobody but a broker deletes what is listed.
    assert gone <= live.cluster.bookkeeper_ledgers()
    with stage("lifecycle: start the broker"):
        live.cluster.start_broker(live.s3)
    wanted = policy(live, tmp_path, has_admin=True, offload_after='"0s"')
    broker = BrokerApi(AdminRequests(live.cluster.admin.address))
    names = [managed_ledger_of(topic) for topic in (*_TOPICS, _TRIMMED)]
    with stage("lifecycle: by the broker"):
        lifecycle("run", str(wanted), "--once", "--yes")
    with live.unrecorded() as nodes:
        for name in names:
            last = ledgers_of(nodes, topic_of(name))[-1].ledger_id
            broker.offload_status(name)
            assert ledgers_of(nodes, topic_of(name))[-1].ledger_id != last, f"{name} was left loaded"
    wait_until(lambda: not gone & live.cluster.bookkeeper_ledgers(), "the broker has deleted what is due")
    with live.unrecorded() as nodes:
        for topic in _TOPICS:
            infos = [one for one in ledgers_of(nodes, topic) if one.ledger_id in listed[topic][:-1]]
            assert [one.ledger_id for one in infos] == listed[topic][:-1]
            assert all(one.context.is_deleted_from_bookkeeper for one in infos if one.context is not None)
        assert not set(listed[_TRIMMED][:3]) & {one.ledger_id for one in ledgers_of(nodes, _TRIMMED)}
    assert reader.read(_TOPICS) == before
    found = [one["value"] for one in reader.read([_TRIMMED])[_TRIMMED]]
    assert len(found) == 150
