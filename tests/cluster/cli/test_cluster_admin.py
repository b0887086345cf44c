"""`--admin`: owners that are not in ZooKeeper, told by brokers, and what is said when they do not."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.support.admin_api import AdminServer, serving
from tests.support.invoked import output, run

EXTENSIBLE = "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"
LOADED, UNLOADED = "persistent://public/loaded/t", "persistent://public/unloaded/t"
LIST = "/admin/v2/brokers/here"
OWNED = f"{LIST}/b:8080/ownedNamespaces"
DAY = 86_400_000
QUICK = ("--grace", "1s", "--pass-seconds", "0", "--max-expired", "1s")


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    now = time.time_ns() // 1_000_000
    with LiveCluster(tmp_path_factory.mktemp("extensible")) as made:
        for topic in (LOADED, UNLOADED):
            made.write_ledger(topic, messages(9), closed_ms=now - 2 * DAY)
            newest = made.write_ledger(topic, messages(9), closed_ms=now - DAY)
            made.add_cursor(topic, "s", (newest, 8))
        made.zookeeper.set(f"{made.chroot}/admin/clusters/here", b"{}")
        node = json.dumps({"loadManagerClassName": EXTENSIBLE}).encode()
        made.zookeeper.set(f"{made.chroot}/loadbalance/brokers/b:8080", node)
        time.sleep(1.1)
        before = made.nodes
        yield made
        assert made.nodes == before
        assert made.not_reads() == []


@pytest.fixture(name="broker")
def _broker() -> Iterator[AdminServer]:
    bundle = "public/loaded/0x00000000_0xffffffff"
    answers = {LIST: (200, '["b:8080"]'), OWNED: (200, json.dumps({bundle: {"is_active": True}}))}
    with serving(answers, token="secret") as server:
        yield server


@pytest.fixture(name="access")
def _access(broker: AdminServer, tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "token").write_text("secret\n")
    return "--admin", broker.url, "--token-file", str(tmp_path / "token")


def test_owners_are_known_with_admin_and_not_without(cluster: LiveCluster, access: tuple[str, ...]) -> None:
    arguments = ("cluster", "cursors", cluster.url, "--all", "--json")
    for options, owners in (((), {"unknown"}), (access, {"some", "none"})):
        assert {one["owner"] for one in json.loads(output(*arguments, *options))} == owners


def test_check_names_what_no_broker_has_loaded(
    cluster: LiveCluster, broker: AdminServer, access: tuple[str, ...]
) -> None:
    without = run("cluster", "check", cluster.url, *QUICK, "--json")
    assert json.loads(without.stdout)["findings"] == []
    assert b"which topics none has loaded is not known" in without.stderr
    told = json.loads(output("cluster", "check", cluster.url, *QUICK, "--json", *access))
    assert [(one["kind"], one["subject"]) for one in told["findings"]] == [("unloaded-expired", UNLOADED)]
    assert [path for path, _ in broker.seen] == [LIST, OWNED, OWNED, LIST]


def test_a_broker_that_does_not_answer_is_named(
    cluster: LiveCluster, broker: AdminServer, access: tuple[str, ...]
) -> None:
    broker.answers[OWNED] = (500, '{"reason":"it is stopping"}')
    done = run("cluster", "check", cluster.url, *QUICK, "--json", *access, code=1)
    told = json.loads(done.stdout)
    assert told["findings"] == []
    assert "broker b:8080 did not tell its bundles" in told["not_known"][0]
    assert b"owners not known: broker b:8080" in done.stderr
    done = run("cluster", "cursors", cluster.url, "--all", "--json", *access, code=1)
    assert {one["owner"] for one in json.loads(done.stdout)} == {"unknown"}
    assert b"it is stopping" in done.stderr


def test_a_wrong_token_or_address_is_told_after_the_results(cluster: LiveCluster, broker: AdminServer) -> None:
    done = run("cluster", "cursors", cluster.url, "--admin", broker.url, "--token", "other", code=1)
    assert b"does not know who asks" in done.stderr
    assert b"no address" in run("cluster", "check", cluster.url, "--admin", "http://b:x", code=2).stderr


def test_a_dump_has_no_brokers_to_ask(cluster: LiveCluster, broker: AdminServer, tmp_path: Path) -> None:
    dump = str(tmp_path / "dump.json.zst")
    run("cluster", "dump", cluster.url, dump)
    done = run("cluster", "cursors", dump, "--admin", broker.url, code=2)
    assert b"a dump has the owners of its own time" in done.stderr
    assert broker.seen == []
