"""Which broker has a topic: as brokers tell it, where one is silent or of another cluster, and as ZooKeeper does; nothing is loaded."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.rules.topic_owners import ask_brokers, owner_now
from ledgerfs_cluster.snapshot.bundles import BundleOwners, Owner, hash_of
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.survey_builder import SurveyBuilder
from ledgerfs_cluster.zookeeper.nodes import Nodes
from tests.cluster.support.live_broker import EXTENSIBLE, WHOLE, bundle_of, live_broker
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.sessions import PATIENT_S
from tests.support.admin_api import Answers, serving
from tests.support.each import for_each

LOADED, OTHER = "public/default/persistent/x", "public/other/persistent/x"
LEDGER, OLD = managed_ledger_of(TOPIC), managed_ledger_of("persistent://old/here/ns/x")
LIST = "/admin/v2/brokers/here"


def _bundle(name: str) -> str:
    place = hash_of(name)
    return f"{name.removesuffix('/persistent/x')}/0x{place:08x}_0x{place + 1:08x}"


def _owned(broker: str) -> str:
    return f"{LIST}/{broker}/ownedNamespaces"


def _answers(**bundles: list[str]) -> Answers:
    told: Answers = {LIST: (200, json.dumps([f"{name}:8080" for name in bundles]))}
    for name, owned in bundles.items():
        status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
        told[_owned(f"{name}:8080")] = (200, json.dumps(dict.fromkeys(owned, status)))
    return told


def _survey(*brokers: str, clusters: frozenset[str] = frozenset({"here"})) -> Survey:
    owners = BundleOwners({f"{name}:8080": EXTENSIBLE for name in brokers})
    return replace(SurveyBuilder().survey("pulsar+zk://x", 0, 0), owners=owners, clusters=clusters)


def test_bundles_of_all_brokers_are_known() -> None:
    survey = _survey("a", "b")
    assert survey.owners.of(LOADED) is Owner.UNKNOWN
    with serving(_answers(a=[_bundle(LOADED)], b=[])) as server:
        owners = ask_brokers(survey, AdminRequests(server.url)).owners
        asked = [path for path, _ in server.seen]
    assert (owners.of(LOADED), owners.of(OTHER), owners.not_told) == (Owner.SOME, Owner.NONE, [])
    a, b = _owned("a:8080"), _owned("b:8080")
    assert asked == [LIST, a, b, b, a, LIST]
    assert survey.owners.of(OTHER) is Owner.UNKNOWN


def test_a_bundle_that_moves_meanwhile_is_owned() -> None:
    answers = _answers(a=[], b=[])
    with serving(answers) as server:

        class Moving:
            address = server.url
            count = 0

            def told(self, path: str) -> object:
                self.count += 1
                if self.count == 4:
                    answers[_owned("a:8080")] = (200, json.dumps({_bundle(LOADED): {}}))
                return AdminRequests(server.url).told(path)

        owners = ask_brokers(_survey("a", "b"), Moving()).owners
    assert (owners.of(LOADED), owners.of(OTHER)) == (Owner.SOME, Owner.NONE)


@for_each(
    ("answer", "said"),
    [
        ((500, '{"reason":"it is stopping"}'), "it is stopping"),
        ((403, '{"reason":"super-user"}'), "super-user"),
        ((200, "[]"), "no bundles"),
        ((200, '{"public/default":{}}'), "which is no bundle"),
        ((200, "<html>"), "no JSON"),
    ],
)
def test_what_a_silent_broker_may_have_is_unknown(answer: tuple[int, str], said: str) -> None:
    with serving(_answers(a=[_bundle(LOADED)], b=[]) | {_owned("b:8080"): answer}) as server:
        owners = ask_brokers(_survey("a", "b"), AdminRequests(server.url)).owners
    assert (owners.of(LOADED), owners.of(OTHER)) == (Owner.SOME, Owner.UNKNOWN)
    assert len(owners.not_told) == 1
    assert "broker b:8080" in owners.not_told[0]
    assert said in owners.not_told[0]


@for_each(
    ("told", "said"),
    [
        ('["a:8080"]', "b:8080 is in ZooKeeper and not listed"),
        ('["a:8080","b:8080","c:8080"]', "c:8080 is listed by the broker and not in ZooKeeper"),
        ("{}", "no list of brokers"),
    ],
)
def test_brokers_of_another_cluster_are_not_asked(told: str, said: str) -> None:
    with serving(_answers(a=[], b=[]) | {LIST: (200, told)}) as server:
        owners = ask_brokers(_survey("a", "b"), AdminRequests(server.url)).owners
        assert [path for path, _ in server.seen] == [LIST]
    assert owners.of(LOADED) is Owner.UNKNOWN
    assert said in owners.not_told[0]


def test_the_cluster_is_the_one_whose_brokers_are_in_zookeeper() -> None:
    answers = _answers(a=[_bundle(LOADED)]) | {"/admin/v2/brokers/away": (200, '["z:8080"]')}
    with serving(answers) as server:
        brokers = AdminRequests(server.url)
        owners = ask_brokers(_survey("a", clusters=frozenset({"away", "here"})), brokers).owners
        nameless = ask_brokers(_survey("a", clusters=frozenset()), brokers).owners
    assert (owners.of(LOADED), owners.of(OTHER)) == (Owner.SOME, Owner.NONE)
    assert nameless.of(LOADED) is Owner.UNKNOWN
    assert "no name of this cluster" in nameless.not_told[0]


def test_nobody_is_asked_where_owners_are_in_zookeeper() -> None:
    survey = _survey()
    assert ask_brokers(survey, AdminRequests("http://127.0.0.1:9")) is survey


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
def test_a_broker_whose_load_manager_is_another_or_not_told_makes_it_unknown(
    live: LiveCluster, nodes: Nodes, data: bytes
) -> None:
    with live_broker(live):
        live.zookeeper.set(f"{live.chroot}/loadbalance/brokers/other:8080", data)
        assert owner_now(nodes, LEDGER) is Owner.UNKNOWN
        live.own_bundle("public/default", WHOLE)
        assert owner_now(nodes, LEDGER) is Owner.SOME
