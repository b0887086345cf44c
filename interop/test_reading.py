"""What a real Pulsar offloaded, read without it."""

import pytest

from interop.cluster import Cluster
from interop.comparison import differences, read_with_ledgerfs
from interop.java_client import JavaClient, Lines
from interop.rewrite import verify
from interop.s3_server import BUCKET, S3Server
from interop.stages import stage
from interop.workload import Workload
from ledgerfs import open_bucket

pytestmark = pytest.mark.smoke


def test_ledgerfs_returns_what_pulsars_reader_returns(original: S3Server, java: JavaClient, truth: Lines) -> None:
    with stage("ledgerfs reads"):
        found = read_with_ledgerfs(original, java.keys)
    assert differences(found, truth) == []


def test_the_reader_returned_all_kinds_of_messages(truth: Lines) -> None:
    rows = {topic.rpartition("/")[2]: lines for topic, lines in truth.items()}
    assert {topic for topic, lines in rows.items() if not lines} == set()
    everything = [line for lines in rows.values() for line in lines]
    for field in ("batch_index", "key", "key_base64", "ordering_key", "event_time", "null_value", "properties"):
        assert any(line[field] for line in everything), field
    assert all(line["broker_time"] and line["broker_index"] is not None for line in everything)
    assert {line["properties"].get("fate") for line in rows["txn"]} == {None, "commit"}
    assert max(len(line["value"]) for line in rows["python-chunked"]) > 6_000_000


def test_the_bucket_alone_reports_topics_and_ledgers(original: S3Server, workload: Workload) -> None:
    bucket = open_bucket(f"s3://{BUCKET}", storage_options=original.options)
    found = {one.name: [ledger.ref.ledger_id for ledger in bucket.topic(one.name).ledgers] for one in bucket.topics()}
    assert found == workload.ledgers


def test_bookkeeper_has_none_of_it(cluster: Cluster, workload: Workload) -> None:
    offloaded = {ledger for ledgers in workload.ledgers.values() for ledger in ledgers}
    assert not offloaded & cluster.bookkeeper_ledgers()


def test_the_bucket_is_whole(original: S3Server, truth: Lines) -> None:
    verify(original)
