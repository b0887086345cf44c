"""One message by its id: the right one, for few requests."""

import gzip
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.topic import Topic
from ledgerfs.errors import (
    CorruptMessageError,
    EncryptedMessageError,
    InvalidNameError,
    LedgerfsError,
    NotFoundError,
)
from ledgerfs.messages.proto.message_metadata_pb2 import BatchedMetadataRecord
from ledgerfs.scan.message_by_id import COLUMNS, Message
from ledgerfs.scan.message_id import MessageId
from tests.support.each import for_each
from tests.support.entries import batched, frame, metadata
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.stores import counting_bucket

GOLDEN = "persistent://public/golden/"
ABORT = 22


def topic_with(folder: Path, *entries: list[bytes], name: str = "orders") -> Topic:
    made = [
        offload(one, i, uuid=i, block_size=1 << 20, name=f"public/default/persistent/{name}")
        for i, one in enumerate(entries, 1)
    ]
    return open_bucket(put_in_folder(folder, *made)).topic(f"public/default/{name}")


def message(i: int, **fields: object) -> bytes:
    return frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i, **fields), b"value %d" % i)


def batch(size: int) -> bytes:
    return batched([(BatchedMetadataRecord(), b"%d" % i) for i in range(size)])


def chunk(number: int, count: int = 3, identity: bytes = b"a") -> bytes:
    return frame(metadata(chunked_id=identity, chunks=count, chunk=number), b"part %d;" % number)


@for_each("name", ["plain", "batched-lz4", "txn", "avro-batched", "chunked", "partitioned-partition-1"])
def test_every_message_of_a_topic_is_found_by_its_id(bucket: Bucket, name: str) -> None:
    topic = bucket.topic(GOLDEN + name)
    table = topic.scan(COLUMNS).to_arrow()
    assert table.num_rows
    for row in table.to_pylist()[:: max(1, table.num_rows // 25)]:
        by_tuple = (row["ledger_id"], row["entry_id"], *([] if row["batch_index"] is None else [row["batch_index"]]))
        found = topic.message(by_tuple)
        assert {column: getattr(found, column) for column in COLUMNS} == row
        assert topic.message(found.id) == found
        assert topic.message(":".join(map(str, by_tuple))) == found


def test_the_message_of_the_docs(bucket: Bucket) -> None:
    topic = bucket.topic(f"{GOLDEN}plain")
    found = topic.message("26:3:0")
    assert isinstance(found, Message)
    assert (found.id, found.key, found.properties) == ("26:3:-1", "k3", [("n", "3"), ("empty", "")])
    assert found.publish_time == datetime(2026, 11, 21, 6, 0, 13, 186000, tzinfo=UTC)
    assert found == topic.message("26:3") == topic.message("26:3:-1") == topic.message((26, 3))


# Requests.


def test_it_costs_what_reading_its_entry_costs(golden_url: str) -> None:
    bucket, store = counting_bucket(golden_url)
    topic = bucket.topic(f"{GOLDEN}plain")
    topic.message("26:3")
    assert len(store.requests) == 2  # index, and one window
    store.requests.clear()
    topic.message("26:100")
    assert len(store.requests) == 1


# Ids.


@for_each(
    ("text", "parts"),
    [
        ("26:3", (26, 3, None, None)),
        ("26:3:-1", (26, 3, None, None)),
        ("26:3:7", (26, 3, None, 7)),
        ("26:3:-1:7", (26, 3, None, 7)),
        ("26:3:4:7", (26, 3, 4, 7)),
        ("26:3:4:-1", (26, 3, 4, None)),
        ((26, 3, -1, 7), (26, 3, None, 7)),
        ([26, 3], (26, 3, None, None)),
        ("25:1:-1;26:3:-1", (26, 3, None, None)),
    ],
)
def test_ids_of_every_kind(text: object, parts: tuple[object, ...]) -> None:
    found = MessageId.of(text)
    assert (found.ledger_id, found.entry_id, found.partition, found.index) == parts
    assert found.first == ((25, 1) if isinstance(text, str) and ";" in text else None)


@for_each(
    "wrong",
    ["", "26", "26:", "26:x", "-1:3", "26:3:-2", "26:3:1:2:3", "26:3;", ";26:3", " 26:3", "26:3\n", "٢:٣", 26, None,
     (), (26,), (26, 3.5), ("26", "-3"), b"26:3", (1, 2, 3, 4, 5), "9" * 20 + ":0"],
)  # fmt: skip
def test_what_is_no_id_is_reported(bucket: Bucket, wrong: object) -> None:
    with pytest.raises(InvalidNameError, match="not a message id"):
        bucket.topic(f"{GOLDEN}plain").message(wrong)


def test_which_message_of_an_entry_is_meant(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [message(0), batch(3), batch(1)], name="orders-partition-2")
    assert [topic.message(f"1:1:{i}").value for i in range(3)] == [b"0", b"1", b"2"]
    assert [topic.message((1, 1, 2, i)).value for i in (2, 0)] == [b"2", b"0"]
    assert [topic.message(text).id for text in ("1:0", "1:0:2", "1:0:0", "1:0:-1", "1:0:2:-1")] == ["1:0:2"] * 5
    assert [topic.message(text).id for text in ("1:2", "1:2:0", "1:2:-1", "1:2:2:0")] == ["1:2:2:0"] * 4
    with pytest.raises(InvalidNameError, match=r"message 1:1: the entry is a batch of 3 messages; .* 1:1:0 to 1:1:2"):
        topic.message("1:1")
    for missing, why in [
        ("1:1:3", "batch of 3 messages"),
        ("1:2:2", "batch of 1 messages"),
        ("1:0:1", "not a batch"),
        ("1:0:1:0", "not in this partition"),
        ("1:3", "ledger ends with entry 2"),
        ("2:0", "no such ledger"),
        ("9999999999999999999:0", "no such ledger"),
    ]:
        with pytest.raises(NotFoundError, match=why) as caught:
            topic.message(missing)
        assert caught.value.key == f"message {missing}"


def test_outside_partitioned_topics_no_partition_is_right(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [message(0)])
    assert topic.message("1:0:-1").partition is None
    with pytest.raises(NotFoundError, match="not a batch"):
        topic.message("1:0:1")
    with pytest.raises(NotFoundError, match="not in this partition"):
        topic.message("1:0:0:0")


def test_a_ledger_of_another_topic_is_not_found(bucket: Bucket) -> None:
    with pytest.raises(NotFoundError, match="message 33:0"):
        bucket.topic(f"{GOLDEN}plain").message("33:0")


@for_each("name", [None, "no/topic"])
def test_ledgers_without_a_topics_name_have_messages_too(
    tmp_path_factory: pytest.TempPathFactory, name: str | None
) -> None:
    tmp_path = tmp_path_factory.mktemp("case")
    bucket = open_bucket(put_in_folder(tmp_path, offload([message(5)], name=name)))
    (info,) = bucket.topics()
    assert bucket.topic(info.name).message("1:0").sequence_id == 5


# What is special about some.


def test_a_message_comes_whatever_became_of_its_transaction(tmp_path: Path) -> None:
    fields = {"transaction_least": 1, "transaction_most": 7}
    marker = frame(metadata(marker_type=ABORT, **fields))
    topic = topic_with(tmp_path, [message(0, **fields), marker])
    assert topic.message("1:0").txn_id == "(7,1)"
    with pytest.raises(NotFoundError, match="marker"):
        topic.message("1:1")
    assert topic.message("1:1", include_markers=True).sequence_id == 1


def test_encrypted_messages_behave_as_in_a_scan(bucket: Bucket, golden: Path) -> None:
    topic = bucket.topic(f"{GOLDEN}encrypted")
    with pytest.raises(EncryptedMessageError, match="entry 44:0"):
        topic.message("44:0")
    assert topic.message("44:0", on_encrypted="null").value is None
    with pytest.raises(NotFoundError, match="encrypted"):
        topic.message("44:0", on_encrypted="skip")
    keys = {"golden.key": golden / "keys" / "private.pem"}
    with gzip.open(golden / "expected-decrypted" / "public%2Fgolden%2Fencrypted.jsonl.gz", "rt") as lines:
        last = [json.loads(line) for line in lines][-1]
    parts = (last["ledger_id"], last["entry_id"], *([] if last["batch_index"] is None else [last["batch_index"]]))
    assert topic.message(parts, private_keys=keys).sequence_id == last["sequence_id"]


def test_damage_is_reported(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [message(0), message(1)[:-1] + b"?"])
    with pytest.raises(CorruptMessageError, match=r"entry 1:1.*CRC32C"):
        topic.message("1:1")
    assert topic.message("1:1", check_checksums=False).value == b"value ?"
    assert topic.message("1:0").value == b"value 0"


def test_times_that_no_calendar_holds_are_none(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [frame(metadata(publish_time_ms=2**53, event_time_ms=2**52), b"x")])
    found = topic.message("1:0")
    assert (found.publish_time, found.event_time, found.value) == (None, None, b"x")


# Chunked messages.


@for_each("identity", ["1:1", "1:3", "1:4", "1:1:-1;1:4:-1", "1:4:-1", "1:4:0"])
def test_a_chunked_message_is_found_by_any_of_its_parts(
    tmp_path_factory: pytest.TempPathFactory, identity: str
) -> None:
    tmp_path = tmp_path_factory.mktemp("case")
    topic = topic_with(tmp_path, [message(0), chunk(0), chunk(0, 2, b"b"), chunk(1), chunk(2), chunk(1, 2, b"b")])
    found = topic.message(identity)
    assert (found.id, found.value) == ("1:4:-1", b"part 0;part 1;part 2;")
    assert topic.message("1:2").value == topic.message("1:5").value == b"part 0;part 1;"


def test_a_part_without_the_others_is_not_found(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [chunk(0), chunk(2), message(0)], [chunk(1, 2, b"b"), chunk(0, 2, b"c")])
    for identity in ("1:0", "1:1", "2:0", "2:1"):
        with pytest.raises(NotFoundError, match="part of a chunked message") as caught:
            topic.message(identity)
        assert caught.value.key == f"message {identity}"
    with pytest.raises(NotFoundError, match="9:9, is not in this topic"):
        topic.message("9:9;1:1")


def test_an_id_of_other_parts_is_not_found(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [chunk(0), chunk(0, identity=b"b"), chunk(1), chunk(2), chunk(0), chunk(1), chunk(2)])
    assert topic.message("1:0;1:3").id == "1:3:-1"
    with pytest.raises(NotFoundError, match="1:0"):
        topic.message("1:0;1:6")


def test_damage_among_the_entries_around_a_chunked_message_is_not_its_own(tmp_path: Path) -> None:
    broken = message(7)[:-1] + b"?"
    topic = topic_with(tmp_path, [broken, chunk(0), broken, chunk(1), chunk(2), broken])
    for entry in (1, 3, 4):
        assert topic.message((1, entry)).value == b"part 0;part 1;part 2;"


def test_damage_to_another_part_is_reported(tmp_path: Path) -> None:
    topic = topic_with(tmp_path, [chunk(0), chunk(1)[:-1] + b"?", chunk(2)])
    for entry in (0, 2):
        with pytest.raises(LedgerfsError, match=f"1:{entry}|1:1"):
            topic.message((1, entry))
