"""A DataFrame as messages of a schema: columns are fields, whose values are read again by it."""

import json
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from ledgerfs import import_rows, open_bucket
from ledgerfs.errors import SchemaConflictError
from ledgerfs.spark.source import data_sink
from tests.support.writes import Place

TOPIC = "persistent://public/default/orders"
SCHEMA = {
    "type": "record", "name": "Order", "fields": [
        {"name": "id", "type": "int"}, {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [{"name": "sku", "type": ["null", "string"]}, {"name": "price", "type": {
                "type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}}]}}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}, {"name": "key", "type": "string", "default": "-"},
    ],
}  # fmt: skip


def orders(spark: SparkSession) -> DataFrame:
    return spark.range(0, 1000, 1, 2).selectExpr(
        "concat('k', id) key",
        "id",
        "array(named_struct('price', cast(id / 4 as decimal(9, 2)), 'sku', if(id % 2 = 0, null, 'é'))) lines",
        "timestamp_millis(id) at",
    )


def write(data: DataFrame, place: Place, **options: Any) -> None:
    writer = data.write.format("ledgerfs").mode("append").option("topic", TOPIC)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(place.url)


def test_columns_are_fields(spark: SparkSession, place: Place) -> None:
    schema = {**SCHEMA, "fields": [*SCHEMA["fields"][:3], {**SCHEMA["fields"][3], "name": "channel"}]}  # type: ignore[dict-item]
    write(orders(spark), place, schema=json.dumps(schema))
    bucket = open_bucket(place.url)
    assert [one.version for one in bucket.schemas_of(TOPIC).versions] == [0]
    rows = bucket.topic(TOPIC).scan(["key", "value"], values="typed").to_arrow().to_pylist()
    assert [one["key"] for one in rows] == [f"k{number}" for number in range(1000)]
    values = [one["value"] for one in rows]
    assert [one["id"] for one in values] == list(range(1000))
    assert {one["channel"] for one in values} == {"-"}
    assert [float(one["lines"][0]["price"]) for one in values] == [number / 4 for number in range(1000)]
    assert [one["at"].microsecond for one in values] == [1000 * number for number in range(1000)]
    # As Spark reads them itself.
    found = spark.read.format("ledgerfs").option("topic", TOPIC).option("values", "typed").load(place.url)
    assert found.selectExpr("sum(value.id) n", "count(value.lines[0].sku) m").first() == (499_500, 500)
    # A whole value, which is the second of its schema.
    write(found.select("value", "key"), place, schema=json.dumps(schema))
    bucket.refresh()
    assert bucket.topic(TOPIC).scan(["value"], values="typed").to_arrow()["value"].to_pylist() == [*values, *values]


def test_a_schema_that_somebody_saves_while_tasks_write(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sink without Spark: what its processes do, one after another."""
    monkeypatch.setattr(data_sink, "_task", lambda: (0, 0))
    options = {"topic": TOPIC, "path": place.url, "schemaType": "int64"}
    sink = data_sink.open_sink(options, StructType([StructField("value", LongType())]), overwrite=False)
    written = sink.write(iter([pa.record_batch({"value": [1, 2]})]))
    import_rows(place.url, pa.table({"value": ["theirs"]}), TOPIC, schema_type="string")
    with pytest.raises(SchemaConflictError, match="schema version 0 is another schema, of type STRING"):
        sink.commit([written])
    sink.abort([written])
    (topic,) = open_bucket(place.url).topics()
    assert topic.ledgers == 1
    assert open_bucket(place.url).topic(TOPIC).scan(["value"], values="typed").to_arrow()["value"].to_pylist() == [
        "theirs"
    ]


@pytest.mark.parametrize(
    ("expression", "options", "text"),
    [
        ("if(id = 700, null, id) value", {"schemaType": "int8"}, "row 128 .*of partition 0.*its value is not a value of int8"),
        ("id value", {"schemaType": "int64", "schemaVersion": "x"}, "not a whole number"),
        ("id number", {"schema": json.dumps(SCHEMA)}, "number: not a message column, and not a field of the record 'Order'"),
        ("id value", {"schemaType": "protobuf_native"}, "needs a file"),
    ],
)  # fmt: skip
def test_what_is_refused_writes_nothing(
    spark: SparkSession, place: Place, expression: str, options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        write(spark.range(0, 1000, 1, 1).selectExpr(expression), place, **options)
    assert place.objects() == set()
