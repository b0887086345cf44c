"""A DataFrame as messages of new ledgers: what is written, read back without Spark."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DecimalType, StringType, StructField, StructType

from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError
from ledgerfs.spark import register
from ledgerfs.spark.source.data_sink import open_sink
from tests.spark.planned import numbers
from tests.support.each import for_each
from tests.support.s3 import CREDENTIALS, S3Server
from tests.support.writes import Place, folder_place, s3_place

TOPIC = "persistent://public/default/orders"
PUBLISHED = datetime(2026, 3, 1, 12, tzinfo=UTC)


def rows(count: int = 1000) -> list[dict[str, Any]]:
    """Return messages with everything that a message has, or lacks."""
    return [
        {
            "value": None if number % 7 == 3 else b"value %d" % number,
            "key": f"key {number}" if number % 3 == 0 else None,
            "key_bytes": b"\x00\xff%d" % number if number % 3 == 1 else None,
            "properties": [("number", str(number)), ("é", "ü")] if number % 2 else [],
            "event_time": PUBLISHED - timedelta(milliseconds=number) if number % 5 else None,
            "publish_time": PUBLISHED + timedelta(milliseconds=number // 10),
            "producer_name": f"producer {number // 100}",
            "sequence_id": 7 * number,
            "ordering_key": b"order" if number % 4 == 0 else None,
        }
        for number in range(count)
    ]


def frame(spark: SparkSession, given: list[dict[str, Any]], partitions: int) -> DataFrame:
    """Return the rows in order, cut into that many partitions."""
    schema = (
        "value binary, key string, key_bytes binary, properties map<string,string>, event_time timestamp, publish_time timestamp, "
        "producer_name string, sequence_id bigint, ordering_key binary"
    )
    made = [tuple(dict(value) if name == "properties" else value for name, value in row.items()) for row in given]
    return spark.createDataFrame(spark.sparkContext.parallelize(made, partitions), schema)


def write(data: DataFrame, place: Place, mode: str = "append", **options: Any) -> None:
    writer = data.write.format("ledgerfs").mode(mode)
    for name, value in {"topic": TOPIC, **options}.items():
        writer = writer.option(name.replace("__", "."), value)
    writer.save(place.url)


def read(place: Place, columns: list[str] | None = None) -> list[dict[str, Any]]:
    return pa.table(open_bucket(place.url, place.options).topic(TOPIC).scan(columns)).to_pylist()


def ids(place: Place) -> list[int]:
    return [reader.ref.ledger_id for reader in open_bucket(place.url, place.options).topic(TOPIC).ledgers]


@pytest.mark.parametrize(("partitions", "options"), [(1, {}), (3, {}), (2, {"compression": "zstd", "batch": 16})])
def test_rows_read_back(spark: SparkSession, place: Place, partitions: int, options: dict[str, Any]) -> None:
    given = rows()
    write(frame(spark, given, partitions), place, **options)
    assert read(place, list(given[0])) == given
    first = ids(place)[0]
    assert 2**52 <= first < 2**53
    assert ids(place) == list(range(first, first + partitions))
    assert len(place.ledgers()) == partitions
    assert len(place.objects()) == 2 * partitions


def test_rows_on_s3_read_back_and_nothing_else_is_left_there(
    spark: SparkSession, s3: S3Server, open_place: Place
) -> None:
    given, place = rows(), open_place
    write(frame(spark, given, 2), place, endpoint_url=s3.endpoint, anon="true", blockSize="5MiB", batch="100")
    assert read(place, list(given[0])) == given
    assert len(place.ledgers()) == 2
    assert len(place.objects()) == 4
    assert place.uploads() == []
    head = s3.client.head_object(Bucket=place.name, Key=min(place.objects()))
    assert head["Metadata"]["managedledgername"] == "public/default/persistent/orders"


def test_partitions_without_rows_are_no_ledgers_and_keep_the_order(spark: SparkSession, place: Place) -> None:
    data = numbers(spark, 400, 4).where("int(value) < 100 or int(value) >= 300")
    write(data, place, ledgerId=50)
    assert ids(place) == [50, 53]
    assert [row["value"] for row in read(place, ["value"])] == [b"%d" % n for n in [*range(100), *range(300, 400)]]


def test_no_rows_at_all_write_nothing(spark: SparkSession, place: Place) -> None:
    write(numbers(spark, 10, 2).where("value = 'none'"), place)
    assert place.objects() == set()


def test_ledgers_come_behind_those_that_are_there(spark: SparkSession, place: Place) -> None:
    write(numbers(spark, 10, 2), place, ledgerId="17")
    write(numbers(spark, 10, 2), place)
    first = ids(place)[2]
    assert first > 2**52
    assert ids(place) == [17, 18, first, first + 1]
    write(numbers(spark, 10, 1), place)
    assert ids(place)[-1] > first + 1
    assert [row["value"] for row in read(place, ["value"])] == [b"%d" % n for n in range(10)] * 3


def test_how_spark_cuts_rows_changes_no_byte(spark: SparkSession, tmp_path: Path) -> None:
    made = []
    for size in ("7", "10000"):
        place = folder_place(tmp_path / size)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", size)
        try:
            write(frame(spark, rows(), 1), place, batch="100", ledgerId="0")
        finally:
            spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
        made.append({key.partition("-ledger-")[2]: data for key, data in place.contents().items()})
    assert made[0] == made[1]
    assert set(made[0]) == {"0", "0-index"}


def test_rows_without_times_and_names_get_those_of_the_job(spark: SparkSession, place: Place) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    write(numbers(spark, 40, 2), place, producerName="loader")
    found = read(place, ["publish_time", "producer_name"])
    assert {row["producer_name"] for row in found} == {"loader"}
    (published,) = {row["publish_time"] for row in found}
    assert before <= published <= datetime.now(UTC)


def test_properties_as_structs_and_as_json(spark: SparkSession, tmp_path: Path) -> None:
    for name, expression in (("struct", "struct('1' as a, 'b' as b)"), ("json", """'{"a": "1", "b": "b"}'""")):
        place = folder_place(tmp_path / name)
        write(numbers(spark, 4, 1).selectExpr("value", f"{expression} as properties"), place)
        assert [row["properties"] for row in read(place, ["properties"])] == [[("a", "1"), ("b", "b")]] * 4


REFUSED = {
    "another topic": ({"topic": "orders/of/"}, "orders/of/"),
    "no topic": ({"topic": ""}, "topic: is empty"),
    "a misspelt option": ({"batchSize": "10"}, "batchsize: no such option; there are topic, ledgerId, batch"),
    "a credential": ({"storage__secret": "not-to-be-shown"}, "do not pass credentials"),
    "a credential within": ({"storage__client_kwargs": '{"aws_secret_access_key": "not-to-be-shown"}'}, "credentials"),
    "no number": ({"batch": "many"}, "batch=many: not a whole number"),
    "no messages": ({"batch": "0"}, "1 or more messages"),
    "no size": ({"blockSize": "64MB?"}, "blockSize=64MB?: invalid size '64MB?'"),
    "no codec": ({"compression": "brotli"}, "unknown compression 'brotli'"),
    "no ledger's id": ({"ledgerId": "-1"}, "a ledger id is a number"),
    "overwriting": ({"mode": "overwrite"}, "ledgers are never overwritten"),
    "a block of nothing": ({"blockSize": "1"}, "the block size is 1 bytes"),
}


@pytest.mark.parametrize("what", ["a misspelt option", "a credential within", "overwriting"])
def test_what_makes_no_sense_is_refused_before_a_task_runs(spark: SparkSession, place: Place, what: str) -> None:
    options, reported = REFUSED[what]
    with pytest.raises(AnalysisException) as raised:
        write(unreadable(spark), place, **options)
    assert reported in str(raised.value)
    assert "not-to-be-shown" not in str(raised.value)
    assert place.objects() == set()


VALUE = StructField("value", StringType())
COLUMNS = {
    "colour: no such column; accepted are value, key": [VALUE, StructField("colour", StringType())],
    "value: the column is missing": [StructField("key", StringType())],
    "event_time: the column has the type decimal128": [VALUE, StructField("event_time", DecimalType(2, 1))],
    "value: the column has the type list": [StructField("value", ArrayType(StringType()))],
}
CASES = [
    *((*one, [VALUE]) for one in REFUSED.values()),
    *(({}, reported, fields) for reported, fields in COLUMNS.items()),
]


@for_each(("options", "reported", "fields"), CASES)
def test_what_makes_no_sense_is_refused_by_the_process_that_plans(
    place: Place, options: dict[str, str], reported: str, fields: list[StructField]
) -> None:
    # Spark makes names lower case.
    given = {name.replace("__", ".").lower(): value for name, value in options.items() if name != "mode"}
    with pytest.raises(LedgerfsError) as raised:
        open_sink({"topic": TOPIC, "path": place.url, **given}, StructType(fields), overwrite="mode" in options)
    assert reported in str(raised.value)
    assert "not-to-be-shown" not in str(raised.value)
    assert place.objects() == set()


def test_a_first_ledger_that_is_there_is_refused_before_a_task_runs(spark: SparkSession, place: Place) -> None:
    write(numbers(spark, 4, 1), place, ledgerId=3)
    before = place.contents()
    with pytest.raises(AnalysisException, match="the bucket already has ledger 3"):
        write(unreadable(spark), place, ledgerId=3)
    assert place.contents() == before


def test_a_bucket_that_is_not_there_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="no such bucket or folder"):
        write(unreadable(spark), Place(f"file://{tmp_path}/nowhere"))


def unreadable(spark: SparkSession) -> DataFrame:
    """Return rows that fail whoever reads one of them."""

    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise AssertionError("a task runs")

    return numbers(spark, 4, 2).mapInArrow(fail, "value string")


def test_a_sessions_settings_of_s3_are_enough(spark: SparkSession, s3: S3Server, s3_bucket: str) -> None:
    register(spark, {"fs.s3a.access.key": CREDENTIALS["key"], "fs.s3a.secret.key": CREDENTIALS["secret"]})
    place = s3_place(s3, s3_bucket)
    writer = numbers(spark, 100, 2).write.format("ledgerfs").option("topic", TOPIC).mode("append")
    writer.option("endpoint_url", s3.endpoint).save(place.url)
    table = open_bucket(place.url, place.options).topic(TOPIC).scan(["value"]).to_arrow()
    assert table["value"].to_pylist() == [b"%d" % number for number in range(100)]
    assert len(place.objects()) == 4
