"""A cluster of ours and the broker that changes it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerfs_cluster.lifecycle.brokers.outcomes import ListReader, list_reader
from ledgerfs_cluster.zookeeper.nodes import Nodes
from tests.cluster.support.live_broker import LiveBroker, live_broker
from tests.cluster.support.live_clusters import TOPIC, LiveCluster, messages
from tests.cluster.support.living_clusters import PATIENCE_S


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveCluster]:
    """A topic of three closed ledgers and an open one, 150 to 153."""
    with LiveCluster(tmp_path) as made:
        made.write_ledgers(TOPIC, [messages(5, f"{number}-") for number in range(4)])
        yield made


@pytest.fixture
def broker(live: LiveCluster) -> Iterator[LiveBroker]:
    """Its broker, which has nothing loaded."""
    with live_broker(live) as made:
        yield made


@pytest.fixture
def nodes(live: LiveCluster) -> Iterator[Nodes]:
    """Its ZooKeeper."""
    made = Nodes(live.zookeeper.address, timeout_s=PATIENCE_S)
    yield made
    made.close()


@pytest.fixture
def listed(nodes: Nodes) -> ListReader:
    """What reads its lists."""
    return list_reader(nodes)
