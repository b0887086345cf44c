"""The time to live as `ledgerfs cluster …` tells of it, of a cluster of ours and of a dump of it."""

import json
import time
from collections.abc import Iterator

import pytest

from tests.cluster.support.live_clusters import CLOSED, LiveCluster, messages
from tests.support.invoked import output

TOPIC = "persistent://public/default/orders"


@pytest.fixture(scope="module", name="cluster")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    """Two ledgers that a subscription has not read, the first one closed two hours ago, of a topic without any policy."""
    with LiveCluster(tmp_path_factory.mktemp("cluster")) as made:
        for _ in range(2):
            made.write_ledger(TOPIC, messages(9), state=CLOSED, closed_ms=time.time_ns() // 1_000_000 - 7_200_000)
        made.add_cursor(TOPIC, "slow", (150, 3), last_active_ms=1)
        yield made
        assert made.not_reads() == []


def test_what_brokers_expire_is_told_if_their_time_to_live_is(cluster: LiveCluster) -> None:
    options = ("--topic", TOPIC, "--json")
    (without,) = json.loads(output("cluster", "cursors", cluster.url, *options))
    assert (without["expires_to"], without["ttl_seconds"]) == (None, 0)
    (one,) = json.loads(output("cluster", "cursors", cluster.url, *options, "--broker-ttl-seconds", "60"))
    assert (one["position"], one["expires_to"]) == ([150, 3], [150, 8])
    assert "150:8" in output("cluster", "cursors", cluster.url, "--broker-ttl-seconds", "60")


def test_a_check_counts_only_what_is_held_behind_the_time_to_live(cluster: LiveCluster) -> None:
    def held(*options: str) -> list[list[int]]:
        told = json.loads(output("cluster", "check", cluster.url, "--pass-seconds", "0", "--json", *options))
        return [one["ledgers"] for one in told["findings"] if one["kind"] == "inactive-cursor"]

    assert held() == [[150, 151]]
    assert held("--broker-ttl-seconds", "60") == [[151]]
