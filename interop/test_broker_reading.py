"""What Pulsar's client gets from a real broker, compared with the bucket: every message has to come once, as it is."""

from collections.abc import Iterator

import numpy as np
import pytest

from interop.cluster import Cluster
from interop.java_client import Lines
from interop.live_producer import LiveProducer, connected, produce_to
from interop.s3_server import BUCKET, S3Server
from interop.stages import stage
from interop.workload import NAMESPACE, Workload, make_tenant
from ledgerfs import Bucket, open_bucket
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs_cluster.recovery.checking.comparison import TopicComparison, compare_topic
from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService

IN_TRANSACTIONS = f"persistent://{NAMESPACE}/txn"
BESIDE = "public/beside"
"""A namespace whose topics are not offloaded."""


@pytest.fixture(scope="module")
def bucket(original: S3Server, truth: Lines) -> Bucket:
    """The bucket, which alone has the messages; the broker's caches are empty of them once Pulsar's reader has read them."""
    return open_bucket(f"s3://{BUCKET}", storage_options=original.options)


@pytest.fixture(scope="module")
def service(cluster: Cluster) -> Iterator[PulsarService]:
    """The broker."""
    made = PulsarService(cluster.service_url)
    yield made
    made.close()


@pytest.fixture
def beside(cluster: Cluster) -> Iterator[LiveProducer]:
    """A producer of a topic that is not offloaded, one message an entry."""
    make_tenant(cluster)
    cluster.admin.make_namespace(BESIDE)
    with connected(cluster.service_url) as client:
        yield produce_to(client, f"persistent://{BESIDE}/orders", 10_000)


def compared(bucket: Bucket, service: PulsarService, topic: str) -> TopicComparison:
    """Compare a topic, of which aborted messages are those that a scan leaves out."""
    readers = bucket.topic(topic).ledgers
    hidden = {}
    if topic == IN_TRANSACTIONS:
        shown = bucket.topic(topic).scan(columns=["ledger_id", "entry_id"]).to_pandas()
        for reader in readers:
            of_ledger = shown.entry_id[shown.ledger_id == reader.ref.ledger_id]
            hidden[reader.ref.ledger_id] = np.setdiff1d(np.arange(reader.last_entry + 1), of_ledger)
        assert all(one.size for one in hidden.values())
    return compare_topic(service, topic, readers, hidden)


def test_a_broker_sends_all_that_the_bucket_has(bucket: Bucket, service: PulsarService, workload: Workload) -> None:
    with stage("compare through the broker"):
        found = {topic: compared(bucket, service, topic) for topic in workload.topics}
    wrong = {
        topic: str(one) for topic, one in found.items() if not one.is_whole or one.is_silent or one.counts["appended"]
    }
    assert wrong == {}
    assert all(one.expected for one in found.values())


def test_what_is_not_hidden_from_it_is_missing(bucket: Bucket, service: PulsarService) -> None:
    topic = bucket.topic(IN_TRANSACTIONS)
    assert compare_topic(service, topic.name, topic.ledgers, {}).counts["missing"]


def positions(service: PulsarService, topic: str) -> Iterator[Position]:
    with service.reading(topic) as reading:
        while not reading.is_at_end():
            sent = reading.next(60)
            assert sent is not None
            yield Position(sent.message_id().ledger_id(), sent.message_id().entry_id())


def test_reading_goes_on_when_the_topic_is_unloaded(
    cluster: Cluster, service: PulsarService, beside: LiveProducer
) -> None:
    beside.send(3000)
    beside.wait(3000)
    reading = positions(service, beside.topic)
    found = [next(reading)]
    cluster.admin.unload(beside.topic)
    found += reading
    assert len(found) == 3000
    assert found == sorted(set(found))
