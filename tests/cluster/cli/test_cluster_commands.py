"""`ledgerfs cluster …` as a user runs it, on a cluster of ours and on a dump of it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.support.live_clusters import LiveCluster, messages
from tests.support.commands import output as output_of_process
from tests.support.commands import run as run_process
from tests.support.invoked import output, run

DAY = 86_400_000
TOPIC = "persistent://public/default/orders"


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Three ledgers of which two are old, a subscription in the second, an offload that failed, and a topic of policies."""
    now = time.time_ns() // 1_000_000
    with LiveCluster(tmp_path_factory.mktemp("cluster")) as made:
        first = made.write_ledger(TOPIC, messages(50))
        second = made.write_ledger(TOPIC, messages(30), closed_ms=now - 3 * DAY)
        third = made.write_ledger(TOPIC, messages(3), closed_ms=now - 2 * DAY)
        assert (first, second, third) == (150, 151, 152)
        made.offload(TOPIC, first, is_complete=False)
        made.add_cursor(TOPIC, "slow", (second, 9), last_active_ms=now - 9 * DAY)
        made.add_cursor(TOPIC, "done", (third, 2), stale=(first, 1), last_active_ms=now)
        made.write_ledger("persistent://public/own/\x1b[31mred", messages(2))
        made.write_ledger("persistent://public/own/__change_events", messages(2))
        made.set_policies(
            "public/default",
            retention_policies={"retentionTimeInMinutes": 60, "retentionSizeInMB": -1},
            offload_policies={
                "managedLedgerOffloadThresholdInBytes": 500,
                "managedLedgerOffloadThresholdInSeconds": -1,
            },
        )
        before = made.nodes
        yield made
        assert made.nodes == before
        assert made.not_reads() == []


@pytest.fixture(scope="module", name="dump")
def _dump(cluster: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("dump") / "dump.json.zst"
    run_process("cluster", "dump", cluster.url, str(path))
    return str(path)


def test_cursors_says_who_is_behind_and_holds_what_back(cluster: LiveCluster, dump: str) -> None:
    for source in (cluster.url, dump):
        found = {
            one["subscription"]: one for one in json.loads(output("cluster", "cursors", source, "--all", "--json"))
        }
        assert (found["slow"]["backlog_entries"], found["slow"]["holds_back_ledgers"]) == (23, 1)
        assert (found["done"]["position"], found["done"]["position_may_be_old"]) == ([152, 2], False)
    inactive = json.loads(output("cluster", "cursors", dump, "--inactive", "7d", "--json"))
    assert [one["subscription"] for one in inactive] == ["slow"]
    assert inactive[0]["holds_back_bytes"] == sum(map(len, messages(30)))
    blind = json.loads(output("cluster", "cursors", cluster.url, "--all", "--json", "--no-bookies"))
    assert [one["position_may_be_old"] for one in blind if one["subscription"] == "done"] == [True]
    assert "151:9" in output_of_process("cluster", "cursors", dump)


def test_a_rate_and_a_login_are_those_of_zookeeper(cluster: LiveCluster, tmp_path: Path) -> None:
    began = time.monotonic()
    run(
        "cluster",
        "dump",
        cluster.url,
        str(tmp_path / "x"),
        "--zk-rate",
        "40",
        "--no-bookies",
        "-o",
        "username=u",
        "-o",
        "password=p",
    )
    assert time.monotonic() - began > 0.5
    assert ("digest", b"u:p") in cluster.zookeeper.logins


def test_wrong_use_and_missing_servers_have_their_exit_codes(cluster: LiveCluster, dump: str, tmp_path: Path) -> None:
    assert b"not the URL of a cluster" in run("cluster", "dump", "s3://tier", str(tmp_path / "x"), code=2).stderr
    assert b"already exists" in run("cluster", "dump", cluster.url, dump, code=2).stderr
    assert b"no topic with this name" in run("cluster", "cursors", dump, "--topic", "nothing", code=2).stderr
    assert b"-o" in run("cluster", "cursors", cluster.url, "-o", "nonsense=1", code=2).stderr
    run("cluster", "cursors", str(tmp_path / "none.json.zst"), code=2)
    (tmp_path / "text").write_text("text\n")
    run("cluster", "cursors", str(tmp_path / "text"), code=1)
    done = run("cluster", "cursors", "pulsar+zk://127.0.0.1:1", "-o", "timeout_s=1", code=3)
    assert b"no ZooKeeper server answered" in done.stderr
    run("cluster", "cursors", f"{cluster.url}/elsewhere", code=3)
