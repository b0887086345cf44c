"""The golden bucket in other stores, its topics, and what is odd about some of its ledgers; `test_layout_suites.py` reads all of them."""

import json
from pathlib import Path

import pytest

from ledgerfs import open_bucket
from ledgerfs.bucket.bucket import Bucket
from tests.support.golden_samples import records_by_hand


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
