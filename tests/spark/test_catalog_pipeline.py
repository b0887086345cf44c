"""`ledgerfs.spark.pipelines.catalog`: what the bucket's catalog says, as rows; and publish times as the messages have them."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from ledgerfs import open_bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import LEDGER
from ledgerfs.catalog.fragments import OtherKeys
from ledgerfs.catalog.time_arguments import time_of
from ledgerfs.errors import BucketNotFoundError, InvalidOptionError
from ledgerfs.layouts.pulsar_blob.columns import LISTED
from ledgerfs.spark.pipelines.catalog import LEDGERS, catalog, ledger_table
from tests.support.ledgers import CREATED_MS, offload, put_in_folder


def test_a_row_a_ledger_says_what_the_catalog_does(spark: SparkSession, golden_url: str) -> None:
    table = catalog(spark, golden_url).toArrow()
    assert table.column_names == LEDGERS.names
    wanted = [
        {
            **{name: getattr(ref, name) for name in ("topic", "ledger_id", "uuid", "copy", "entries", "is_sound")},
            "bytes": ref.length,
            "object_bytes": ref.object("data").size,
            "blocks": ref.cuts,
            "created": time_of(ref.created_ms),
            "uploaded": time_of(ref.uploaded_ms),
        }
        for ref in open_bucket(golden_url).catalog.refs()
    ]
    assert table.drop_columns("next_created").to_pylist() == wanted


def test_a_row_a_topic_is_its_sum(spark: SparkSession, golden_url: str) -> None:
    rows = catalog(spark, golden_url, by="topic").toArrow().to_pylist()
    same = ("ledgers", "entries", "bytes", "created", "uploaded")
    topics = open_bucket(golden_url).topics()
    wanted = [{"topic": info.name, **{name: getattr(info, name) for name in same}} for info in topics]
    assert rows == sorted(wanted, key=lambda row: row["topic"].encode())


def test_publish_times_are_those_of_the_messages(spark: SparkSession, golden_url: str) -> None:
    timed = catalog(spark, golden_url, publish_times=True)
    rows = {row["ledger_id"]: row for row in timed.toArrow().to_pylist()}
    assert len(rows) == 104
    bucket, seen = open_bucket(golden_url), 0
    for info in bucket.topics():
        columns = ["ledger_id", "entry_id", "publish_time"]
        scan = bucket.topic(info.name).scan(columns, include_markers=True, on_encrypted="null", transactions="all")
        messages = scan.to_pandas()
        for ledger_id, group in messages.groupby("ledger_id"):
            # A chunked message stands at its last chunk.
            if group["entry_id"].iloc[0] == 0:
                assert rows[ledger_id]["first_publish_time"] == group["publish_time"].iloc[0].to_pydatetime()
                seen += 1
            if group["entry_id"].iloc[-1] == rows[ledger_id]["entries"] - 1:
                assert rows[ledger_id]["last_publish_time"] == group["publish_time"].iloc[-1].to_pydatetime()
                seen += 1
    assert seen > 190
    by_topic = catalog(spark, golden_url, by="topic", publish_times=True).toArrow().to_pylist()
    for row in by_topic:
        own = [one for one in rows.values() if one["topic"] == row["topic"]]
        assert row["first_publish_time"] == min(one["first_publish_time"] for one in own)
        assert row["last_publish_time"] == max(one["last_publish_time"] for one in own)


def test_times_that_damage_hides_are_null(spark: SparkSession, truncated_url: str) -> None:
    (row,) = catalog(spark, truncated_url, publish_times=True).toArrow().to_pylist()
    assert row["first_publish_time"] is not None
    assert row["last_publish_time"] is None
    assert not row["is_sound"]


def test_copies_are_rows_of_their_own_and_no_ledgers_more(spark: SparkSession, tmp_path: Path) -> None:
    first = offload([b"x" * 9] * 5, 1, uuid=1)
    url = put_in_folder(
        tmp_path, first, offload([b"x" * 9] * 5, 1, uuid=2), offload([b"y"], 4, uuid=3, created_ms=CREATED_MS + 60_000)
    )
    rows = catalog(spark, url).toArrow().to_pylist()
    created, following = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (CREATED_MS, CREATED_MS + 60_000))
    shown = [(row["ledger_id"], row["copy"], row["created"], row["next_created"]) for row in rows]
    assert shown == [(1, 0, created, following), (1, 1, created, following), (4, 0, following, None)]
    (topic,) = catalog(spark, url, by="topic").toArrow().to_pylist()
    assert (topic["ledgers"], topic["entries"], topic["bytes"]) == (2, 6, 46)


def test_an_unknown_creation_is_null_and_no_bound_of_its_neighbour(tmp_path: Path) -> None:
    url = put_in_folder(
        tmp_path,
        offload([b"x"], 1, uuid=1),
        offload([b"x"], 2, uuid=2, created_ms=None),
        offload([b"x"], 3, uuid=3, created_ms=CREATED_MS + 1000),
        offload([b"x"], 4, uuid=4, name="public/default/persistent/other"),
    )
    rows = ledger_table(open_bucket(url).catalog).to_pylist()
    known = [
        row["created"] and round(row["created"].timestamp() * 1000)
        for row in sorted(rows, key=lambda r: r["ledger_id"])
    ]
    following = {row["ledger_id"]: row["next_created"] for row in rows}
    assert known == [CREATED_MS, None, CREATED_MS + 1000, CREATED_MS]
    assert following[1] == following[2] == datetime.fromtimestamp((CREATED_MS + 1000) / 1000, UTC)
    assert following[3] is following[4] is None


def test_what_damaged_indexes_claim_breaks_no_column_and_no_sum(spark: SparkSession) -> None:
    rows = np.zeros(2, LEDGER)
    rows["ledger_id"], rows["length"], rows["last_entry"] = (1, 2), 2**63 - 1, 2**62
    rows["created_ms"], rows["changed_ms"] = (-5, 2**62), 2**62
    found = Catalog.of_ranked(("a",), rows, np.empty(0, LEDGER), np.empty(0, LISTED), others=OtherKeys())
    table = ledger_table(found)
    assert table["created"].to_pylist() == table["uploaded"].to_pylist() == [None, None]
    assert table["bytes"].to_pylist() == [2**63 - 1] * 2


def test_an_empty_bucket_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    for by in ("ledger", "topic"):
        assert catalog(spark, f"file://{tmp_path}", by=by, publish_times=True).collect() == []


def test_a_wrong_bucket_and_a_wrong_grouping_are_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(BucketNotFoundError):
        catalog(spark, f"file://{tmp_path}/not-there")
    with pytest.raises(InvalidOptionError, match="expected ledger or topic"):
        catalog(spark, f"file://{tmp_path}", by="day")
