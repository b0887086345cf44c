"""Deletions that read much take turns, whatever else is due, and end with the service."""

import json
import logging
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ledgerfs.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.topic_names import managed_ledger_of
from ledgerfs.lifecycle.acting.turn import Turn
from ledgerfs.lifecycle.journal.trash_line import TRASH, TrashState, parse_trash_line
from ledgerfs.lifecycle.policy.policy_file import parse_policy_file
from ledgerfs.lifecycle.service.making import Made, service_of
from ledgerfs.lifecycle.service.status import STATUS_PATH
from ledgerfs.storage.token_bucket import Bandwidth
from ledgerfs.storage.zookeeper.changes import LOCK_PATH
from ledgerfs.storage.zookeeper.filesystem import ClusterFileSystem
from tests.support.commands import running
from tests.support.live_clusters import LiveCluster, messages
from tests.support.living_clusters import PATIENCE_S
from tests.support.waiting import wait_until

FIRST, SECOND = "public/default/first", "public/default/second"
OLD_MS = 3_600_000


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Iterator[LiveCluster]:
    """Two topics that no broker has, with two old ledgers each that are offloaded, and a current one."""
    old = time.time_ns() // 1_000_000 - OLD_MS
    with LiveCluster(tmp_path / "cluster") as made:
        made.zookeeper.takes_writes = True
        made.set_policies("public/default", retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
        for topic in (FIRST, SECOND):
            for one in made.write_ledgers(topic, [messages(20, prefix=str(n)) for n in range(3)], closed_ms=old)[:2]:
                made.offload(topic, one, offloaded_ms=old)
        yield made


def policy(cluster: LiveCluster, more: str = "", match: str = ".*") -> str:
    return f"""
cluster = "{cluster.url}"
[service]
every = "1s"
{more}
[defaults]
trash_grace = "0s"
[buckets.tier]
url = "{cluster.bucket_url()}"
[[topics]]
match = "{match}"
deletion_lag = "0s"
offload = false
"""


@contextmanager
def service(cluster: LiveCluster, more: str = "", match: str = ".*", every_ms: int = 1000) -> Iterator[Made]:
    options = {"bucket_urls": {"tier": cluster.bucket_url()}, "timeout_s": PATIENCE_S}
    living = ClusterFileSystem(**options).cluster(cluster.url.removeprefix("pulsar+zk://"))
    try:
        file = parse_policy_file(policy(cluster, more, match).encode(), Path("policy.toml"))
        file = replace(file, service=replace(file.service, every_ms=every_ms))
        with service_of(file, living, None, None, 0.0) as made:
            yield made
    finally:
        living.nodes.close()


@pytest.fixture(name="short_turns")
def _short_turns(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """One ledger a turn."""
    monkeypatch.setattr("ledgerfs.lifecycle.service.making.Turn", partial(Turn, most_s=0))
    caplog.set_level(logging.INFO, "ledgerfs.lifecycle")


def deleted(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage().split(": ")[1] for one in caplog.records if one.getMessage().startswith("deleted: ")]


def flagged(cluster: LiveCluster, topic: str) -> int:
    data = cluster.nodes[managed_ledger_path(managed_ledger_of(topic))]
    contexts = [one.context for one in parse_managed_ledger_info(data, key="").ledgers]
    return sum(one is not None and one.is_deleted_from_bookkeeper for one in contexts)


def require_turns(found: list[str]) -> None:
    first, second = map(managed_ledger_of, (FIRST, SECOND))
    assert found in ([first, second] * 2, [second, first] * 2)


@pytest.mark.usefixtures("short_turns")
def test_once_goes_on_turn_by_turn_until_all_is_done(cluster: LiveCluster, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        with service(cluster) as made:
            made.service.run(lambda *_: None, once=True)
            assert made.events.troubles() == []
    require_turns(deleted(caplog))


def test_what_is_compared_passes_at_the_rates_of_the_store_and_of_bookies(
    cluster: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: Counter[float | None] = Counter()
    wait = Bandwidth.wait

    def counted(self: Bandwidth, size: float, *others: Any) -> bool:
        passed[self.rate] += int(size)
        return wait(self, size, *others)

    monkeypatch.setattr(Bandwidth, "wait", counted)
    store, bookies = 1 << 40, 1 << 41
    size = sum(one.size for topic in (FIRST, SECOND) for one in cluster.list_of(topic).ledgers[:2])
    for _ in range(2):
        with service(cluster, f"store_rate = {store}\nbookie_rate = {bookies}") as made:
            made.service.run(lambda *_: None, once=True)
            assert made.events.troubles() == []
    assert flagged(cluster, FIRST) + flagged(cluster, SECOND) == 4
    assert passed[store] == size
    assert passed[bookies] >= size


@pytest.mark.usefixtures("short_turns")
def test_a_pass_ends_with_its_time_and_the_next_one_begins_with_who_had_no_turn(
    cluster: LiveCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledgerfs.lifecycle.service.service._DELETIONS_S", 0)
    with service(cluster, every_ms=10) as made:
        thread = Thread(target=made.service.run, args=(lambda *_: None,))
        thread.start()
        try:
            wait_until(lambda: flagged(cluster, FIRST) + flagged(cluster, SECOND) == 4)
        finally:
            made.service.stop()
            thread.join()
        assert made.events.troubles() == []
    require_turns(deleted(caplog))
    # One that marks, and one for each ledger; the last may have been cut short.
    assert json.loads(cluster.nodes[STATUS_PATH])["passes"] >= 4


def asked(cluster: LiveCluster, topic: str) -> int:
    ids = {one.ledger_id for one in cluster.list_of(topic).ledgers[:-1]}
    return sum(one.ledger_id in ids for bookie in cluster.bookies for one in bookie.asked)


@pytest.mark.long
@pytest.mark.parametrize("rate", ["store_rate", "bookie_rate"])
def test_a_service_that_compares_ends_when_it_is_told_to_and_deletes_nothing(
    cluster: LiveCluster, tmp_path: Path, rate: str
) -> None:
    big = "public/default/big"
    old = time.time_ns() // 1_000_000 - OLD_MS
    for one in cluster.write_ledgers(big, [messages(300, size=100) for _ in range(4)], closed_ms=old)[:-1]:
        cluster.offload(big, one, offloaded_ms=old)
    with service(cluster, match=big) as made:
        made.service.run(lambda *_: None, once=True)
    path = tmp_path / "policy.toml"
    # What is read first passes at once; the rest would take half a day.
    path.write_text(policy(cluster, f"{rate} = 1", match=big))
    options = [f'bucket_urls={{"tier": "{cluster.bucket_url()}"}}', f"timeout_s={PATIENCE_S}"]
    command = ["lifecycle", "run", str(path), "--yes", *(word for one in options for word in ("-o", one))]
    for once in ([], ["--once"]):
        before = asked(cluster, big)
        with running(*command, *once) as process:
            wait_until(lambda: asked(cluster, big) > before)  # noqa: B023  (it is called at once)
            # Now it compares the first ledger, and soon it waits for the second one. It is to end in either case.
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            assert process.wait(300) == 0
        assert flagged(cluster, big) == 0
        states = {
            parse_trash_line(data, key=node).state
            for node, data in cluster.nodes.items()
            if node.startswith(f"{TRASH}/") and b"public/default/persistent/big" in data
        }
        assert states == {TrashState.MARKED}
        assert LOCK_PATH not in cluster.nodes
