"""The time to live as `ledgerfs cluster …` tells of it, of a cluster of ours and of a dump of it."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.invoked import output, run
from tests.support.live_clusters import CLOSED, LiveCluster, messages

TOPIC = "persistent://public/default/orders"


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Two ledgers of old messages that a subscription has not read, of a topic without any policy."""
    with LiveCluster(tmp_path_factory.mktemp("cluster")) as made:
        for _ in range(2):
            made.write_ledger(TOPIC, messages(9), state=CLOSED, closed_ms=time.time_ns() // 1_000_000)
        made.add_cursor(TOPIC, "slow", (150, 3), last_active_ms=1)
        yield made
        assert made.not_reads() == []


def test_what_brokers_expire_is_told_if_their_time_to_live_is(cluster: LiveCluster) -> None:
    options = ("--topic", TOPIC, "--json")
    (without,) = json.loads(output("cluster", "retention", cluster.url, *options))
    assert (without["ledgers"], without["ttl_seconds"], without["expiry"]) == ([], 0, "none")
    (found,) = json.loads(output("cluster", "retention", cluster.url, *options, "--broker-ttl-seconds", "60"))
    assert (found["ledgers"], found["ttl_seconds"], found["expiry"]) == ([150, 151], 60, "known")
    (one,) = json.loads(output("cluster", "cursors", cluster.url, *options, "--broker-ttl-seconds", "60"))
    assert (one["position"], one["expires_to"], one["holds_back_bytes"]) == ([150, 3], [151, 8], 0)
    assert "151:8" in output("cluster", "cursors", cluster.url, "--broker-ttl-seconds", "60")


def test_what_is_not_known_of_it_is_said(cluster: LiveCluster, tmp_path: Path) -> None:
    dumps = {ttl: str(tmp_path / f"{ttl}.json.zst") for ttl in ("0", "60")}
    for ttl, path in dumps.items():
        run("cluster", "dump", cluster.url, path, "--broker-ttl-seconds", ttl)
    for command in ("retention", "cursors"):
        told = run("cluster", command, dumps["0"], "--all", "--broker-ttl-seconds", "60")
        assert "1 topics have a time to live, and what it expires is not known" in told.stderr.decode()
        assert "+" in told.stdout.decode()
        known = run("cluster", command, dumps["60"], "--all", "--broker-ttl-seconds", "60")
        assert "time to live" not in known.stderr.decode()
    (found,) = json.loads(
        output("cluster", "retention", dumps["60"], "--topic", TOPIC, "--json", "--broker-ttl-seconds", "60")
    )
    assert found["ledgers"] == [150, 151]


def test_a_check_names_no_subscription_that_may_be_expired(cluster: LiveCluster) -> None:
    def inactive(*options: str) -> tuple[int, bool]:
        told = json.loads(output("cluster", "check", cluster.url, "--pass-seconds", "0", "--json", *options))
        kinds = [one["kind"] for one in told["findings"]]
        return kinds.count("inactive-cursor"), any("time to live" in one for one in told["not_judged"])

    assert inactive() == (1, False)
    assert inactive("--broker-ttl-seconds", "60") == (0, False)
    assert inactive("--broker-ttl-seconds", "60", "--no-bookies") == (0, True)
