"""Services that die at a step, two attempts at once, and a service and a broker at once: nothing is lost, and no objects are left over.

Each test counts the messages of its topics before and after, as Pulsar's own reader has them, in order. No broker is killed: a topic is
free once its namespace is unloaded.
"""

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pulsar
import pytest
from kazoo.client import KazooClient

from interop.filling import fill
from interop.lifecycle_processes import Services, is_free
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import connected
from interop.s3_server import BUCKET
from interop.stages import stage
from interop.surveys import ledgers_of, list_of
from interop.waiting import wait_until
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo
from ledgerfs_cluster.rules.topic_owners import owner_now
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.zookeeper.nodes import Nodes

_ENTRIES = 50
_BROKER = {
    "managedLedgerMaxEntriesPerLedger": _ENTRIES,
    "managedLedgerDefaultMarkDeleteRateLimit": 1000,
    "managedLedgerOffloadDeletionLagMs": 4 * 3_600_000,
    "retentionCheckIntervalInSeconds": 3600,
    "transactionCoordinatorEnabled": "false",
}
_POINTS = ("data", "index", "set", "after")
_NOW = "0s"


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    """The cluster."""
    with lent_live_cluster(folder / "meetings", _BROKER) as made:
        yield made


@pytest.fixture(scope="module")
def nodes(live: LiveCluster) -> Iterator[KazooClient]:
    """ZooKeeper, read."""
    with live.unrecorded() as client:
        yield client


@pytest.fixture
def client(live: LiveCluster) -> Iterator[pulsar.Client]:
    """Pulsar's client."""
    with connected(live.cluster.service_url) as made:
        yield made


@pytest.fixture
def services(live: LiveCluster, tmp_path: Path) -> Services:
    """What starts services."""
    return Services(live, tmp_path)


def made_topic(live: LiveCluster, client: pulsar.Client, namespace: str, messages: int = 3 * _ENTRIES - 10) -> str:
    """Make a topic with some messages, and two full ledgers, in a namespace of its own; return its name."""
    live.cluster.admin.make_namespace(namespace)
    live.cluster.admin.set_retention(namespace, -1, -1)
    topic = f"persistent://{namespace}/topic"
    fill(client, topic, messages, 100)
    return topic


def free(live: LiveCluster, topic: str) -> None:
    """Have the broker let go a topic, and its namespace."""
    namespace = topic.removeprefix("persistent://").rpartition("/")[0]
    live.cluster.admin.call("PUT", f"v2/namespaces/{namespace}/unload")
    wait_until_free(live, topic)


def wait_until_free(live: LiveCluster, topic: str) -> None:
    """Wait until no broker has a topic."""
    own = Nodes(live.cluster.zookeeper)
    try:
        name = managed_ledger_of(topic)
        wait_until(lambda: owner_now(own, name) is Owner.NONE, f"nobody has {topic}")
    finally:
        own.close()


def read(client: pulsar.Client, topic: str) -> list[int]:
    """Return the numbers of all messages of a topic, in order, as Pulsar's reader has them."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    try:
        found = []
        while reader.has_message_available():
            found.append(int(reader.read_next(30_000).data()[:8]))
        return found
    finally:
        reader.close()


def objects(live: LiveCluster, ledgers: Sequence[LedgerInfo]) -> set[str]:
    """Return the objects of ledgers that are in the bucket, whoever made them."""
    ids = {str(one.ledger_id) for one in ledgers}
    names = {one.name for one in (live.s3.folder / BUCKET).iterdir()}
    return {one for one in names if one.partition("-ledger-")[2].removesuffix("-index") in ids}


def named(ledgers: Sequence[LedgerInfo]) -> set[str]:
    """Return the objects that a list names: two of each offloaded ledger."""
    found = [f"{one.context.uuid}-ledger-{one.ledger_id}" for one in ledgers if one.context and one.is_offloaded]
    return {f"{one}{end}" for one in found for end in ("", "-index")}


def require_offloaded(live: LiveCluster, nodes: KazooClient, topic: str) -> None:
    """Require all ledgers of a topic with entries to be offloaded but the last one, two objects each, and no others to be there."""
    ledgers = ledgers_of(nodes, topic)
    assert [one.is_offloaded for one in ledgers] == [*[True] * (len(ledgers) - 1), False]
    assert len(ledgers) >= 3
    assert objects(live, ledgers) == named(ledgers)
    assert len(named(ledgers)) == 2 * (len(ledgers) - 1)


def test_an_offload_that_died_at_any_step_is_done_by_the_next_service(
    live: LiveCluster, nodes: KazooClient, client: pulsar.Client, services: Services
) -> None:
    topics = {point: made_topic(live, client, f"public/died-{point}") for point in _POINTS}
    before = {point: read(client, topic) for point, topic in topics.items()}
    assert before == {point: list(range(140)) for point in _POINTS}
    for topic in topics.values():
        free(live, topic)
    for point, topic in topics.items():
        with (
            stage(f"meetings: die at {point}"),
            services.held(point, services.policy(f"public/died-{point}", offload_after=_NOW)) as service,
        ):
            service.kill()
        ledgers = ledgers_of(nodes, topic)
        left = objects(live, ledgers)
        has_index = {one.endswith("-index") for one in left}
        assert has_index == ({False} if point == "data" else {True, False}), left
        assert [one.is_offloaded for one in ledgers] == [point == "after"] * (len(ledgers) - 1) + [False]
        assert named(ledgers) == (left if point == "after" else set())
    with stage("meetings: the next service"):
        services.run(services.policy("public/died-.*", offload_after=_NOW))
    for topic in topics.values():
        require_offloaded(live, nodes, topic)
    after = {point: read(client, topic) for point, topic in topics.items()}
    assert [len(one) for one in after.values()] == [len(one) for one in before.values()]
    assert after == before


def test_of_two_attempts_at_once_one_wins_and_the_other_leaves_no_objects(
    live: LiveCluster, nodes: KazooClient, client: pulsar.Client, services: Services
) -> None:
    topic = made_topic(live, client, "public/attempts")
    before = read(client, topic)
    free(live, topic)
    policy = services.policy("public/attempts", offload_after=_NOW)
    with stage("meetings: two attempts"), services.held("set", policy) as first:
        copies = objects(live, ledgers_of(nodes, topic))
        # It is stopped for longer than its session, and so has lost the lock, and does not know.
        first.signal(signal.SIGSTOP)
        wait_until(lambda: is_free(nodes), "its session is over")
        services.run(policy)
        won = named(ledgers_of(nodes, topic))
        assert copies
        assert not won & copies
        first.go()
        first.signal(signal.SIGCONT)
        assert first.ended().code == 3, first.said
    assert named(ledgers_of(nodes, topic)) == won
    require_offloaded(live, nodes, topic)
    after = read(client, topic)
    assert len(after) == len(before) == 140
    assert after == before


def test_a_broker_that_loads_the_topic_before_the_set_serves_all_of_it_afterwards(
    live: LiveCluster, nodes: KazooClient, client: pulsar.Client, services: Services
) -> None:
    topic = made_topic(live, client, "public/loaded")
    before = read(client, topic)
    free(live, topic)
    with (
        stage("meetings: loaded before the set"),
        services.held("set", services.policy("public/loaded", offload_after=_NOW)) as service,
    ):
        version = list_of(nodes, topic)[1].version
        assert read(client, topic) == before
        assert list_of(nodes, topic)[1].version > version
        service.go()
        assert service.ended().code == 0, service.said
    uploaded = named(ledgers_of(nodes, topic))
    assert len(uploaded) == 4
    # What a broker does not know of it first deletes, where an attempt was noted before its upload.
    live.cluster.admin.offload(topic)
    ledgers = ledgers_of(nodes, topic)
    assert uploaded <= named(ledgers)
    assert objects(live, ledgers) == named(ledgers)
    after = read(client, topic)
    assert len(after) == len(before) == 140
    assert after == before


def test_a_set_while_an_attempt_of_the_broker_runs_wins_and_the_brokers_objects_go(
    live: LiveCluster, nodes: KazooClient, client: pulsar.Client, services: Services
) -> None:
    topic = made_topic(live, client, "public/brokers")
    before = read(client, topic)
    free(live, topic)
    policy = services.policy("public/brokers", offload_after=_NOW)
    with stage("meetings: set while a broker offloads"), services.held("set", policy) as service:
        uploaded = objects(live, ledgers_of(nodes, topic))
        assert read(client, topic) == before
        with live.cluster.processes.paused(live.s3.name):
            theirs = begun_by_broker(live, nodes, topic)
            service.go()
            wait_until(lambda: named(ledgers_of(nodes, topic)) == uploaded, "the service has set the list")
        assert service.ended().code == 0, service.said
    assert not any(theirs in one for one in uploaded)
    wait_until(lambda: len(objects(live, ledgers_of(nodes, topic)) - uploaded) == 2, "the broker has uploaded")
    with stage("meetings: set while a broker offloads"):
        free(live, topic)
        services.run(policy)
    require_offloaded(live, nodes, topic)
    assert uploaded <= named(ledgers_of(nodes, topic))
    after = read(client, topic)
    assert len(after) == len(before) == 140
    assert after == before


def begun_by_broker(live: LiveCluster, nodes: KazooClient, topic: str) -> str:
    """Have the broker begin to offload a topic; return the uuid of the attempt that its list names then."""
    last = ledgers_of(nodes, topic)[-1].ledger_id
    path = f"v2/persistent/{topic.removeprefix('persistent://')}/offload"
    live.cluster.admin.call("PUT", path, {"ledgerId": last, "entryId": 0, "partitionIndex": -1})
    found: list[str] = []

    def has_begun() -> bool:
        contexts = [one.context for one in ledgers_of(nodes, topic) if one.context is not None]
        found.extend(one.uuid for one in contexts if one.uuid is not None and not one.is_complete)
        return bool(found)

    wait_until(has_begun, "the broker has noted its attempt")
    return found[0]
