"""What our reader gets from a real broker, compared with the bucket: the frames are right if every entry comes once, with its bytes."""

from collections.abc import Iterator

import numpy as np
import pulsar
import pytest

from interop.cluster import Cluster
from interop.java_client import Lines
from interop.s3_server import BUCKET, S3Server
from interop.stages import stage
from interop.workload import NAMESPACE, Workload
from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import NotFoundError
from ledgerfs.formats.broker_protocol.commands import Position
from ledgerfs.recovery.comparison import TopicComparison, compare_topic
from ledgerfs.storage.admin_api.admin_requests import AdminRequests
from ledgerfs.storage.admin_api.service_address import service_address
from ledgerfs.storage.broker_protocol.reading import read_each, read_entries
from ledgerfs.storage.broker_protocol.service import BrokerService

IN_TRANSACTIONS = f"persistent://{NAMESPACE}/txn"
BESIDE = f"persistent://{NAMESPACE}/beside"


@pytest.fixture(scope="module")
def bucket(original: S3Server, truth: Lines) -> Bucket:
    """The bucket, which alone has the messages; the broker's caches are empty of them once Pulsar's reader has read them."""
    return open_bucket(f"s3://{BUCKET}", storage_options=original.options)


@pytest.fixture(scope="module")
def service(cluster: Cluster, workload: Workload) -> BrokerService:
    """The broker."""
    return BrokerService.at(cluster.service_url, silence_s=3)


@pytest.fixture
def beside(cluster: Cluster) -> Iterator[pulsar.Producer]:
    """A producer of a topic that is not offloaded."""
    client = pulsar.Client(cluster.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client.create_producer(BESIDE, batching_enabled=False)
    client.close()


def compared(bucket: Bucket, service: BrokerService, topic: str, sample: int | None = None) -> TopicComparison:
    """Compare a topic, of which aborted messages are those that a scan leaves out."""
    readers = bucket.topic(topic).ledgers
    hidden = {}
    if topic == IN_TRANSACTIONS:
        shown = bucket.topic(topic).scan(columns=["ledger_id", "entry_id"]).to_pandas()
        for reader in readers:
            of_ledger = shown.entry_id[shown.ledger_id == reader.ref.ledger_id]
            hidden[reader.ref.ledger_id] = np.setdiff1d(np.arange(reader.last_entry + 1), of_ledger)
        assert all(one.size for one in hidden.values())
    return compare_topic(service, topic, readers, hidden, sample=sample)


def test_a_broker_sends_all_that_the_bucket_has(bucket: Bucket, service: BrokerService, workload: Workload) -> None:
    with stage("compare through the broker"):
        found = {topic: compared(bucket, service, topic) for topic in workload.topics}
    assert {topic: one for topic, one in found.items() if not one.is_whole or one.is_silent or one.appended} == {}
    assert all(one.expected for one in found.values())


def test_a_broker_sends_each_of_a_sample(bucket: Bucket, service: BrokerService, workload: Workload) -> None:
    with stage("compare samples through the broker"):
        found = {topic: compared(bucket, service, topic, sample=3) for topic in workload.topics}
    assert {topic: one for topic, one in found.items() if not one.is_whole or one.is_silent} == {}


def test_the_admin_api_tells_where_the_broker_is(cluster: Cluster, workload: Workload) -> None:
    requests = AdminRequests(cluster.admin.address)
    told = {topic: service_address(requests, topic, has_tls=False) for topic in workload.topics}
    assert set(told.values()) == {cluster.service_url}


def test_what_is_not_hidden_from_it_is_missing(bucket: Bucket, service: BrokerService) -> None:
    topic = bucket.topic(IN_TRANSACTIONS)
    assert compare_topic(service, topic.name, topic.ledgers, {}).missing.count


def test_reading_goes_on_when_the_topic_is_unloaded(
    cluster: Cluster, service: BrokerService, beside: pulsar.Producer
) -> None:
    for number in range(3000):
        beside.send_async(b"%d" % number + bytes(10_000), lambda *_: None)
    beside.flush()
    reading = read_entries(service, BESIDE)
    first = next(reading)
    cluster.admin.unload(BESIDE)
    found = [first, *reading]
    positions = [Position(int(one.ledgers[row]), int(one.entries[row])) for one in found for row in range(len(one))]
    assert len(positions) == 3000
    assert positions == sorted(set(positions))
    assert not reading.is_silent
    middle = positions[1500]
    ((_, sent),) = read_each(service, BESIDE, [middle])
    assert sent is not None
    assert (sent.ledgers[0], sent.entries[0]) == middle
    (block, *_) = read_entries(service, BESIDE, middle)
    assert (block.ledgers[0], block.entries[0]) == middle


def test_a_topic_that_does_not_exist_is_not_made(cluster: Cluster, service: BrokerService) -> None:
    with pytest.raises(NotFoundError, match="no such topic"):
        list(read_entries(service, f"persistent://{NAMESPACE}/nowhere"))
    assert f"persistent://{NAMESPACE}/nowhere" not in cluster.admin.topics(NAMESPACE)
