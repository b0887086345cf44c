"""One place that cannot be read keeps nothing else back, and a pass that ends early is in the status."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from ledgerfs.errors import AccessDeniedError
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs_cluster.lifecycle.service.making import service_of
from ledgerfs_cluster.lifecycle.service.service import Service
from ledgerfs_cluster.lifecycle.service.status import STATUS_PATH, Status, parse_status
from ledgerfs_cluster.offload.journal import ROOT, JournalRecord, RecordKind
from ledgerfs_cluster.zookeeper.filesystem import ClusterFileSystem
from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.cluster.support.living_clusters import PATIENCE_S
from tests.cluster.support.sick_clusters import write_of
from tests.support.invoked import run
from tests.support.waiting import wait_until

SHOWN, HIDDEN = "public/default/shown", "public/default/hidden"
HOUR = 3_600_000
UUID = "00112233-4455-6677-8899-aabbccddeeff"
FOLDER = "/managed-ledgers/public/default"
OLDER = count(7)
"""Ids, less than those of any list."""
PATIENT = ["-o", f"timeout_s={PATIENCE_S}"]


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    """Two topics of two old ledgers and a current one each, and ledgers that were made for them and that nothing names."""
    old = time.time_ns() // 1_000_000 - HOUR
    with LiveCluster(tmp_path / "cluster") as made:
        made.zookeeper.takes_writes = True
        made.bucket().mkdir(parents=True)
        made.set_policies("public/default", retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
        for topic in (SHOWN, HIDDEN):
            made.write_ledgers(topic, [messages(20, prefix=str(n)) for n in range(3)], closed_ms=old)
        yield made


def orphan(cluster: LiveCluster, topic: str) -> int:
    owner = ("pulsar/managed-ledger", managed_ledger_of(topic))
    made_ms = time.time_ns() // 1_000_000 - HOUR
    # Older than all that is listed: what a trim has left.
    return write_of(cluster, "managed-ledger", owner, created_ms=made_ms, state=CLOSED, ledger_id=next(OLDER))


def policy(cluster: LiveCluster, more: str = "") -> str:
    return f"""
cluster = "{cluster.url}"
[service]
every = "1s"
[defaults]
trash_grace = "1h"
orphans = true
orphan_grace = "0s"
[buckets.tier]
url = "{cluster.bucket_url()}"
bucket = "tier"
{more}
[[topics]]
match = ".*"
offload_after = "1m"
bucket = "tier"
"""


@contextmanager
def service(cluster: LiveCluster, text: str) -> Iterator[Service]:
    living = ClusterFileSystem().cluster(cluster.url.removeprefix("pulsar+zk://"))
    file = parse_policy_file(text.encode(), Path("policy.toml"))
    file = replace(file, service=replace(file.service, every_ms=10))
    try:
        with service_of(file, living, None, None, 0.0) as made:
            yield made
    finally:
        living.nodes.close()


def offloaded(cluster: LiveCluster, topic: str) -> int:
    data = cluster.nodes[managed_ledger_path(managed_ledger_of(topic))]
    return sum(one.is_offloaded for one in parse_managed_ledger_info(data, key="").ledgers)


def status(cluster: LiveCluster) -> Status:
    return parse_status(cluster.nodes[STATUS_PATH], key=STATUS_PATH)


def marked(cluster: LiveCluster) -> list[str]:
    return [path.removeprefix(f"{ROOT}/") for path in cluster.nodes if path.startswith(f"{ROOT}/")]


def test_a_list_that_is_damaged_keeps_no_other_topic_back(cluster: LiveCluster) -> None:
    seen, unseen = orphan(cluster, SHOWN), orphan(cluster, HIDDEN)
    path = managed_ledger_path(managed_ledger_of(HIDDEN))
    cluster.zookeeper.set(path, b"\xff\xff")
    with service(cluster, policy(cluster)) as made:
        made.run(lambda *_: None, once=True)
        reported = [one.text for one in made.events.troubles()]
    assert offloaded(cluster, SHOWN) == 2
    assert marked(cluster) == [f"orphan-{seen}"]
    assert ledger_path(unseen) in cluster.nodes
    assert any(managed_ledger_of(HIDDEN) in one and "not a valid protobuf message" in one for one in reported)
    found = status(cluster)
    assert (found.passes, found.failed_passes, found.refused["unreadable"]) == (1, 0, 1)


def test_a_bucket_that_cannot_be_listed_keeps_nothing_else_back(cluster: LiveCluster, tmp_path: Path) -> None:
    away = f"file://{tmp_path}/away"
    seen = orphan(cluster, SHOWN)
    now = time.time_ns() // 1_000_000
    record = JournalRecord(
        *(RecordKind.OBJECTS, 7, managed_ledger_of(SHOWN), UUID, away, "nobody names it", -1, 5),
        *(now - 2 * HOUR, now - HOUR),
    )
    cluster.zookeeper.set(record.path, record.build(), created_ms=now - 2 * HOUR)
    text = policy(cluster, f'[buckets.away]\nurl = "{away}"\n')
    with service(cluster, text) as made:
        made.run(lambda *_: None, once=True)
        reported = [one.text for one in made.events.troubles()]
    assert offloaded(cluster, SHOWN) == 2
    assert sorted(marked(cluster)) == sorted([record.name, f"orphan-{seen}"])
    assert any(one.startswith(away) for one in reported)
    (tmp_path / "policy.toml").write_text(text)
    command = ["lifecycle", "plan", str(tmp_path / "policy.toml"), "--json", "--pass-seconds", "0"]
    done = run(*command, *PATIENT, code=1)
    refused = {(one["kind"], one["subject"], one["refusal"]) for one in json.loads(done.stdout)["refused"]}
    assert refused >= {(None, away, "unreadable"), ("delete", managed_ledger_of(SHOWN), "unreadable")}
    assert away.encode() in done.stderr


def test_a_pass_that_ends_early_is_in_the_status_until_one_is_whole(cluster: LiveCluster, tmp_path: Path) -> None:
    text = policy(cluster)
    (tmp_path / "policy.toml").write_text(text)
    command = ["lifecycle", "status", str(tmp_path / "policy.toml"), *PATIENT]
    with service(cluster, text) as made:
        made.run(lambda *_: None, once=True)
    whole = status(cluster)
    cluster.zookeeper.no_auth(FOLDER)
    with service(cluster, text) as made:
        thread = Thread(target=made.run, args=(lambda *_: None,))
        thread.start()
        try:
            wait_until(lambda: status(cluster).failed_passes > 1)
            found, shown = status(cluster), run(*command)
            cluster.zookeeper.as_to_all(FOLDER)
            wait_until(lambda: status(cluster).passes > 0)
        finally:
            made.stop()
            thread.join()
    assert (found.passes, found.passed_ms) == (0, whole.passed_ms)
    assert found.began_ms > whole.passed_ms
    assert found.troubles[-1].text.startswith(f"this pass failed: {FOLDER}: ")
    assert b"no pass has been completed since" in shown.stderr
    assert status(cluster).failed_passes == 0


def test_one_pass_alone_that_ends_early_is_an_error_and_in_the_status(cluster: LiveCluster) -> None:
    cluster.zookeeper.no_auth(FOLDER)
    with service(cluster, policy(cluster)) as made, pytest.raises(AccessDeniedError):
        made.run(lambda *_: None, once=True)
    assert (status(cluster).failed_passes, status(cluster).passed_ms) == (1, 0)
