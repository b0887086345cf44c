"""How many partitions topics have, set in a new cluster: where there is no number yet, or the same one."""

import pytest

from ledgerfs_cluster.recovery.settings.partitions import set_partitions
from tests.cluster.recovery.lost import locked
from tests.cluster.support.live_clusters import LiveCluster
from tests.support.each import for_each

NAME = "shop/eu/persistent/p"
pytestmark = pytest.mark.process
PATH = f"/admin/partitioned-topics/{NAME}"


def told(cluster: LiveCluster, count: int) -> str | None:
    with locked(cluster) as (lock, _):
        return set_partitions(lock, {NAME: count}).get(NAME)


def kept(cluster: LiveCluster) -> bytes:
    found = cluster.zookeeper.get(cluster.chroot + PATH)
    assert found is not None
    return found[0]


def test_a_number_is_set_once(cluster: LiveCluster) -> None:
    assert told(cluster, 3) is None
    assert kept(cluster) == b'{"partitions": 3}'
    assert told(cluster, 3) is None
    assert told(cluster, 4) == "the new cluster has it with 3 partitions, and it had 4"
    assert kept(cluster) == b'{"partitions": 3}'


@for_each("data", [b"{", b"[]", b'{"partitions": "3"}', b'{"partitions": true}', b""])
def test_a_node_that_is_damaged_is_told_and_stays(cluster: LiveCluster, data: bytes) -> None:
    cluster.zookeeper.set(cluster.chroot + PATH, data)
    found = told(cluster, 3)
    assert found is not None
    assert found.startswith("the new cluster has it, and nobody knows with how many partitions: ")
    assert kept(cluster) == data
