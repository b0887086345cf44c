"""`ledgerfs lifecycle run`, `status` and `undo` as users run them, on a cluster of ours: what is due is done, by one service at a time."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs.bucket.opening import open_bucket
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.service.status import STATUS_PATH
from ledgerfs_cluster.offload.journal import ROOT
from ledgerfs_cluster.offload.opening import holder_text
from ledgerfs_cluster.zookeeper.changes import LOCK_PATH, ClusterLock
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from ledgerfs_cluster.zookeeper.nodes import Nodes
from tests.cluster.support.live_broker import LiveBroker, live_broker
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.sick_clusters import write_of
from tests.support.children import started
from tests.support.commands import LEDGERFS, output, run
from tests.support.waiting import wait_until

KEPT, PASSING = "public/kept/t", "public/passing/t"
FOUL = b"\xff\xff no list"
KEEP_ALL = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    """Topics of three old ledgers and a current one each, which no broker has; of the second one subscription has passed two."""
    old = time.time_ns() // 1_000_000 - 3_600_000
    with LiveCluster(tmp_path / "cluster") as made:
        made.zookeeper.takes_writes = True
        made.bucket().mkdir(parents=True)
        made.write_ledgers(KEPT, [messages(20, prefix=str(n)) for n in range(4)], closed_ms=old)
        ids = made.write_ledgers(PASSING, [messages(20, prefix=str(n)) for n in range(4)], closed_ms=old)
        made.add_cursor(PASSING, "s", (ids[1], 19))
        made.set_policies("public/kept", retention_policies=KEEP_ALL)
        made.set_policies("public/passing", retention_policies={"retentionTimeInMinutes": 1, "retentionSizeInMB": -1})
        yield made


@pytest.fixture(name="policy")
def _policy(cluster: LiveCluster, tmp_path: Path) -> str:
    path = tmp_path / "policy.toml"
    path.write_text(f"""
cluster = "{cluster.url}"
[service]
every = "1s"
store_rate = "2GiB"
[broker]
deletion_lag = "0s"
[defaults]
trash_grace = "1h"
orphans = true
orphan_grace = "0s"
[buckets.tier]
url = "{cluster.bucket_url()}"
bucket = "tier"
region = "us-east-1"
[[topics]]
match = "public/(kept|passing)/.*"
offload_after = "1m"
bucket = "tier"
""")
    return str(path)


def listed(cluster: LiveCluster, topic: str) -> list[LedgerInfo]:
    data = cluster.nodes[managed_ledger_path(managed_ledger_of(topic))]
    return list(parse_managed_ledger_info(data, key="").ledgers)


def read(cluster: LiveCluster, topic: str) -> list[tuple[int, int, bytes]]:
    options = {"bucket_urls": {"tier": cluster.bucket_url()}, "open_end": "acknowledged"}
    return [
        (one.ref.ledger_id, entry, bytes(data))
        for one in open_bucket(cluster.url, options).topic(topic).ledgers
        for batch in one.batches(0, one.last_entry)
        for entry, data in batch
    ]


def orphan(cluster: LiveCluster, ledger_id: int) -> int:
    """Write a ledger that a trim has left: older than all that its topic lists."""
    owner, old = ("pulsar/managed-ledger", managed_ledger_of(KEPT)), time.time_ns() // 1_000_000 - 3_600_000
    return write_of(cluster, "managed-ledger", owner, created_ms=old, state=CLOSED, ledger_id=ledger_id)


def ask(policy: str, broker: LiveBroker) -> None:
    """Have the policy name a broker."""
    text = Path(policy).read_text()
    Path(policy).write_text(text.replace("[service]", f'admin = "{broker.url}"\n[service]'))


def test_what_is_due_is_offloaded_and_a_broker_deletes(cluster: LiveCluster, policy: str, tmp_path: Path) -> None:
    before = {topic: cluster.entries_of(topic) for topic in (KEPT, PASSING)}
    ids = {topic: [one.ledger_id for one in cluster.list_of(topic).ledgers] for topic in (KEPT, PASSING)}
    Path(policy).write_text(Path(policy).read_text().replace('trash_grace = "1h"', 'trash_grace = "0s"'))
    left = orphan(cluster, 7)
    # Without one it waits.
    done = run("lifecycle", "run", policy, "--once", "--yes")
    assert [one.is_offloaded for one in listed(cluster, KEPT)] == [True, True, True, False]
    assert all(ledger_path(one) in cluster.nodes for one in (*ids[KEPT], *ids[PASSING]))
    assert b"not done" not in done.stderr
    with live_broker(cluster, past_retention=set(ids[PASSING][:2]), deletes_copies=True) as broker:
        ask(policy, broker)
        for _ in range(2):
            run("lifecycle", "run", policy, "--once", "--yes")
        # They were not loaded before.
        assert sorted(broker.unloads) == sorted(map(managed_ledger_of, (KEPT, PASSING)))
        assert broker.loaded == set()
        gone = [*ids[KEPT][:3], *ids[PASSING][:3], left]
        assert [one for one in gone if ledger_path(one) in cluster.nodes] == []
        assert read(cluster, KEPT) == before[KEPT]
        assert read(cluster, PASSING) == [one for one in before[PASSING] if one[0] in ids[PASSING][2:]]
        assert not any(path.startswith(f"{ROOT}/") for path in cluster.nodes)
        assert json.loads(output("lifecycle", "plan", policy, "--json"))["actions"] == []
    gauges = tmp_path / "gauges.prom"
    run("lifecycle", "status", policy, "--prometheus", str(gauges), code=1)
    assert "ledgerfs_lifecycle_backlog_bytes" in gauges.read_text()


def test_nothing_is_done_without_a_yes(cluster: LiveCluster, policy: str) -> None:
    before = cluster.nodes
    done = run("lifecycle", "run", policy, "--once", code=2)
    assert b"pass --yes" in done.stderr
    assert cluster.nodes == before


def test_a_second_service_is_reported_who_has_the_lock(cluster: LiveCluster, policy: str) -> None:
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        with ClusterLock.take(living.nodes.settings, b'{"host": "elsewhere"}'):
            before = cluster.nodes
            done = run("lifecycle", "run", policy, "--once", "--yes", code=3)
            assert b"elsewhere" in done.stderr
            assert b"elsewhere" in run("lifecycle", "undo", policy, "orphan-1", code=3).stderr
            assert cluster.nodes == before
    finally:
        living.nodes.close()


def test_failures_are_reported_and_nothing_is_left_over(cluster: LiveCluster, policy: str) -> None:
    cluster.bucket().rmdir()
    cluster.bucket().write_bytes(b"no folder")
    done = run("lifecycle", "run", policy, "--once", "--yes", code=1)
    assert b"not done: offload public/kept/persistent/t, ledger 150" in done.stderr
    assert not any(one.is_offloaded for one in listed(cluster, KEPT))


def foul_while_copied(cluster: LiveCluster, topic: str) -> None:
    """Make a topic's list unreadable as soon as a copy of it is noted."""
    name = managed_ledger_of(topic)

    def at_write() -> None:
        noted = [data for path, data in cluster.nodes.items() if path.startswith(f"{ROOT}/attempt-")]
        if any(name.encode() in data for data in noted) and cluster.nodes[managed_ledger_path(name)] != FOUL:
            cluster.zookeeper.set(managed_ledger_path(name), FOUL)

    cluster.zookeeper.at_write = at_write


def test_a_service_with_a_topic_that_cannot_be_completed_ends_and_says_so(cluster: LiveCluster, policy: str) -> None:
    foul_while_copied(cluster, PASSING)
    command = [LEDGERFS, "lifecycle", "run", policy, "--yes"]
    with started(command, stderr=subprocess.PIPE, env=dict(os.environ)) as process:
        try:
            wait_until(lambda: sum(one.is_offloaded for one in listed(cluster, KEPT)) == 3, seconds=300)
            process.send_signal(signal.SIGTERM)
            assert process.wait(300) == 1
        finally:
            process.kill()
        assert process.stderr is not None
        assert b"not done: offload public/passing/persistent/t: canceled" in process.stderr.read()
    assert LOCK_PATH not in cluster.nodes
    # What was copied is noted, for the next run to clean up.
    assert any(path.startswith(f"{ROOT}/attempt-") for path in cluster.nodes)


def test_what_a_broker_leaves_when_it_is_asked_to_trim_is_reported(cluster: LiveCluster, policy: str) -> None:
    with live_broker(cluster) as broker:
        broker.load(PASSING)
        ask(policy, broker)
        Path(policy).write_text(Path(policy).read_text().replace('offload_after = "1m"', "offload = false"))
        done = run("lifecycle", "run", policy, "--once", "--yes", code=1)
        assert b"did not trim 2 of 2 due ledgers" in done.stderr
        broker.past_retention = {154, 155}
        run("lifecycle", "run", policy, "--once", "--yes")


def test_a_lock_that_is_no_services_is_said(cluster: LiveCluster, policy: str) -> None:
    nodes = Nodes(cluster.zookeeper.address)
    try:
        for what, code in (("ManagedLedger", 1), ("lifecycle service", 0)):
            with ClusterLock.take(nodes.settings, holder_text(what)):
                assert what in run("lifecycle", "status", policy, code=code).stderr.decode()
    finally:
        nodes.close()


def test_a_record_is_taken_back(cluster: LiveCluster, policy: str) -> None:
    for one in (7, 8):
        orphan(cluster, one)
    run("lifecycle", "run", policy, "--once", "--yes")
    records = [one["node"] for one in json.loads(output("lifecycle", "status", policy, "--json", code=1))["marked"]]
    assert records == ["orphan-7", "orphan-8"]
    run("lifecycle", "undo", policy, "orphan-7")
    run("lifecycle", "undo", policy, "orphan-7", code=2)
    left = json.loads(output("lifecycle", "status", policy, "--json", code=1))["marked"]
    assert [one["node"] for one in left] == ["orphan-8"]


def test_a_damaged_record_is_reported_keeps_no_other_back_and_is_dropped(cluster: LiveCluster, policy: str) -> None:
    ids = [orphan(cluster, one) for one in (7, 8)]
    path, data = f"{ROOT}/orphan-7", b"\xffrandom"
    cluster.zookeeper.set(path, data)
    done = run("lifecycle", "run", policy, "--once", "--yes", code=1)
    assert f"not done: {path}: ".encode() in done.stderr
    assert b"remove it with `ledgerfs lifecycle undo orphan-7`" in done.stderr
    # The other one is marked, and what else is due is done.
    assert sorted(one for one in cluster.nodes if one.startswith(f"{ROOT}/")) == [path, f"{ROOT}/orphan-8"]
    assert [one.is_offloaded for one in listed(cluster, KEPT)] == [True, True, True, False]
    for command in ("plan", "status"):
        assert path.encode() in run("lifecycle", command, policy, code=1).stderr
    assert b"was damaged and is removed from the journal" in run("lifecycle", "undo", policy, "orphan-7").stderr
    assert path not in cluster.nodes
    assert all(ledger_path(one) in cluster.nodes for one in ids)
    run("lifecycle", "run", policy, "--once", "--yes")
    assert cluster.nodes[path] != data


def keep(policy: Path, topic: str) -> None:
    """Edit a policy file, as an operator does who wants nothing of a topic trimmed any more."""
    wish = f"[[topics]]\nmatch = '{topic}'\ntrim = false\noffload = false\n"
    made = policy.with_suffix(".new")
    made.write_text(policy.read_text().replace("[[topics]]", f"{wish}[[topics]]", 1))
    made.replace(policy)


def test_what_is_marked_by_a_policy_that_was_edited_meanwhile_stays(cluster: LiveCluster, policy: str) -> None:
    ids = [orphan(cluster, one) for one in (7, 8, 9)]
    text = Path(policy).read_text().replace('trash_grace = "1h"', 'trash_grace = "0s"')
    Path(policy).write_text(text.replace('offload_after = "1m"', "offload = false"))
    run("lifecycle", "run", policy, "--once", "--yes")
    edited: list[int] = []

    def edit() -> None:
        """Edit the file once the first one is deleted, and the next one is about to be."""
        gone = [one for one in ids if ledger_path(one) not in cluster.nodes]
        if gone and not edited:
            edited.extend(gone)
            keep(Path(policy), KEPT)

    cluster.zookeeper.at_write = edit
    run("lifecycle", "run", policy, "--once", "--yes", code=3)
    assert len(edited) == 1
    assert sum(ledger_path(one) in cluster.nodes for one in ids) == 1


def test_a_service_goes_on_by_an_edited_policy_once_it_is_valid(cluster: LiveCluster, policy: str) -> None:
    Path(policy).write_text(Path(policy).read_text().replace('trash_grace = "1h"', 'trash_grace = "0s"'))
    command = [LEDGERFS, "lifecycle", "run", policy, "--yes", "--pass-seconds", "0"]
    with started(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ)) as process:
        try:
            wait_until(lambda: sum(one.is_offloaded for one in listed(cluster, KEPT)) == 3, seconds=300)
            text = Path(policy).read_text()
            Path(policy).write_text(text.replace("offload_after", "offload_aftr"))
            process.send_signal(signal.SIGHUP)
            status = ["lifecycle", "status", policy.replace("policy.toml", "other.toml"), "--json"]
            Path(status[2]).write_text(text)
            wait_until(lambda: "did you mean offload_after" in output(*status), seconds=300)
            kept = orphan(cluster, 7)
            reported = json.loads(output(*status))
            assert reported["holder"]["says"]["pid"] == process.pid
            passes = reported["passes"]
            wait_until(lambda: json.loads(output(*status))["passes"] > passes + 1, seconds=300)
            assert ledger_path(kept) in cluster.nodes
            assert not [path for path in cluster.nodes if path.startswith(f"{ROOT}/")]
            Path(policy).write_text(text + "# edited\n")
            wait_until(lambda: ledger_path(kept) not in cluster.nodes, seconds=300)
            process.send_signal(signal.SIGTERM)
            assert process.wait(300) == 0
        finally:
            process.kill()
        assert process.stderr is not None
        assert b"now uses the new policy" in process.stderr.read()
    assert LOCK_PATH not in cluster.nodes


def test_a_damaged_status_is_said_and_the_journal_is_shown(cluster: LiveCluster, policy: str) -> None:
    orphan(cluster, 7)
    Path(policy).write_text(Path(policy).read_text().replace('offload_after = "1m"', "offload = false"))
    run("lifecycle", "run", policy, "--once", "--yes")
    good = json.loads(cluster.nodes[STATUS_PATH])
    for bad in (b"null", json.dumps({**good, "passes": "many"}).encode()):
        cluster.zookeeper.set(STATUS_PATH, bad)
        shown = run("lifecycle", "status", policy, code=1)
        assert b"orphan-7" in shown.stdout
        assert b"/ledgerfs/lifecycle/status: " in shown.stderr
    reported = json.loads(output("lifecycle", "status", policy, "--json", code=1))
    assert [one["node"] for one in reported["marked"]] == ["orphan-7"]
    assert list(reported["unreadable"]) == [STATUS_PATH]
    # The service writes it anew.
    run("lifecycle", "run", policy, "--once", "--yes")
    assert json.loads(output("lifecycle", "status", policy, "--json", code=1))["unreadable"] == {}


def test_the_status_needs_no_policy_where_the_cluster_is_named(cluster: LiveCluster, policy: str) -> None:
    shown = [
        output("lifecycle", "status", *which, "--json", code=1) for which in ((policy,), ("--cluster", cluster.url))
    ]
    assert shown[0] == shown[1]
    error = run("lifecycle", "status", code=2).stderr.decode()
    assert "POLICY" in error
    assert "or --cluster" in error
    # All else needs to know what is to be done.
    assert "Missing argument 'POLICY'" in run("lifecycle", "run", "--cluster", cluster.url, code=2).stderr.decode()
