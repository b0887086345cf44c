"""`ledgerfs lifecycle plan` as a user runs it, on a cluster of ours and on a dump of it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.offload.journal import ROOT, JournalRecord
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.sick_clusters import write_of
from tests.support.commands import run as run_process
from tests.support.invoked import output, run

DAY = 86_400_000
TOPIC, LOADED = "persistent://public/default/orders", "persistent://public/loaded/t"
SIZE = sum(map(len, messages(30)))
UUID = "00112233-4455-6677-8899-aabbccddeeff"


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Three ledgers of which the first is past retention, one orphan, a topic that a broker has, and an attempt."""
    now = time.time_ns() // 1_000_000
    with LiveCluster(tmp_path_factory.mktemp("cluster"), chroot="/pulsar") as made:
        made.bucket().mkdir(parents=True)
        first = made.write_ledger(TOPIC, messages(50))
        second = made.write_ledger(TOPIC, messages(30), closed_ms=now - 9 * DAY)
        third = made.write_ledger(TOPIC, messages(3), closed_ms=now - 2 * DAY)
        made.add_cursor(TOPIC, "done", (third, 2))
        made.write_ledger(LOADED, messages(5))
        made.write_ledger(LOADED, messages(5), closed_ms=now - 9 * DAY)
        made.own_bundle("public/loaded", "0x00000000_0xffffffff")
        owner = ("pulsar/managed-ledger", managed_ledger_of(TOPIC))
        orphan = write_of(made, "managed-ledger", owner, created_ms=now - 9 * DAY, state=CLOSED)
        assert (first, second, third, orphan) == (150, 151, 152, 155)
        record = JournalRecord.attempt(managed_ledger_of(TOPIC), second, "s3://tier", now - DAY, UUID)
        made.zookeeper.set(f"/pulsar{record.path}", record.build(), created_ms=now - DAY)
        before = made.nodes
        yield made
        assert made.nodes == before
        assert made.not_reads() == []


@pytest.fixture(name="policy")
def _policy(cluster: LiveCluster, tmp_path: Path) -> str:
    path = tmp_path / "policy.toml"
    path.write_text(f"""
cluster = "{cluster.url}"
[broker]
retention_minutes = {5 * 1440}
retention_megabytes = -1
[buckets.tier]
url = "{cluster.bucket_url()}"
[[topics]]
match = 'public/.*'
offload_after = "1d"
bucket = "tier"
""")
    return str(path)


def test_a_plan_reports_each_action_with_why(cluster: LiveCluster, policy: str) -> None:
    reported = json.loads(output("lifecycle", "plan", policy, "--json"))
    found = {(one["kind"], one["topic"]): one for one in reported["actions"]}
    offload = found["offload", TOPIC]
    assert (offload["ledgers"], offload["bytes"], offload["via"]) == ([151], SIZE, "direct")
    assert (offload["bucket"], "closed 2.0 d ago" in offload["why"]) == (cluster.bucket_url(), True)
    assert [one["node"] for one in found["clean", TOPIC]["records"]] == [f"attempt-151-{UUID}"]
    assert set(found) == {("offload", TOPIC), ("clean", TOPIC)}
    waiting = {(one["kind"], one["topic"]): one for one in reported["waiting"] if 150 in one["ledgers"]}
    assert "its address is missing" in waiting["trim", TOPIC]["why"]
    assert reported["refused"] == []
    assert reported["policy"] == policy


def test_the_table_has_actions_and_with_all_what_waits_and_is_refused(policy: str) -> None:
    done = run_process("lifecycle", "plan", policy)
    text, said = done.stdout.decode(), done.stderr.decode()
    assert [line.split()[0] for line in text.splitlines()] == ["what", "offload", "clean"]
    assert "offload: 1 for 1 ledgers" in said
    assert "waiting: 2 trim" in said
    assert "--all lists" in said
    every = output("lifecycle", "plan", policy, "--all")
    assert "a broker has to trim, but its address is missing" in every
    alone = run("lifecycle", "plan", policy, "--topic", LOADED)
    assert alone.stdout == b""
    assert b"no work is due" in alone.stderr


def test_a_broker_that_is_named_is_planned_for_and_not_asked(policy: str) -> None:
    reported = json.loads(output("lifecycle", "plan", policy, "--json", "--admin", "http://127.0.0.1:1"))
    found = {(one["kind"], one["via"]) for one in reported["actions"] if one["topic"] == LOADED}
    assert found == {("trim", "broker")}
    # The topic that is offloaded directly is trimmed afterwards.
    assert ("trim", TOPIC) not in {(one["kind"], one["topic"]) for one in reported["actions"]}
    assert reported["refused"] == []


def test_without_a_policy_it_is_planned_what_brokers_do(cluster: LiveCluster, policy: str) -> None:
    """By the cluster's own policies; where these have no retention, brokers' defaults hold, which are not known."""
    reported = json.loads(output("lifecycle", "plan", "--cluster", cluster.url, "--json"))
    assert (reported["policy"], [one for one in reported["actions"] if one["kind"] != "clean"]) == (None, [])
    refused = {(one["kind"], one["refusal"]) for one in reported["refused"]}
    assert refused == {("trim", "unknown-policies")}
    with_policies = {"retentionTimeInMinutes": 5 * 1440, "retentionSizeInMB": -1}
    offload = {"managedLedgerOffloadThresholdInBytes": 100, "managedLedgerOffloadThresholdInSeconds": -1}
    made = cluster.nodes
    cluster.set_policies("public/loaded", retention_policies=with_policies, offload_policies=offload)
    try:
        reported = json.loads(output("lifecycle", "plan", "--cluster", cluster.url, "--topic", LOADED, "--json"))
    finally:
        cluster.set_policies("public/loaded")
    assert cluster.nodes == made
    assert {(one["kind"], one["via"]) for one in reported["actions"]} == {("trim", "broker")}
    assert b"POLICY" in run("lifecycle", "plan", code=2).stderr


def test_a_dump_is_planned_for_without_notes(cluster: LiveCluster, policy: str, tmp_path: Path) -> None:
    run("cluster", "dump", cluster.url, str(tmp_path / "dump.json.zst"))
    done = run("lifecycle", "plan", policy, "--cluster", str(tmp_path / "dump.json.zst"), "--json")
    reported = json.loads(done.stdout)
    assert {(one["kind"], tuple(one["ledgers"])) for one in reported["actions"]} == {("offload", (151,))}
    assert b"this plan is from a dump" in done.stderr
    # One that the file names is beside it.
    text = Path(policy).read_text().replace(cluster.url, "dump.json.zst")
    Path(policy).write_text(text)
    assert json.loads(output("lifecycle", "plan", policy, "--json"))["actions"] == reported["actions"]


def test_wrong_use_is_named(policy: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text("[[topics]]\nmatch = '.*'\ntrimm = false\n")
    assert b"bad.toml: topics[1].trimm" in run("lifecycle", "plan", str(bad), code=2).stderr
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert b"does not contain a cluster" in run("lifecycle", "plan", str(empty), code=2).stderr
    assert b"no topic with this name" in run("lifecycle", "plan", policy, "--topic", "nothing", code=2).stderr
    assert b"cannot be read" in run("lifecycle", "plan", str(tmp_path / "none.toml"), code=2).stderr


def test_nodes_that_cannot_be_read_are_an_exit_code(policy: str, tmp_path: Path) -> None:
    with LiveCluster(tmp_path) as cluster:
        cluster.write_ledger(TOPIC, messages(2))
        cluster.zookeeper.set(f"{ROOT}/orphan-1", b"{}")
        done = run("lifecycle", "plan", policy, "--cluster", cluster.url, "--json", code=1)
        reported = json.loads(done.stdout)
        assert [(one["subject"], one["refusal"]) for one in reported["refused"] if one["kind"] is None] == [
            (f"{ROOT}/orphan-1", "unreadable")
        ]
        cluster.zookeeper.delete(f"{ROOT}/orphan-1")
        run("lifecycle", "plan", policy, "--cluster", cluster.url)
        cluster.zookeeper.set("/managed-ledgers/public/default/persistent/broken", b"\xff\xff")
        done = run("lifecycle", "plan", policy, "--cluster", cluster.url, code=1)
        assert b"persistent/broken" in done.stderr
        cluster.zookeeper.delete("/managed-ledgers/public/default/persistent/broken")
        hidden = "/managed-ledgers/public/default/persistent/hidden"
        cluster.zookeeper.set(hidden, b"")
        cluster.zookeeper.set(f"{ROOT}/orphan-2", b"")
        cluster.zookeeper.no_auth(f"{ROOT}/orphan-2")
        done = run("lifecycle", "plan", policy, "--cluster", cluster.url, "--json", code=1)
        refused = {one["subject"] for one in json.loads(done.stdout)["refused"] if one["refusal"] == "unreadable"}
        assert refused == {f"{ROOT}/orphan-2"}
        cluster.zookeeper.no_auth(hidden)
        assert b"persistent/hidden" in run("lifecycle", "plan", policy, "--cluster", cluster.url, code=3).stderr
