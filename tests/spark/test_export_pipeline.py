"""Exports by Spark's own writer: all rows that scans have, folders of the right day, and a failed job that does not look complete."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException
from pyspark.sql import Observation, SparkSession

from ledgerfs import open_bucket
from ledgerfs.errors import (
    CorruptMessageError,
    ExportFolderError,
    InvalidOptionError,
    MissingLedgerError,
    NotFoundError,
    UnplacedLedgersWarning,
)
from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS
from ledgerfs.spark.pipelines import export as export_pipeline
from ledgerfs.spark.pipelines.export import export
from ledgerfs.spark.source import messages
from ledgerfs.spark.source.left_out import by_topic, left_out_accumulator
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.typed_golden import bucket_with_schemas, plain

PATTERN = "persistent://public/golden/.*"
ENCRYPTED = "persistent://public/golden/encrypted"
DAY_MS = 86_400_000
START_MS = 1_700_006_400_000  # 2023-11-15, midnight in UTC


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Return rows of all default columns in one order, whatever order and which further columns the table has."""
    columns = [table[name].to_pylist() for name in DEFAULT_COLUMNS]
    return sorted(zip(*columns, strict=True), key=repr)


def scanned(url: str, **options: Any) -> list[tuple[Any, ...]]:
    """Return the rows of all topics of a bucket, as scans of each one give them."""
    bucket = open_bucket(url)
    return rows_of(pa.concat_tables(bucket.topic(topic.name).scan(**options).to_arrow() for topic in bucket.topics()))


def exported(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    return rows_of(spark.read.parquet(str(folder)).toArrow())


def message(i: int, **fields: Any) -> bytes:
    return frame(metadata(sequence_id=i, **{"publish_time_ms": CREATED_MS + i, **fields}), b"value %d" % i)


def put(folder: Path, ledger_id: int, *entries: bytes) -> str:
    """Write one ledger into a bucket, and return its URL."""
    folder.mkdir(exist_ok=True)
    return put_in_folder(folder, offload(entries, ledger_id, uuid=ledger_id))


def values(folder: Path) -> list[bytes]:
    return sorted(ds.dataset(folder, format="parquet").to_table()["value"].to_pylist())


def is_complete(folder: Path) -> bool:
    return (folder / "_SUCCESS").exists()


@pytest.mark.parametrize(("by", "partition_bytes"), [((), 1 << 10), (("topic", "date", "ledger_id"), 128 << 20)])
def test_files_hold_what_scans_give(
    spark: SparkSession, golden_url: str, tmp_path: Path, by: tuple[str, ...], partition_bytes: int
) -> None:
    out, seen = tmp_path / "lake", Observation()
    export(
        spark, golden_url, str(out), topics_pattern=PATTERN, partition_by=by, partition_bytes=partition_bytes,
        on_encrypted="null", observation=seen,
    )  # fmt: skip
    assert exported(spark, out) == scanned(golden_url, on_encrypted="null")
    assert seen.get == {"messages": 12_989}
    assert is_complete(out)


def test_days_and_hours_of_folders_are_those_of_utc(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = (START_MS - 1, START_MS, START_MS + DAY_MS - 1, 253_402_300_799_999)
    url, out = (
        put(tmp_path / "bucket", 1, *(message(i, publish_time_ms=time) for i, time in enumerate(times))),
        tmp_path,
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        export(spark, url, str(out / "lake"), columns=["value"], partition_by=["date", "hour"])
        # Of a day alone, and beside the time itself.
        export(spark, url, str(out / "days"), columns=["value", "publish_time"], partition_by=["date"])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    folders = {str(path.parent.relative_to(out / "lake")): values(path) for path in (out / "lake").rglob("*.parquet")}
    assert folders == {
        "date=2023-11-14/hour=23": [b"value 0"],
        "date=2023-11-15/hour=00": [b"value 1"],
        "date=2023-11-15/hour=23": [b"value 2"],
        "date=9999-12-31/hour=23": [b"value 3"],
    }
    names = {path: pq.read_schema(path).names for path in out.rglob("*.parquet")}
    assert {tuple(columns) for columns in names.values()} == {("value",), ("value", "publish_time")}


def test_a_key_travels_to_the_tasks(spark: SparkSession, golden_url: str, golden: Path, tmp_path: Path) -> None:
    copy = tmp_path / "private.pem"
    copy.write_bytes((golden / "keys" / "private.pem").read_bytes())
    rows = messages.read_messages(spark, golden_url, topics=[ENCRYPTED], private_keys={"golden.key": copy})
    copy.unlink()
    expected = open_bucket(golden_url).topic(ENCRYPTED).scan(
        private_keys={"golden.key": golden / "keys" / "private.pem"}
    )  # fmt: skip
    assert rows_of(rows.toArrow()) == rows_of(expected.to_arrow())


def test_ledgers_that_are_missing_are_an_error_or_reported(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A ledger whose data is gone, and one whose index nobody can read: who has the rest should not take it for all."""
    bucket, out = tmp_path / "bucket", tmp_path / "lake"
    for i in (1, 2, 3):
        url = put(bucket, i, message(i))
    next(bucket.glob("*-ledger-1")).unlink()
    next(bucket.glob("*-ledger-2-index")).write_bytes(b"?")
    with pytest.raises(MissingLedgerError, match="ledger 1: its index exists, but its data object is missing"):
        export(spark, url, str(out))
    assert not out.exists()
    left_out = left_out_accumulator(spark)
    with caplog.at_level("WARNING", "ledgerfs.spark"), pytest.warns(UnplacedLedgersWarning, match="ids 2"):
        export(spark, url, str(out), on_corrupt="skip", left_out=left_out)
    assert values(out) == [b"value 3"]
    assert [[lost.ledger_id for lost in one.missing] for one in by_topic(left_out.value)] == [[1]]
    assert any("ledger 1 is left out" in line for line in caplog.messages)


def test_damage_ends_an_export_which_is_then_not_complete(spark: SparkSession, tmp_path: Path) -> None:
    bucket, out = tmp_path / "bucket", tmp_path / "lake"
    put(bucket, 1, message(1))
    url = put(bucket, 3, message(3), message(4)[:-1] + b"?", message(5))
    options: dict[str, Any] = {"partition_bytes": 1}
    with pytest.raises(CorruptMessageError, match="entry 3:1"):
        export(spark, url, str(out), **options)
    assert not is_complete(out)
    assert not list(out.glob("*.parquet"))
    left_out = left_out_accumulator(spark)
    shutil.rmtree(out)
    export(spark, url, str(out), on_corrupt="skip", left_out=left_out, **options)
    assert values(out) == [b"value 1", b"value 3", b"value 5"]
    assert [[place.first_entry for place in one.skipped] for one in by_topic(left_out.value)] == [[1]]
    assert is_complete(out)


def test_a_task_that_is_killed_and_runs_again_changes_nothing(
    spark: SparkSession, golden_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distribute = messages.distribute

    def dying(session: SparkSession, parts: Any, work: Any, schema: Any) -> Any:
        def dies_once(part: Any) -> Iterator[pa.RecordBatch]:
            yield from work(part)
            context = TaskContext.get()
            assert context is not None
            if context.attemptNumber() == 0 and context.partitionId() % 3 == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        return distribute(session, parts, dies_once, schema)

    monkeypatch.setattr(messages, "distribute", dying)
    topics, seen = [f"public/golden/{name}" for name in ("plain", "chunked", "txn")], Observation()
    export(
        spark, golden_url, str(tmp_path / "lake"), topics=topics, partition_bytes=1 << 16, partition_by=["topic"], observation=seen
    )  # fmt: skip
    bucket = open_bucket(golden_url)
    expected = rows_of(pa.concat_tables(bucket.topic(name).scan().to_arrow() for name in topics))
    assert exported(spark, tmp_path / "lake") == expected
    assert seen.get == {"messages": len(expected)}


def test_rows_of_another_export_in_the_folder_are_an_error(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after two exports that began at once: one has files of the other beside its own, or lacks some of its own."""
    url, out, other = put(tmp_path / "bucket", 1, message(1)), tmp_path / "lake", tmp_path / "other"
    export(spark, url, str(other))
    written = export_pipeline._require_rows

    def more(*given: Any) -> None:
        (file,) = other.glob("*.parquet")
        shutil.copy(file, out / "part-of-another.parquet")
        written(*given)

    def fewer(*given: Any) -> None:
        for file in out.glob("*.parquet"):
            file.unlink()
        written(*given)

    for meanwhile, rows in ((more, 2), (fewer, 0)):
        monkeypatch.setattr(export_pipeline, "_require_rows", meanwhile)
        with pytest.raises(ExportFolderError, match=f"the folder has {rows} rows, but 1 were written"):
            export(spark, url, str(out))
        shutil.rmtree(out)


def test_wrong_options_leave_no_folder(spark: SparkSession, golden_url: str, tmp_path: Path) -> None:
    out = tmp_path / "lake"
    for options, error in (
        ({"mode": "overwrite"}, InvalidOptionError),
        ({"partition_by": ["publish_time"]}, InvalidOptionError),
        ({"partition_by": ["key_bytes"]}, InvalidOptionError),
        ({"partition_by": ["Publish_Time"]}, InvalidOptionError),
        ({"columns": ["no"]}, InvalidOptionError),
        ({"start_time": "soon"}, InvalidOptionError),
        ({"topics": ["public/golden/none"]}, NotFoundError),
        ({"partition_by": ["no"]}, AnalysisException),
        ({"partition_by": ["topic", "topic"]}, AnalysisException),
        ({"partition_by": ["topic"], "columns": ["topic"]}, AnalysisException),
    ):
        with pytest.raises(error):
            export(spark, golden_url, str(out), **{"on_encrypted": "null", **options})  # type: ignore[arg-type]
    assert not out.exists()


@pytest.mark.parametrize("flatten", [False, True])
def test_files_hold_typed_values_as_the_data_source_gives_them(
    spark: SparkSession, golden_typed: Path, tmp_path: Path, flatten: bool
) -> None:
    url, topic = bucket_with_schemas(golden_typed, tmp_path / "bucket").store.url, "public/typed/avro-evolved"
    options = {"values": "typed", "topic": topic, "flatten": str(flatten)}
    expected = spark.read.format("ledgerfs").options(**options).load(url)
    export(
        spark,
        url,
        str(tmp_path / "lake"),
        topics=topic,
        partition_by=("topic", "date"),
        values="typed",
        flatten=flatten,
    )
    found = spark.read.parquet(str(tmp_path / "lake")).select(*expected.columns)
    assert found.schema == expected.schema
    one, other = (
        frame.orderBy("ledger_id", "entry_id", "batch_index").toArrow() for frame in (found, expected)
    )  # fmt: skip
    for name in expected.columns:
        assert plain(one[name].combine_chunks()) == plain(other[name].combine_chunks()), name
