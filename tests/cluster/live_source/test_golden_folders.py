"""A cluster whose offloader writes MapFiles: what a real broker noted leads to what it wrote, when BookKeeper has nothing any more."""

from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.errors import NotFoundError
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import ledger_path
from tests.cluster.support.golden_nodes import GoldenNodes
from tests.cluster.support.zookeeper import ZooKeeperServer

NOTED = "file:///var/pulsar/tier1"
"""The base folder of the machine that made the set."""


@pytest.fixture(scope="module")
def url(golden_mapfiles: Path) -> object:
    """A ZooKeeper with the set's nodes, of which BookKeeper's copies of offloaded ledgers, and the ledger still written, are gone."""
    bucket = open_bucket(f"file://{golden_mapfiles}/bucket")
    offloaded = {ref.ledger_id for ref in bucket.catalog.refs()}
    with ZooKeeperServer() as server:
        for path, data in GoldenNodes.of(golden_mapfiles).nodes.items():
            server.set(path, data)
        for ledger_id in offloaded:
            server.delete(ledger_path(ledger_id))
        yield f"pulsar+zk://{server.address}"


def test_each_topic_is_that_of_the_folder(url: str, golden_mapfiles: Path) -> None:
    folder = f"file://{golden_mapfiles}/bucket"
    expected = open_bucket(folder)
    cluster = open_bucket(url, {"bucket_urls": {NOTED: folder}})
    compared = 0
    for ref in expected.catalog.refs():
        ledger, same = cluster.ledger(ref.ledger_id), expected.ledger(ref.ledger_id)
        assert ledger.read(0, ref.last_entry) == same.read(0, ref.last_entry)
        assert (ledger.ref.topic, ledger.ref.length, ledger.last_entry) == (ref.topic, ref.length, ref.last_entry)
        compared += ref.entries
    assert compared > 2000


def test_the_folder_of_another_machine_is_not_there(url: str) -> None:
    cluster = open_bucket(url)
    with pytest.raises(NotFoundError, match="var/pulsar/tier1"):
        cluster.ledger(next(cluster.catalog.refs()).ledger_id).read(0, 0)
