"""The last rows of a scan, and those of one entry: as in the whole scan, and read without the rest."""

from pathlib import Path

import pyarrow as pa
import pytest

from ledgerfs import Bucket, open_bucket
from ledgerfs.errors import CorruptLedgerError
from ledgerfs.scan.few_rows import last_rows, rows_of_entry
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, offload, put_in_folder

COLUMNS = ["ledger_id", "entry_id", "batch_index", "publish_time", "key", "value"]


def test_last_rows_are_those_of_the_whole_topic(bucket: Bucket) -> None:
    @for_each("topic", [one.name for one in bucket.topics()])
    def require(topic: str) -> None:
        for options in ({}, {"transactions": "all"}, {"key": "k3"}):
            scan = bucket.topic(topic).scan(COLUMNS, on_encrypted="null", **options)
            whole = scan.to_arrow()
            for count in (1, 7, 10_000):
                table, (report,) = last_rows(scan, count)
                assert table.equals(whole.slice(max(0, whole.num_rows - count)))
                assert not report.is_damaged

    require()


def test_last_rows_of_partitions_are_sorted_by_publish_time(bucket: Bucket) -> None:
    scan = bucket.topic("public/golden/partitioned").scan(["key"])
    table, reports = last_rows(scan, 30)
    ordered = bucket.topic("public/golden/partitioned").scan(["key", "publish_time"]).to_arrow().sort_by("publish_time")
    assert table.schema == scan.schema
    assert sorted(table["key"].to_pylist()) == sorted(ordered["key"].to_pylist()[-30:])
    assert len(reports) == 3


def test_rows_of_an_entry_are_those_of_the_whole_topic(bucket: Bucket) -> None:
    scan = bucket.topic("public/golden/batched-lz4").scan(COLUMNS)
    whole = scan.to_arrow()
    for row in whole.slice(0, 40).to_pylist():
        ledger, entry, index = row["ledger_id"], row["entry_id"], row["batch_index"]
        table, _ = rows_of_entry(scan, ledger, entry, index)
        assert table.to_pylist() == [row]
    of_entry = pa.compute.and_(pa.compute.equal(whole["ledger_id"], ledger), pa.compute.equal(whole["entry_id"], entry))
    assert rows_of_entry(scan, ledger, entry)[0].equals(whole.filter(of_entry).combine_chunks())


def test_only_the_last_ledger_is_read(tmp_path: Path) -> None:
    made = [
        offload([frame(metadata(sequence_id=i, publish_time_ms=CREATED_MS + i), bytes(5000))] * 20, i, uuid=i)
        for i in range(1, 21)
    ]
    bucket = open_bucket(put_in_folder(tmp_path, *made))
    table, _ = last_rows(bucket.topic("public/default/orders").scan(["ledger_id", "value"]), 25)
    assert table["ledger_id"].to_pylist() == [19] * 5 + [20] * 20
    assert bucket.stats().bytes_used < 3 * 20 * 5100


def test_damage_at_the_end_is_an_error(truncated_url: str) -> None:
    bucket = open_bucket(truncated_url)
    scan = bucket.topic(bucket.topics()[0].name).scan(COLUMNS)
    with pytest.raises(CorruptLedgerError):
        last_rows(scan, 1)
