"""Every golden ledger, read in every way, against the blocks that a real Pulsar wrote."""

import base64
import gzip
import json
import struct
from pathlib import Path
from urllib.parse import quote

import fsspec
import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from ledgerfs.upkeep.verification import verify
from tests.support.s3 import S3Server

BLOCK_HEADER = struct.Struct(">Iqqq")
RECORD = struct.Struct(">iq")


def records_by_hand(data: bytes) -> list[bytes]:
    """Split a data object into its records with nothing but the block headers: another way than ours, which uses the index."""
    records: list[bytes] = []
    at = 0
    while at < len(data):
        magic, header_length, block_length, first = BLOCK_HEADER.unpack_from(data, at)
        assert magic == 0xFBDBABCB
        assert first == len(records)
        position, end = at + header_length, at + block_length
        while position + RECORD.size <= end:
            length, entry_id = RECORD.unpack_from(data, position)
            if length < 0 or entry_id != len(records):
                break
            records.append(data[position : position + RECORD.size + length])
            position += RECORD.size + length
        at = end
    return records


def test_each_entries_file_is_its_records_byte_for_byte(bucket: Bucket, golden: Path) -> None:
    seen = 0
    for ref in bucket.catalog.refs():
        records = records_by_hand((golden / "bucket" / ref.object("data").key).read_bytes())
        ledger = bucket.reader(ref)
        assert len(records) == ledger.last_entry + 1
        assert ledger.read_records(0, ledger.records_size) == b"".join(records)
        seen += 1
    assert seen == 104


def test_each_entry_is_read_as_it_was_written(bucket: Bucket, golden: Path) -> None:
    for ref in bucket.catalog.refs():
        records = records_by_hand((golden / "bucket" / ref.object("data").key).read_bytes())
        entries = bucket.reader(ref).read(0, ref.last_entry)
        assert [entry.id for entry in entries] == list(range(len(records)))
        assert [bytes(entry.data) for entry in entries] == [record[12:] for record in records]


def test_the_same_through_s3(s3_golden: str, s3: S3Server, golden: Path) -> None:
    bucket = open_bucket(s3_golden, s3.options)
    for ref in bucket.catalog.refs():
        ledger = bucket.reader(ref)
        records = b"".join(records_by_hand((golden / "bucket" / ref.object("data").key).read_bytes()))
        assert ledger.read_records(0, ledger.records_size) == records


def test_the_same_in_memory(golden: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe({f"/tier-in-memory/{path.name}": path.read_bytes() for path in (golden / "bucket").iterdir()})
    bucket = open_bucket("memory://tier-in-memory")
    assert len(bucket.topics()) == 35
    report = verify(bucket)
    assert (report.entries, report.is_damaged) == (4221, False)


def test_the_topics_are_those_that_the_broker_counted(bucket: Bucket, golden: Path) -> None:
    stats = json.loads((golden / "stats.json").read_text())
    expected = {
        topic: (
            len(offloaded := [ledger for ledger in one["ledgers"] if ledger["offloaded"]]),
            sum(ledger["entries"] for ledger in offloaded),
            sum(ledger["size"] for ledger in offloaded),
        )
        for topic, one in stats.items()
    }
    assert {topic.name: (topic.ledgers, topic.entries, topic.bytes) for topic in bucket.topics()} == expected


def test_topics_and_ledgers_are_found_by_the_names_of_the_broker(bucket: Bucket, golden: Path) -> None:
    for name, one in json.loads((golden / "stats.json").read_text()).items():
        ids = [ledger["ledgerId"] for ledger in one["ledgers"] if ledger["offloaded"]]
        assert [ledger.ref.ledger_id for ledger in bucket.topic(name).ledgers] == sorted(ids)
        assert all(bucket.ledger(ledger_id).ref.topic == name for ledger_id in ids)


def test_what_the_java_reader_returned_stands_in_the_entries(bucket: Bucket, golden: Path) -> None:
    name = "public/golden/plain"
    with gzip.open(golden / "expected" / f"{quote(name, safe='')}.jsonl.gz", "rt") as lines:
        for message in map(json.loads, lines):
            (entry,) = bucket.ledger(message["ledger_id"]).read(message["entry_id"], message["entry_id"])
            value = b"" if message["value"] is None else base64.b64decode(message["value"])
            assert bytes(entry.data).endswith(value)


@pytest.mark.parametrize(("ledger_id", "padding"), [(42, 178_896), (99, 8_046)])
def test_blocks_whose_payloads_end_in_padding_are_told_apart(
    bucket: Bucket, golden: Path, ledger_id: int, padding: int
) -> None:
    ledger = bucket.ledger(ledger_id)
    assert ledger.index.padding == padding
    data = (golden / "bucket" / ledger.ref.object("data").key).read_bytes()
    expected = b"".join(records_by_hand(data))
    for block in ledger.index.blocks[1:]:
        # A seek to just before and just behind each border lands on the right bytes.
        border = sum(len(record) for record in records_by_hand(data)[: block.first_entry])
        assert ledger.read_records(border - 20, border + 20) == expected[border - 20 : border + 20]


def test_a_truncated_ledger_gives_the_entries_that_it_has(truncated_url: str, golden: Path) -> None:
    ledger = open_bucket(truncated_url).ledger(201)
    data = (golden / "damaged" / "truncated-but-successful" / ledger.ref.object("data").key).read_bytes()
    assert [bytes(entry.data) for entry in ledger.read(0, 4)] == [record[12:] for record in records_by_hand(data)[:5]]
