"""Owners that brokers tell: who has what, and what is not known when one is silent, or is of another cluster."""

import json
from dataclasses import replace

from ledgerfs.clusters.bundles import BundleOwners, Owner, hash_of
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.survey_builder import SurveyBuilder
from ledgerfs.clusters.topic_owners import ask_brokers
from ledgerfs.storage.admin_api.admin_requests import AdminRequests
from tests.support.admin_api import Answers, send, serving
from tests.support.each import for_each

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
TOPIC, OTHER = "public/default/persistent/x", "public/other/persistent/x"
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
    assert survey.owners.of(TOPIC) is Owner.UNKNOWN
    with serving(_answers(a=[_bundle(TOPIC)], b=[])) as server:
        owners = ask_brokers(survey, AdminRequests(server.url)).owners
        asked = [path for path, _ in server.seen]
    assert (owners.of(TOPIC), owners.of(OTHER), owners.not_told) == (Owner.SOME, Owner.NONE, [])
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
                    answers[_owned("a:8080")] = (200, json.dumps({_bundle(TOPIC): {}}))
                return AdminRequests(server.url).told(path)

        owners = ask_brokers(_survey("a", "b"), Moving()).owners
    assert (owners.of(TOPIC), owners.of(OTHER)) == (Owner.SOME, Owner.NONE)


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
    with serving(_answers(a=[_bundle(TOPIC)], b=[]) | {_owned("b:8080"): answer}) as server:
        owners = ask_brokers(_survey("a", "b"), AdminRequests(server.url)).owners
    assert (owners.of(TOPIC), owners.of(OTHER)) == (Owner.SOME, Owner.UNKNOWN)
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
    assert owners.of(TOPIC) is Owner.UNKNOWN
    assert said in owners.not_told[0]


def test_the_cluster_is_the_one_whose_brokers_are_in_zookeeper() -> None:
    answers = _answers(a=[_bundle(TOPIC)]) | {"/admin/v2/brokers/away": (200, '["z:8080"]')}
    with serving(answers) as server:
        brokers = AdminRequests(server.url)
        owners = ask_brokers(_survey("a", clusters=frozenset({"away", "here"})), brokers).owners
        nameless = ask_brokers(_survey("a", clusters=frozenset()), brokers).owners
    assert (owners.of(TOPIC), owners.of(OTHER)) == (Owner.SOME, Owner.NONE)
    assert nameless.of(TOPIC) is Owner.UNKNOWN
    assert "no name of this cluster" in nameless.not_told[0]


def test_a_broker_that_leads_elsewhere_is_followed_and_tokens_are_sent() -> None:
    with serving({_owned("a:8080"): (200, json.dumps({_bundle(TOPIC): {}}))}, token="t") as other:
        told = other.url + _owned("a:8080")
        with serving(_answers(a=[]), token="t") as server:
            server.faults += [
                lambda one: send(one, 200, '["a:8080"]'),
                lambda one: send(one, 307, "", Location=told),
                lambda one: send(one, 307, "", Location=told),
            ]
            owners = ask_brokers(_survey("a"), AdminRequests(server.url, "t")).owners
        assert len(other.seen) == 2
    assert (owners.of(TOPIC), owners.of(OTHER), owners.not_told) == (Owner.SOME, Owner.NONE, [])


def test_nobody_is_asked_where_owners_are_in_zookeeper() -> None:
    survey = _survey()
    assert ask_brokers(survey, AdminRequests("http://127.0.0.1:9")) is survey
