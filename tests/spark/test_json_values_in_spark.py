"""Values that are JSON as columns in Spark: their type is inferred when a query is planned, or given."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ledgerfs.errors import InvalidOptionError
from ledgerfs.spark import export, read_messages
from ledgerfs.spark.source.data_source import LedgerfsDataSource
from tests.support.json_topics import NAME, ledger
from tests.support.ledgers import put_in_folder

PARTS = [f"{NAME}-partition-{number}" for number in range(2)]
OTHER = "public/default/persistent/other"
SCHEMA = {"type": "record", "name": "E", "fields": [{"name": "a", "type": "double"}]}


@pytest.fixture
def url(tmp_path: Path) -> str:
    (tmp_path / "b").mkdir()
    made = [ledger(1, {"a": 1}, None, name=PARTS[0]), ledger(2, {"b": [{"c": "x"}]}, name=PARTS[1])]
    return put_in_folder(tmp_path / "b", *made, ledger(3, {"a": 2.5}, name=OTHER))


def read(spark: SparkSession, url: str, **options: str) -> DataFrame:
    return spark.read.format("ledgerfs").options(**{"values": "json", "partitionBytes": "1KiB", **options}).load(url)


def values(frame: DataFrame) -> list[Any]:
    rows = [json.loads(one) for one in frame.select("topic", "ledger_id", "entry_id", "value").toJSON().collect()]
    return [one.get("value") for one in sorted(rows, key=lambda one: (one["ledger_id"], one["entry_id"]))]


def test_types_are_inferred_over_all_that_is_read(spark: SparkSession, url: str, tmp_path: Path) -> None:
    events = read(spark, url, topic="public/default/events")
    assert events.schema["value"].dataType.simpleString() == "struct<a:bigint,b:array<struct<c:string>>>"
    assert values(events) == [{"a": 1}, None, {"b": [{"c": "x"}]}]
    both = read(spark, url)
    assert both.schema["value"].dataType["a"].dataType.simpleString() == "double"
    assert values(both) == [{"a": 1.0}, None, {"b": [{"c": "x"}]}, {"a": 2.5}]
    flat = read(spark, url, topic="public/default/other", flatten="true", columns="entry_id,value")
    assert [row.asDict() for row in flat.collect()] == [{"entry_id": 0, "a": 2.5}]
    in_python = read_messages(spark, url, topics="public/default/events", values="json")
    assert values(in_python) == values(events)
    before = read(spark, url)
    put_in_folder(tmp_path / "b", ledger(4, {"new": True}, name=OTHER))
    # A frame has the columns that it was made with: what came since is an error, and never without its field.
    with pytest.raises(PythonException, match="it has a field that the inferred type lacks"):
        before.collect()
    assert before.schema == both.schema
    assert values(read(spark, url))[-1] == {"new": True}
    given = read(spark, url, schemaVersion=json.dumps(SCHEMA))
    assert given.schema["value"].dataType.simpleString() == "struct<a:double>"
    assert values(given) == [{"a": 1.0}, None, {}, {"a": 2.5}, {}]
    with pytest.raises((AnalysisException, PythonException), match="ignores the schema versions of messages"):
        read(spark, url, schemaVersion="1").collect()


GIVEN = "ledger_id bigint, entry_id bigint, topic string, value struct<a:double,b:array<struct<c:string>>>"


def test_a_given_schema_says_the_type(spark: SparkSession, url: str) -> None:
    reader = spark.read.format("ledgerfs").options(values="json", partitionBytes="1KiB")
    given = reader.schema(GIVEN).load(url)
    assert values(given) == [{"a": 1.0}, None, {"b": [{"c": "x"}]}, {"a": 2.5}]
    # As in any scan with a type that is given, fields that it lacks are left out.
    assert values(reader.schema(GIVEN.replace("a:double,", "")).load(url)) == [{}, None, {"b": [{"c": "x"}]}, {}]
    narrow = reader.schema(GIVEN.replace("a:double", "a:int")).load(url)
    with pytest.raises(PythonException, match="'a' is not an int"):
        narrow.collect()
    with pytest.raises((AnalysisException, PythonException), match="value: must be nullable at all levels"):
        reader.schema("value struct<a:double not null>").load(url).collect()
    with pytest.raises((AnalysisException, PythonException), match="unit of times"):
        reader.schema("value struct<a:map<string,timestamp>>").load(url).collect()
    with pytest.raises(
        (AnalysisException, PythonException), match="has the type struct<a:int>, expected struct<a:double>"
    ):
        reader.option("schemaVersion", json.dumps(SCHEMA)).schema("value struct<a:int>").load(url).collect()


def test_nothing_is_read_for_a_type_that_is_given_or_not_wanted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("values are read")

    monkeypatch.setattr("ledgerfs.scan.scan.learned_values", fail)
    source = LedgerfsDataSource({"path": url, "values": "json"})
    value = StructType([StructField("a", LongType())])
    source.reader(StructType([StructField("value", value)])).partitions()
    source.reader(StructType([StructField("key", StringType())])).partitions()
    with pytest.raises(AssertionError, match="values are read"):
        source.schema()
    flat = LedgerfsDataSource({"path": url, "values": "json", "flatten": "true"})
    with pytest.raises(AssertionError, match="values are read"):
        flat.reader(value)


@pytest.mark.parametrize("name", ["date", "Hour"])
def test_a_field_never_hides_the_day_of_a_folder(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Others get a name beside those of columns."""
    (tmp_path / "b").mkdir()
    url, lake = put_in_folder(tmp_path / "b", ledger(1, {name: "x", "Topic": "t", "partition": 7})), tmp_path / "lake"
    options: dict[str, Any] = {"columns": ["value"], "values": "json", "flatten": True}
    with pytest.raises(InvalidOptionError, match=f"{name.lower()}: a field of the values has this name"):
        export(spark, url, str(lake), partition_by=["topic", "date", "hour"], **options)
    export(spark, url, str(lake), partition_by=["topic", "partition"], **options)
    (row,) = spark.read.parquet(str(lake)).collect()
    assert row.asDict() == {
        name: "x", "value_Topic": "t", "value_partition": 7, "topic": "persistent://public/default/events", "partition": None,
    }  # fmt: skip
