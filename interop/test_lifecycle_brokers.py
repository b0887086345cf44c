"""A real broker that is asked to offload, trim and unload, and what ZooKeeper then has; who owns a topic, as the broker tells it.

It is another cluster than that of the tests which know all that is in their bucket. The last test kills the broker and starts another one;
ZooKeeper takes its time to notice.
"""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from interop.cluster import Cluster
from interop.filling import fill
from interop.live_cluster import LiveCluster, lent_live_cluster
from interop.live_producer import connected
from interop.s3_server import BUCKET, S3Server
from interop.stages import stage
from interop.waiting import wait_until
from ledgerfs.errors import NotFoundError
from ledgerfs.formats.topic_names import managed_ledger_of, topic_of
from ledgerfs.layouts.pulsar_blob.new_ledger import completed_user_metadata
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.brokers.broker_api import BrokerApi
from ledgerfs_cluster.lifecycle.brokers.outcomes import ListReader, list_reader, offload_and_compare, trim_and_compare
from ledgerfs_cluster.offload.offload_driver import driver_of_bucket, user_metadata
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.rules.topic_owners import owner_now
from ledgerfs_cluster.snapshot.bundles import NAMESPACES, BundleOwners, Owner, hash_of
from ledgerfs_cluster.snapshot.cluster_names import only_cluster
from ledgerfs_cluster.zookeeper.nodes import Nodes

NAMESPACE = "public/asked"
_NUMBERS = count()


@pytest.fixture(scope="module")
def live(folder: Path) -> Iterator[LiveCluster]:
    """All servers."""
    with lent_live_cluster(folder / "brokers") as made:
        yield made


@pytest.fixture(scope="module")
def cluster(live: LiveCluster) -> Cluster:
    """The cluster, without what stands before it elsewhere."""
    return live.cluster


@pytest.fixture(scope="module")
def original(live: LiveCluster) -> S3Server:
    """The server of its bucket."""
    return live.s3


@pytest.fixture(scope="module")
def nodes(cluster: Cluster) -> Iterator[Nodes]:
    """ZooKeeper, read."""
    cluster.admin.make_namespace(NAMESPACE)
    made = Nodes(cluster.zookeeper)
    yield made
    made.close()


@pytest.fixture(scope="module")
def listed(nodes: Nodes) -> ListReader:
    """What reads lists of ledgers."""
    return list_reader(nodes)


@pytest.fixture
def broker(cluster: Cluster) -> BrokerApi:
    """Requests to the broker, each time without an unload before."""
    return BrokerApi(AdminRequests(cluster.admin.address))


def make_topic(cluster: Cluster, name: str, ledgers: int = 3, namespace: str = NAMESPACE) -> str:
    """Fill a topic with a number of ledgers, of which the last is open; return the name of its managed ledger."""
    topic = f"persistent://{namespace}/{name}-{next(_NUMBERS)}"
    with connected(cluster.service_url) as client:
        for left in reversed(range(ledgers)):
            fill(client, topic, 20, 100)
            if left:
                cluster.admin.unload(topic)
    return managed_ledger_of(topic)


def unload(cluster: Cluster, name: str) -> None:
    """Close a topic by the interop's own requests."""
    namespace, _, local = name.partition("/persistent/")
    cluster.admin.call("PUT", f"v2/persistent/{namespace}/{local}/unload")


def end_of(listed: ListReader, name: str) -> Position:
    return Position(listed(name).ledgers[-1].ledger_id, 0)


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_broker_offloads_what_it_is_asked_for(
    cluster: Cluster, nodes: Nodes, broker: BrokerApi, listed: ListReader, original: S3Server, is_loaded: bool
) -> None:
    name = make_topic(cluster, "offloaded å b+1")
    if not is_loaded:
        # The encoding of the path is that of the managed ledger but for spaces, which are + there.
        broker.unload(name)
    wanted = tuple(one.ledger_id for one in listed(name).ledgers[:-1])
    report = offload_and_compare(broker, name, end_of(listed, name), listed)
    assert report.ledger_ids == wanted
    assert len(wanted) >= 2

    # What the broker noted, and wrote beside its objects, is what we would.
    info = listed(name)
    ours_noted = driver_of_bucket("aws-s3", BUCKET, "us-east-1", original.endpoint)
    contexts = [one.context for one in info.ledgers if one.context is not None and one.context.is_complete]
    assert {(one.driver, one.properties) for one in contexts} == {(ours_noted.name, ours_noted.properties)}
    cluster_name = only_cluster(nodes)
    assert cluster_name == "interop"
    ours = completed_user_metadata(user_metadata(cluster_name), name)
    objects = original.objects()
    for one in info.ledgers:
        if one.ledger_id not in wanted:
            continue
        assert one.context is not None
        for role, key in (("data", ""), ("index", "-index")):
            theirs = objects[f"{one.context.uuid}-ledger-{one.ledger_id}{key}"]
            assert {key: value for key, value in theirs.items() if "software" not in key} == {
                **{key: value for key, value in ours.items() if "software" not in key},
                "role": role,
            }


def test_old_names_are_offloaded_by_their_own_paths(
    cluster: Cluster, nodes: Nodes, broker: BrokerApi, listed: ListReader
) -> None:
    assert nodes.children("/admin/clusters")
    cluster.admin.make_namespace("public/interop/asked")
    name = make_topic(cluster, "old", 2, "public/interop/asked")
    assert name.count("/") == 4
    report = offload_and_compare(broker, name, end_of(listed, name), listed)
    assert len(report.ledger_ids) == 1


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_broker_trims_what_it_is_asked_to(
    cluster: Cluster, broker: BrokerApi, listed: ListReader, is_loaded: bool
) -> None:
    name = make_topic(cluster, "trimmed")
    before = [one.ledger_id for one in listed(name).ledgers]
    if not is_loaded:
        broker.unload(name)
    path = f"v2/persistent/{name.replace('/persistent', '')}/retention"
    cluster.admin.call("POST", path, {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0})

    def is_trimmed() -> bool:
        # The topic's own policy takes a moment to be its broker's.
        trim_and_compare(BrokerApi(AdminRequests(cluster.admin.address)), name, listed)
        return all(one.ledger_id not in before[:-1] for one in listed(name).ledgers)

    wait_until(is_trimmed, "the topic is trimmed")


def test_an_unload_closes_the_last_ledger(cluster: Cluster, broker: BrokerApi, listed: ListReader) -> None:
    name = make_topic(cluster, "unloaded", 1)
    last = listed(name).ledgers[-1].ledger_id
    broker.unload(name)
    with connected(cluster.service_url) as client:
        fill(client, f"persistent://{name.replace('/persistent', '')}", 5, 100)
    assert [one.ledger_id for one in listed(name).ledgers if one.entries == 20] == [last]
    with pytest.raises(NotFoundError):
        broker.trim(f"{NAMESPACE}/persistent/nobody")


def test_what_loads_a_topic_and_what_does_not(
    cluster: Cluster, nodes: Nodes, broker: BrokerApi, listed: ListReader
) -> None:
    """Loading writes the list: the version tells of it."""
    name = make_topic(cluster, "looked-at", 1)
    found: dict[str, Callable[[str], object]] = {
        "offload status": broker.offload_status,
        "trim": broker.trim,
        "offload": lambda one: broker.begin_offload(one, end_of(listed, one)),
        "unload": lambda one: BrokerApi(AdminRequests(cluster.admin.address)).unload(one),
    }
    loads = {}
    for what, ask in found.items():
        unload(cluster, name)
        version = nodes.get(managed_ledger_path(name)).version
        ask(name)
        loads[what] = nodes.get(managed_ledger_path(name)).version != version
    assert loads == {"offload status": True, "trim": True, "offload": True, "unload": True}


@pytest.mark.parametrize("was_loaded", [True, False])
def test_a_topic_that_was_loaded_for_a_trim_is_unloaded_again(
    cluster: Cluster, broker: BrokerApi, listed: ListReader, was_loaded: bool
) -> None:
    name = make_topic(cluster, "asked å", 1)
    if not was_loaded:
        unload(cluster, name)
    trim_and_compare(broker, name, listed)
    last = listed(name).ledgers[-1].ledger_id
    # It loads the topic, which begins another ledger.
    broker.offload_status(name)
    assert (listed(name).ledgers[-1].ledger_id == last) is was_loaded


def test_who_owns_a_topic_is_reported_without_loading_it(
    cluster: Cluster, nodes: Nodes, broker: BrokerApi, listed: ListReader, original: S3Server
) -> None:
    cluster.admin.make_namespace("public/asked-not-used")
    name = make_topic(cluster, "owned", 1)
    broker.unload(name)
    version = nodes.get(managed_ledger_path(name)).version
    others = [f"public/asked-not-used/persistent/{number}" for number in range(8)]
    for one in (name, *others):
        assert owner_now(nodes, one) is owner_by_broker(cluster, one), one
        assert is_in_its_bundle(cluster, one), one
    assert owner_now(nodes, name) is Owner.SOME
    assert {owner_now(nodes, one) for one in others} == {Owner.NONE}
    assert nodes.get(managed_ledger_path(name)).version == version

    with stage("kill the broker"):
        cluster.processes.kill("broker")
        # Its session outlives it, and so does what it owns.
        assert owner_now(nodes, name) is Owner.SOME
        wait_until(lambda: owner_now(nodes, name) is Owner.NONE, "the broker's session is over", 60)
    with stage("restart the broker"):
        cluster.start_broker(original)
    # A broker that comes loads nothing by itself.
    assert owner_now(nodes, name) is owner_by_broker(cluster, name)
    with connected(cluster.service_url) as client:
        fill(client, f"persistent://{name.replace('/persistent', '')}", 5, 100)
    assert owner_now(nodes, name) is owner_by_broker(cluster, name) is Owner.SOME


def owner_by_broker(cluster: Cluster, name: str) -> Owner:
    """Return the owner as the broker itself tells its bundles."""
    owners = BundleOwners()
    (broker,) = cluster.admin.call("GET", "v2/brokers/interop")
    for bundle in cluster.admin.call("GET", f"v2/brokers/interop/{broker}/ownedNamespaces"):
        owners.own(f"{NAMESPACES}/{bundle}")
    return owners.of(name)


def is_in_its_bundle(cluster: Cluster, name: str) -> bool:
    """Whether a topic's hash is in the range of the bundle that the broker reports."""
    path = f"/lookup/v2/topic/{topic_of(name).replace('://', '/')}/bundle"
    answer = AdminRequests(cluster.admin.address).get(path).require_ok()
    low, high = (int(one, 16) for one in answer.body.decode().strip().strip('"').split("_"))
    return low <= hash_of(name) <= high
