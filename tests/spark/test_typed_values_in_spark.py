"""Values as columns in Spark: what a scan shows of the typed golden set, planned with the schemas that tasks then have."""

import json
import logging
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  (as everybody calls it)

from ledgerfs import open_bucket
from ledgerfs.errors import InvalidOptionError, InvalidSchemaError, UndecodableValueError, UnknownSchemaError
from ledgerfs.formats.schemas.schema_info import SchemaInfo, SchemaVersion
from ledgerfs.schemas.saved_schemas import SavedSchemas
from ledgerfs.spark import read_messages
from ledgerfs.spark.source.data_source import LedgerfsDataSource
from ledgerfs.spark.source.left_out import by_topic, left_out_accumulator
from ledgerfs.spark.source.planning import plan_values
from ledgerfs.spark.source.read_options import read_options
from ledgerfs.spark.source.spark_types import SparkColumns, Unheld
from tests.spark.planned import by_tasks
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.ledgers import CREATED_MS, offload, put_in_folder
from tests.support.typed_answers import assert_said
from tests.support.typed_golden import ORDER, TOPICS, WITHOUT_SCHEMA, Topic, assert_same_rows, bucket_with_schemas
from tests.support.typed_golden import topic as golden_topic

EVOLVED = "public/typed/avro-evolved"
CHANGED = "public/typed/type-changed"
FOLDER = "_ledgerfs/schemas"
MINE = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "double"}]}


OTHERWISE = (
    "avro-logical", "avro-random-3", "avro-times", "avro-unions", "kv-inline-random", "kv-separated-random", "prim-date", "prim-instant",
    "prim-local-date-time", "prim-local-time", "prim-time", "prim-timestamp", "avro-offset", "json-odd", "prim-string-utf16", "proto",
)  # fmt: skip
"""Topics with types that Spark has other ones for, and those where Pulsar's client is no witness: all are compared with a scan only."""


@pytest.fixture(scope="module")
def url(golden_typed: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    return bucket_with_schemas(golden_typed, tmp_path_factory.mktemp("typed") / "bucket").store.url


def typed(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    return spark.read.format("ledgerfs").options(**{"values": "typed", **options}).load(url)


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in ORDER])


def as_spark_has_it(scan: Any) -> pa.Table:
    """Return what a scan shows with Spark's types, which have tests of their own."""
    made = SparkColumns.of(scan.schema, [name for name in scan.schema.names if name != "value"])
    return pa.Table.from_batches([made.of_batch(one, Unheld("")) for one in scan], made.schema)


def spoil(url: str) -> None:
    """Have every further look at the schemas fail."""
    for place in Path(url.removeprefix("file://"), FOLDER).rglob("*"):
        if place.is_dir():
            (place / "nothing-of-ours.txt").write_text("?")


IN_SPARK = (
    "avro-array", "avro-evolved", "avro-logical", "avro-mixed-bytes", "avro-partitioned", "avro-random-0",
    "avro-random-3", "avro-times", "avro-unions", "json-odd", "json-random-0", "kv-inline-random",
    "kv-inline-string-protonative", "kv-separated-json-int64", "kv-separated-random", "prim-bytes", "prim-int16",
    "prim-int8", "prim-local-date-time", "prim-string-utf16", "proto", "protonative-random-1", "type-changed",
)  # fmt: skip
"""Topics whose rows pass through Spark: with all types that any topic has in Spark, nested and not."""


@pytest.mark.parametrize("name", IN_SPARK)
def test_golden_values_are_those_of_a_scan(spark: SparkSession, url: str, name: str) -> None:
    """With some tasks each; those without a schema have their bytes."""
    rows = typed(spark, url, partitionBytes="8KiB", **options_of(name))
    assert_same_rows(rows.toArrow(), expected_of(url, name))


@for_each("name", TOPICS)
def test_golden_values_of_all_tasks_are_those_of_a_scan(url: str, golden_typed: Path, name: str) -> None:
    """Without Spark: with what it would pickle for its tasks."""
    _, found = by_tasks(url, partitionBytes="8KiB", **options_of(name))
    assert found["value"].null_count < found.num_rows
    assert_same_rows(found, expected_of(url, name))
    topic = f"public/typed/{name}"
    newest = open_bucket(url).schemas_of(topic.partition("-partition-")[0]).latest
    if name not in WITHOUT_SCHEMA and name not in OTHERWISE:
        assert newest is not None
        assert_as_pulsar_said(in_order(found)["value"].combine_chunks(), golden_topic(golden_typed, topic), newest)


def options_of(name: str) -> dict[str, str]:
    values = "auto" if name in WITHOUT_SCHEMA else "typed"
    return {"topic": f"public/typed/{name}", "values": values, "onUndecodable": "null"}


def expected_of(url: str, name: str) -> pa.Table:
    options = options_of(name)
    scan = open_bucket(url).topic(options["topic"]).scan(values=options["values"], on_undecodable="null")
    return as_spark_has_it(scan)


def assert_as_pulsar_said(values: pa.Array, said: Topic, newest: SchemaVersion) -> None:
    """Have values of the newest version be those of the golden set."""
    rows = np.flatnonzero(said.versions == newest.version)
    assert_said(values.take(pa.array(rows)), [said.expected[row]["value"] for row in rows], newest.schema)


@pytest.mark.parametrize(
    ("name", "flatten", "version"),
    [
        ("avro-logical", True, "latest"),
        ("kv-separated-evolved", True, "each"),
        ("protonative", True, "0"),
        ("type-changed", False, "each"),
    ],
)
def test_golden_values_of_versions_and_beside_the_others(
    spark: SparkSession, url: str, name: str, *, flatten: bool, version: str
) -> None:
    topic = f"public/typed/{name}"
    rows = typed(spark, url, topic=topic, flatten=str(flatten), schemaVersion=version, onUndecodable="null")
    number = int(version) if version.isdigit() else version
    scan = (
        open_bucket(url)
        .topic(topic)
        .scan(values="typed", flatten=flatten, schema_version=number, on_undecodable="null")
    )
    assert_same_rows(rows.toArrow(), as_spark_has_it(scan))


def test_the_schema_is_known_before_any_row_and_fields_are_columns(spark: SparkSession, url: str) -> None:
    rows = typed(spark, url, topic=EVOLVED)
    newest = open_bucket(url).topic(EVOLVED).scan(values="typed").schema.field("value").type
    assert rows.schema["value"].dataType.names == newest.names
    names = rows.select("value.id", "publish_time").toArrow()
    assert names.schema.names == ["id", "publish_time"]
    assert names.num_rows == open_bucket(url).topic(EVOLVED).count()
    flat = typed(spark, url, topic=EVOLVED, flatten="true", columns="entry_id,value")
    assert flat.columns == ["entry_id", *newest.names]
    of_one = typed(spark, url, topic=EVOLVED, schemaVersion=json.dumps(MINE), onUndecodable="null")
    assert of_one.schema["value"].dataType == T.StructType([T.StructField("id", T.DoubleType())])
    assert typed(spark, url, topic=EVOLVED, schemaVersion="each").schema["value"].dataType.names == ["v0", "v1", "v2"]
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW evolved USING ledgerfs OPTIONS (path '{url}', topic '{EVOLVED}', values 'typed')"
    )
    assert spark.sql("SELECT count(value.id) FROM evolved").first()[0] == rows.where("value.id is not null").count()


def test_tasks_and_plans_after_the_load_do_not_ask_for_schemas(
    spark: SparkSession, golden_typed: Path, tmp_path: Path
) -> None:
    """Whoever looks at the schemas after the load finds what is none, which is an error."""
    url = bucket_with_schemas(golden_typed, tmp_path / "bucket").store.url
    frames = [
        typed(spark, url, topic=EVOLVED, partitionBytes="1KiB"),
        read_messages(spark, url, topics=EVOLVED, values="typed"),
    ]
    spoil(url)
    count = open_bucket(url).topic(EVOLVED).count()
    for one in frames:
        assert one.select("value.*").toArrow().num_rows == count
    with pytest.raises((AnalysisException, PythonException), match="CorruptSchemaFileError"):
        typed(spark, url, topic=EVOLVED)


def test_what_a_task_gets_is_small(url: str) -> None:
    """Each part has the schemas of its own topics; the reader, which all tasks get, has none."""
    source = LedgerfsDataSource(
        {
            "path": url,
            "values": "typed",
            "schemaVersion": json.dumps(MINE),
            "topicsPattern": "public/typed/avro-(random|evolved|unions|lz4|zstd|strict|pojo|times|partitioned).*",
            "partitionBytes": "1",
        }
    )
    reader = source.reader(source.schema())
    parts = reader.partitions()
    assert len(parts) > 20
    schemas = [set(part.value[1]) for part in parts]
    assert all(len(names) == 1 for names in schemas)
    assert len(set().union(*schemas)) == 12
    assert b"TopicSchemas" not in pickle.dumps(reader)
    assert max(len(pickle.dumps(part)) for part in parts) < 1 << 15


def test_topics_of_one_table_have_one_type(spark: SparkSession, url: str) -> None:
    two = ["public/typed/prim-int64", "public/typed/prim-string"]
    for values in ("typed", "auto"):
        with pytest.raises(
            (AnalysisException, PythonException),
            match=r"prim-int64: int64; .*prim-string: string\), but a table has one type",
        ):
            typed(spark, url, topics=two, values=values)
    with pytest.raises(InvalidOptionError, match="different types"):
        read_messages(spark, url, topics=two, values="typed")
    both = ["public/typed/avro-lz4", "public/typed/avro-zstd"]
    counts = [open_bucket(url).topic(one).count() for one in both]
    assert typed(spark, url, topics=both).where("value.id is not null or value is null").count() <= sum(counts)
    assert typed(spark, url, topics=both).count() == sum(counts)


def test_topics_without_schemas(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with pytest.raises((AnalysisException, PythonException), match=r"UnknownSchemaError: .*prim-bytes: no schema"):
        typed(spark, url, topic="public/typed/prim-bytes")
    auto = typed(spark, url, topic="public/typed/prim-bytes", values="auto")
    assert auto.schema["value"].dataType == T.BinaryType()
    assert auto.count() == open_bucket(url).topic("public/typed/prim-bytes").count()
    with pytest.raises(UnknownSchemaError, match="has no topics"):
        read_messages(spark, str(tmp_path), values="typed")
    for wrong in ({"values": "text"}, {"onUndecodable": "ignore"}, {"flatten": "maybe"}, {"schemaVersion": "newest"}):
        with pytest.raises(InvalidOptionError):
            by_tasks(url, topic=EVOLVED, **{"values": "typed", **wrong})
    for wrong in ({"schemaVersion": "0"}, {"onUndecodable": "null"}, {"flatten": "true"}):
        with pytest.raises(InvalidOptionError, match="applies to values as columns"):
            by_tasks(url, topic=EVOLVED, values="bytes", **wrong)


def test_a_schema_that_is_none_is_an_error_with_its_topic(tmp_path: Path) -> None:
    url = put_in_folder(tmp_path, offload([frame(metadata(), b"")], created_ms=CREATED_MS))
    topic = "persistent://public/default/orders"
    SavedSchemas(open_bucket(url).raw_store).add(topic, [SchemaVersion(0, SchemaInfo("AVRO", b"{"), 1)])
    with pytest.raises(InvalidSchemaError, match=r"^persistent://public/default/orders: "):
        plan_values(read_options({"path": url, "topic": topic, "values": "typed"}))


def test_values_that_cannot_be_decoded_are_named_and_counted(spark: SparkSession, url: str) -> None:
    with pytest.raises(PythonException, match=r"UndecodableValueError: value of message [0-9:]+: .*STRING"):
        typed(spark, url, topic=CHANGED).collect()
    for how, count in (("null", 105), ("skip", 105 - 66)):
        left_out = left_out_accumulator(spark)
        rows = read_messages(
            spark, url, topics=CHANGED, values="typed", on_undecodable=how, left_out=left_out, partition_bytes=1
        )
        assert rows.count() == count
        (reported,) = by_topic(left_out.value)
        assert [(one.version, one.count) for one in reported.undecodable] == [
            (0, 33),
            (1, 33),
        ]
        assert all("cannot be read as AVRO" in one.reason and one.first for one in reported.undecodable)


def test_tasks_log_what_they_could_not_decode(url: str, caplog: pytest.LogCaptureFixture) -> None:
    source = LedgerfsDataSource({"path": url, "values": "typed", "topic": CHANGED, "onUndecodable": "null"})
    reader = source.reader(source.schema())
    with caplog.at_level(logging.WARNING, "ledgerfs.spark"):
        assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 105
    reported = [one.getMessage() for one in caplog.records]
    assert len(reported) == 2
    assert all("type-changed: 33 values could not be decoded, the first that of message" in one for one in reported)


def test_times_that_spark_cannot_hold_are_named_or_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of two messages one is valid until the end of time, as it is often said: 2**63 - 1 ms."""
    numbered = {"schema_version": bytes(8)}
    payloads = [b"\x02" + time + b"\x00" for time in (b"\xfe" + b"\xff" * 8 + b"\x01", b"\x02")]
    entries = [frame(metadata(sequence_id=one, **numbered), payload) for one, payload in enumerate(payloads)]
    url = put_in_folder(tmp_path, offload(entries, created_ms=CREATED_MS))
    schema = SchemaInfo("AVRO", b'{"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}')
    topic = "persistent://public/default/orders"
    SavedSchemas(open_bucket(url).raw_store).add(topic, [SchemaVersion(0, schema, 1)])
    options = {"path": url, "topic": topic, "values": "typed", "columns": "value"}
    raising = LedgerfsDataSource(options)
    reader = raising.reader(raising.schema())
    (part,) = reader.partitions()
    with pytest.raises(
        UndecodableValueError, match=r"value\[\] of persistent://public/default/orders: the time is outside of Spark"
    ):
        list(reader.read(part))
    nulling = LedgerfsDataSource({**options, "onUndecodable": "null"})
    reader = nulling.reader(nulling.schema())
    (batch,) = reader.read(part)
    assert batch["value"].to_pylist() == [[None], [datetime.fromtimestamp(0.001, UTC)]]
    assert "1 values could not be decoded, the first that of message 1:0 or later: value[] is outside" in caplog.text
