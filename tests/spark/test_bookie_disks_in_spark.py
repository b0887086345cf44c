"""Disks of bookies in Spark: tasks read logs by tables that are kept, and have each row once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.bookie_disks import golden_disk
from tests.support.golden_rows import as_java_says, expected_of, wanted

PLAIN = "persistent://public/golden/plain"


def test_a_topic_is_read_in_parts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERFS_CACHE_DIR", str(tmp_path / "cache"))
    golden = golden_disk("bookie-dbledger", tmp_path)
    options = {"storage.metadata": str(golden / "dump.json.zst"), "topic": PLAIN, "partitionBytes": "64KiB"}
    frame = spark.read.format("ledgerfs").options(**options).load(f"bookies://{golden}/ledgers")
    rows = sorted(frame.toArrow().to_pylist(), key=lambda row: (row["ledger_id"], row["entry_id"]))
    assert [as_java_says(row) for row in rows] == wanted(expected_of(golden, PLAIN))
    assert frame.rdd.getNumPartitions() > 1
