"""Exports to a lake with values as columns: what is in the files, and what a later export makes of schemas that were saved meanwhile."""

import json
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ledgerfs import import_rows, open_bucket
from ledgerfs import spark as ledgerfs_spark
from ledgerfs.errors import InvalidOptionError, OutdatedFilesWarning, UndecodableValueError
from ledgerfs.formats.schemas.schema_info import BY_HAND, SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.spark.pipelines.export import LakeExport, run_export
from ledgerfs.spark.pipelines.export_request import ExportRequest
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.left_out import summed
from tests.support.typed_golden import bucket_with_schemas, enum_record, plain

EVOLVED = "public/typed/avro-evolved"
CHANGED = "public/typed/type-changed"
IDS = ("ledger_id", "entry_id", "batch_index")


@pytest.fixture
def url(golden_typed: Path, tmp_path: Path) -> str:
    return bucket_with_schemas(golden_typed, tmp_path / "bucket").store.url


def export(
    spark: SparkSession, url: str, lake: Path, topic: str, *, incremental: bool = False, **options: Any
) -> LakeExport:
    by = options.pop("partition_by", ())
    scan = {"values": "typed", **options}
    request = ExportRequest(partition_by=by, topics=[topic], partition_bytes=1 << 14, scan=scan)
    return run_export(spark, url, Storage(str(lake)), request, incremental=incremental)


def save(url: str, topic: str, number: int, schema: SchemaInfo, timestamp_ms: int) -> None:
    SavedSchemas(open_bucket(url).raw_store).add(topic, [SchemaVersion(number, schema, timestamp_ms)])


def paths(lake: Path) -> set[str]:
    return {str(path.relative_to(lake)) for path in lake.rglob("*.parquet")}


@pytest.mark.parametrize("flatten", [False, True])
def test_files_hold_what_the_data_source_gives(spark: SparkSession, url: str, tmp_path: Path, flatten: bool) -> None:
    lake = tmp_path / "lake"
    export(spark, url, lake, EVOLVED, partition_by=("topic", "date"), flatten=flatten)
    options = {"values": "typed", "topic": EVOLVED, "flatten": str(flatten)}
    expected = spark.read.format("ledgerfs").options(**options).load(url)
    found = spark.read.parquet(str(lake)).select(*expected.columns)
    assert found.schema == expected.schema
    one, other = (frame.orderBy(*IDS).toArrow() for frame in (found, expected))
    for name in expected.columns:
        assert plain(one[name].combine_chunks()) == plain(other[name].combine_chunks()), name
    assert "topic" not in pq.read_schema(lake / min(paths(lake))).names


def test_a_later_export_reads_again_what_other_schemas_may_change(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    export(spark, url, lake, EVOLVED)
    first = paths(lake)
    assert export(spark, url, lake, EVOLVED, incremental=True).files == []
    *_, newest = open_bucket(url).topic(EVOLVED).schema_versions()
    later = (newest.timestamp_ms or 0) + 1_000_000
    save(url, EVOLVED, 3, newest.schema, later)
    assert len(export(spark, url, lake, EVOLVED, incremental=True).files) == len(first)
    assert not paths(lake) & first
    mine = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "double"}]}).encode()
    save(url, EVOLVED, 4, SchemaInfo("AVRO", mine), later + 1)
    with pytest.raises(InvalidOptionError, match=r"with other fields of values .*; take another folder, or overwrite"):
        export(spark, url, lake, EVOLVED, incremental=True)
    with pytest.raises(InvalidOptionError, match="with other values"):
        export(spark, url, lake, EVOLVED, incremental=True, values="bytes")


def test_values_that_cannot_be_decoded_are_told_then_and_later(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with pytest.raises(UndecodableValueError, match="value of message"):
        export(spark, url, tmp_path / "none", CHANGED)
    lake = tmp_path / "lake"
    (told,) = export(spark, url, lake, CHANGED, on_undecodable="null").topics
    assert told.messages == 105
    assert [(one.version, one.count) for one in summed(told.undecodable)] == [(0, 33), (1, 33)]
    (later,) = export(spark, url, lake, CHANGED, on_undecodable="null", incremental=True).topics
    assert (later.undecodable, later.undecodable_before) == ([], 66)
    left = export(spark, url, tmp_path / "skipped", CHANGED, on_undecodable="skip").topics
    assert [one.messages for one in left] == [105 - 66]


def test_values_by_an_earlier_schema_that_must_stay_are_told_as_long_as_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, lake, topic = str(tmp_path / "bucket"), str(tmp_path / "lake"), "public/default/colors"
    Path(url).mkdir()
    for ledger in (5, 7):
        import_rows(
            url, pa.table({"e": ["X"], "key": [str(ledger)]}), topic, schema=enum_record("X", "Y"), ledger_id=ledger
        )
    options: dict[str, Any] = {"topics": [topic], "columns": ["key", "value"], "values": "typed", "incremental": True}
    path = ledgerfs_spark.export(spark, url, lake, **options).first().path
    for gone in Path(url).glob("*-ledger-5*"):
        gone.unlink()

    def told() -> list[str]:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            assert ledgerfs_spark.export(spark, url, lake, **options).count() == 0
        return [str(one.message) for one in met if one.category is OutdatedFilesWarning]

    assert told() == []
    given = SchemaInfo("AVRO", json.dumps(enum_record("Y", "X")).encode())
    saved = SavedSchemas(open_bucket(url).raw_store)
    saved.add(topic, [SchemaVersion(0, given, source=BY_HAND, saved_ms=1)])
    for _ in range(2):
        (line,) = told()
        assert line.startswith("persistent://public/default/colors: the values in 1 files are by other schemas")
        assert line.endswith(path)
    assert pq.read_table(Path(lake) / path)["value"].to_pylist() == [{"e": "X"}, {"e": "X"}]
    saved.add(topic, [SchemaVersion(0, given, source=BY_HAND, is_deletion=True, saved_ms=2)])
    assert told() == []
