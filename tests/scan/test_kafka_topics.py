"""Topics with entries in Kafka's format: all that reads them names these alike, and reads the rest if that is asked for."""

from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import KafkaEntryError
from ledgerfs.export.export import export_topic
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.scan.report import ScanReport
from ledgerfs.verification.verify import verify
from ledgerfs.vfs.tree import tree_of
from tests.support.entries import frame, metadata
from tests.support.kafka_entries import kafka_entry
from tests.support.ledgers import CREATED_MS, offload, put_in_folder

KAFKA = kafka_entry([b"a", b"b"], publish_time_ms=CREATED_MS)
NOW_NS = CREATED_MS * 1_000_000


def message(value: bytes, **fields: object) -> bytes:
    return frame(metadata(publish_time_ms=CREATED_MS, **fields), value)


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    """A topic that clients of both kinds wrote."""
    entries = [message(b"before"), KAFKA, KAFKA, message(b"after")]
    return open_bucket(put_in_folder(tmp_path, offload(entries))).topic("orders")


def test_all_that_reads_them_names_the_first(topic: Topic, tmp_path: Path) -> None:
    bucket = topic.bucket
    reads = [
        lambda: topic.scan().to_arrow(),
        lambda: topic.scan([]).to_arrow(),
        lambda: topic.scan(["publish_time"]).to_arrow(),
        topic.count,
        lambda: topic.message("1:1"),
        lambda: export_topic(topic, tmp_path / "out", "jsonl"),
        lambda: tree_of(bucket).open("jsonl/public/default/orders/1.jsonl"),
    ]
    for read in reads:
        with pytest.raises(KafkaEntryError, match="entry 1:1"):
            read()
    assert topic.message("1:3").value == b"after"


def test_all_can_read_the_rest(topic: Topic, tmp_path: Path) -> None:
    scan = topic.scan(["value"], on_corrupt="skip")
    report = ScanReport()
    assert scan.to_arrow(report)["value"].to_pylist() == [b"before", b"after"]
    assert [(one.first_entry, one.last_entry) for one in report.skipped] == [(1, 2)]
    assert topic.scan(on_corrupt="skip").count() == topic.count(on_corrupt="skip") == 2
    report = export_topic(topic, tmp_path / "out", "jsonl", on_corrupt="skip")
    assert (report.rows, len(report.skipped)) == (2, 1)


def test_verify_calls_them_sound_and_remarks_on_them(topic: Topic) -> None:
    report = verify(topic.bucket)
    remarks = [one for one in report.findings if one.kind == "kafka-entries"]
    assert [one.message.partition(" entries")[0] for one in remarks] == ["2 of 4"]
    assert not report.is_damaged


def test_times_beyond_a_column_are_counted_by_each_kind_of_scan(tmp_path: Path) -> None:
    entries = [message(b"1", event_time_ms=CREATED_MS), message(b"2", event_time_ms=NOW_NS), message(b"3")]
    topic = open_bucket(put_in_folder(tmp_path, offload(entries))).topic("orders")
    reason = "its event_time does not fit 64 bits of µs and is null (Pulsar's times are ms)"
    wanted = [Undecodable(None, reason, 1, "1:1", raw=NOW_NS)]
    for options in ({}, {"values": "json"}):
        scan = topic.scan(["value", "event_time"], **options)
        for _ in range(2):
            report = ScanReport()
            assert scan.to_arrow(report)["event_time"].null_count == 2
            assert report.undecodable == wanted
        assert scan.count() == 3
    report = ScanReport()
    assert topic.scan(["value"]).to_arrow(report).num_rows == 3
    assert report.undecodable == []
    report = export_topic(topic, tmp_path / "out", "jsonl")
    assert report.undecodable == wanted
    assert export_topic(topic, tmp_path / "out", "jsonl").undecodable_before == 1
    assert topic.message("1:1").event_time is None
