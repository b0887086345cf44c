"""Entries in Kafka's format: named as such, never taken for damage, and never changed."""

import pytest

from ledgerfs.errors import CorruptMessageError, KafkaEntryError, UnsupportedFormatError
from ledgerfs.messages.decode.entries import DecodeOptions, Skipped, TopicDecoder
from ledgerfs.messages.decode.named_versions import versions_and_kafka
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord, Property
from ledgerfs.messages.transforms.unbatch import unbatch
from tests.support.entries import TOPIC, batch_of, batched, decode, decode_entries, frame, metadata
from tests.support.kafka_entries import kafka_entry
from tests.support.transforms import transformed

PLAIN = frame(metadata(publish_time_ms=100), b"of Pulsar")
BATCH = batched([(BatchedMetadataRecord(), b"x"), (BatchedMetadataRecord(), b"y")])
KAFKA = kafka_entry([b"a", b"b"])
MARK = Property(key=b"entry.format", value=b"kafka")
COLUMNS = (None, ["value"], ["publish_time"], ["entry_id", "batch_index"])
KAFKA_ENTRIES = {
    "one record": kafka_entry([b"a"]),
    "two records": KAFKA,
    "mixed_kafka": kafka_entry([b"a"], format_name=b"mixed_kafka"),
    "with a checksum": kafka_entry([b"a"], checksum=True),
    "compressed records": kafka_entry([b"a"], claimed=100_000),
}


@pytest.mark.parametrize("entry", KAFKA_ENTRIES.values(), ids=KAFKA_ENTRIES.keys())
def test_they_are_named_whatever_is_read_of_them(entry: bytes) -> None:
    assert issubclass(KafkaEntryError, UnsupportedFormatError)
    for columns in COLUMNS:
        with pytest.raises(KafkaEntryError, match=r"entry 1:1: .*entry\.format=kafka.*--on-corrupt skip"):
            decode_entries([PLAIN, entry], columns=columns)


def test_skipping_leaves_out_only_them_and_reports_neighbours_together() -> None:
    entries = [KAFKA, PLAIN, KAFKA, KAFKA, kafka_entry([b"a"]), BATCH, KAFKA]
    for columns in (["entry_id", "value"], ["entry_id", "publish_time"]):
        decoder = TopicDecoder(TOPIC, DecodeOptions(columns, on_corrupt="skip"))
        table = decode(decoder, batch_of(entries))
        assert table["entry_id"].to_pylist() == [1, 5, 5]
        assert [(one.first_entry, one.last_entry) for one in decoder.skipped] == [(0, 0), (2, 4), (6, 6)]
        assert all(isinstance(one, Skipped) and "entry.format=kafka" in one.reason for one in decoder.skipped)


def test_messages_of_pulsar_with_such_properties_are_read() -> None:
    entries = [
        frame(metadata(property=[MARK]), b"of a user"),
        batched([(BatchedMetadataRecord(property=[MARK]), b"of a user")]),
        batched(
            [(BatchedMetadataRecord(), b"written by KoP")], property=[Property(key=b"entry.format", value=b"pulsar")]
        ),
        batched(
            [(BatchedMetadataRecord(), b"of another key")], property=[Property(key=b"kafka", value=b"entry.format")]
        ),
    ]
    assert decode_entries(entries, columns=["value"])["value"].to_pylist() == [
        b"of a user",
        b"of a user",
        b"written by KoP",
        b"of another key",
    ]


def test_a_damaged_one_is_damage() -> None:
    sound = kafka_entry([b"a"], checksum=True)
    with pytest.raises(CorruptMessageError, match="CRC32C"):
        decode_entries([sound[:-1] + b"?"])


def test_one_outside_of_the_range_of_time_is_not_read() -> None:
    entries = [kafka_entry([b"a"], publish_time_ms=50), PLAIN]
    assert decode_entries(entries, columns=["value"], start_ms=100)["value"].to_pylist() == [b"of Pulsar"]


@pytest.mark.parametrize("transform", [unbatch(), unbatch("lz4")])
def test_transforms_leave_them_as_they_are(transform) -> None:
    made = transformed(transform, [*KAFKA_ENTRIES.values(), BATCH, KAFKA])
    assert made[: len(KAFKA_ENTRIES)] == list(KAFKA_ENTRIES.values())
    assert made[-1] == KAFKA
    assert made[len(KAFKA_ENTRIES)] != BATCH


def test_the_walk_of_verify_counts_them() -> None:
    named = frame(metadata(schema_version=(3).to_bytes(8, "big")), b"value")
    assert versions_and_kafka(batch_of([named, *KAFKA_ENTRIES.values(), BATCH])) == ({3}, len(KAFKA_ENTRIES))
    others = [frame(metadata(property=[MARK]), b"value"), batched([], property=[MARK])[:-1], b"", b"\xff" * 40]
    assert versions_and_kafka(batch_of([named, *others]))[0] == {3}
