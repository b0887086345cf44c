"""Which broker has a topic, as ZooKeeper tells it; nothing is loaded."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.rules.topic_owners import owner_now
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.zookeeper.nodes import Nodes
from tests.cluster.support.live_broker import EXTENSIBLE, WHOLE, bundle_of, live_broker
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.sessions import PATIENT_S

LOADED, OTHER = "public/default/persistent/x", "public/other/persistent/x"
LEDGER, OLD = managed_ledger_of(TOPIC), managed_ledger_of("persistent://old/here/ns/x")
LIST = "/admin/v2/brokers/here"


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCluster]:
    with LiveCluster(tmp_path, chroot="/pulsar") as made:
        made.write_ledger(TOPIC, messages(3))
        yield made


@pytest.fixture
def nodes(live: LiveCluster) -> Iterator[Nodes]:
    made = Nodes(f"{live.zookeeper.address}{live.chroot}", timeout_s=PATIENT_S)
    yield made
    made.close()


def test_the_modular_load_manager_is_read_in_zookeeper(live: LiveCluster, nodes: Nodes) -> None:
    assert owner_now(nodes, LEDGER) is Owner.NONE  # a cluster without brokers
    with live_broker(live) as broker:
        assert owner_now(nodes, LEDGER) is Owner.NONE
        broker.load(TOPIC)
        assert (owner_now(nodes, LEDGER), owner_now(nodes, OTHER)) == (Owner.SOME, Owner.NONE)
        broker.forget(TOPIC)
        assert owner_now(nodes, LEDGER) is Owner.SOME
        broker.die()
        assert owner_now(nodes, LEDGER) is Owner.NONE
        assert broker.admin.seen == []


def test_only_the_bundle_of_the_topic_counts(live: LiveCluster, nodes: Nodes) -> None:
    with live_broker(live):
        live.own_bundle("public/default", "0x00000000_0x00000001")
        assert owner_now(nodes, LEDGER) is Owner.NONE
        live.own_bundle("public/default", bundle_of(LEDGER))
        assert owner_now(nodes, LEDGER) is Owner.SOME
        live.own_bundle("old/here/ns", WHOLE)
        assert owner_now(nodes, OLD) is Owner.SOME


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"loadManagerClassName":null}', json.dumps({"loadManagerClassName": EXTENSIBLE}).encode()],
)
def test_a_broker_whose_load_manager_is_another_or_not_reported_makes_it_unknown(
    live: LiveCluster, nodes: Nodes, data: bytes
) -> None:
    with live_broker(live):
        live.zookeeper.set(f"{live.chroot}/loadbalance/brokers/other:8080", data)
        assert owner_now(nodes, LEDGER) is Owner.UNKNOWN
        live.own_bundle("public/default", WHOLE)
        assert owner_now(nodes, LEDGER) is Owner.SOME
