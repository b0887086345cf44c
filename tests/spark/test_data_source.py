"""``spark.read.format("ledgerfs")``: every golden topic as Pulsar's own reader returned it, however the bucket is cut into tasks."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource_internal import _streamReader

from ledgerfs import open_bucket
from ledgerfs.errors import LedgerfsError, MissingLedgerError, UnsupportedFormatError
from ledgerfs.spark.pipelines.stats import stats
from ledgerfs.spark.source.data_source import LedgerfsDataSource
from tests.spark.planned import by_tasks
from tests.support.each import for_each
from tests.support.entries import frame, metadata
from tests.support.golden_rows import as_java_says, expected_of, wanted
from tests.support.lacking import MESSAGES, OTHER, OTHER_NAME, TOPIC, key_of, ledger, lossy_folder
from tests.support.ledgers import offload, put_in_folder
from tests.support.s3 import CREDENTIALS, S3Server

PLAIN = "persistent://public/golden/plain"
ENCRYPTED = "persistent://public/golden/encrypted"


@pytest.fixture(scope="module")
def url(golden: Path) -> str:
    return str(golden / "bucket")


def read(spark: SparkSession, url: str, **options: Any) -> DataFrame:
    return spark.read.format("ledgerfs").options(**options).load(url)


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in ("topic", "ledger_id", "entry_id", "batch_index")])


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_golden_topics_are_what_pulsar_read(spark: SparkSession, golden: Path, url: str) -> None:
    """Rows as sets with their ids: nothing twice, nothing missing."""
    require_all(read(spark, url, partitionBytes="1MiB", onEncrypted="skip").toArrow(), golden, url)


@pytest.mark.parametrize("size", ["16KiB", "1GiB"])
def test_however_a_bucket_is_cut_its_tasks_yield_what_pulsar_read(golden: Path, url: str, size: str) -> None:
    """Without Spark: with what it would pickle for its tasks."""
    _, table = by_tasks(url, partitionBytes=size, onEncrypted="skip")
    require_all(table, golden, url)


def require_all(table: pa.Table, golden: Path, url: str) -> None:
    names = {info.name for info in open_bucket(url).topics()} - {ENCRYPTED}
    assert set(pc.unique(table["topic"]).to_pylist()) == names
    for name in names:
        rows = table.filter(pc.field("topic") == name).to_pylist()
        assert texts([as_java_says(row) for row in rows]) == texts(wanted(expected_of(golden, name))), name
    assert table.num_rows == 12_989 - 69


@pytest.mark.parametrize("size", ["1KiB", "1GiB"])
def test_private_keys_by_reference(spark: SparkSession, golden: Path, url: str, size: str) -> None:
    keys = f"golden.key={golden / 'keys' / 'private.pem'}"
    rows = read(spark, url, topic=ENCRYPTED, privateKeys=keys, partitionBytes=size).toArrow().to_pylist()
    expected = expected_of(golden, ENCRYPTED, "expected-decrypted")
    assert texts([as_java_says(row) for row in rows]) == texts(wanted(expected))
    with pytest.raises(PythonException, match="EncryptedMessageError"):
        read(spark, url, topic=ENCRYPTED).collect()


def test_schema_is_that_of_the_message_table(spark: SparkSession, url: str) -> None:
    schema = read(spark, url).schema
    scan = open_bucket(url).topic(PLAIN).scan()
    assert schema.names == scan.schema.names
    assert all(field.nullable for field in schema)
    assert dict(read(spark, url, columns="publish_time,properties,value").dtypes) == {
        "publish_time": "timestamp", "properties": "map<string,string>", "value": "binary",
    }  # fmt: skip


def test_columns_by_option_and_by_schema(spark: SparkSession, url: str) -> None:
    expected = open_bucket(url).topic(PLAIN).scan(["value", "entry_id"]).to_arrow().to_pylist()
    by_option = read(spark, url, topic=PLAIN, columns=["value", "entry_id"])
    assert by_option.columns == ["value", "entry_id"]
    by_schema = spark.read.format("ledgerfs").option("topic", PLAIN).schema("value binary, entry_id long").load(url)
    for frame_ in (by_option, by_schema):
        found = [{"value": row.value and bytes(row.value), "entry_id": row.entry_id} for row in frame_.collect()]
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
    with pytest.raises((AnalysisException, PythonException), match="has the type string, expected binary"):
        spark.read.format("ledgerfs").option("topic", PLAIN).schema("value string").load(url).collect()


@pytest.mark.parametrize("size", ["1KiB", "1GiB"])
def test_times(spark: SparkSession, url: str, size: str) -> None:
    topic = open_bucket(url).topic(PLAIN)
    times = sorted(topic.scan(["publish_time"]).to_arrow()["publish_time"].to_pylist())
    start, end = times[len(times) // 4], times[len(times) // 2]
    reported = read(spark, url, topic=PLAIN, startTime=start.isoformat(), endTime=end.isoformat(), partitionBytes=size)
    expected = in_order(topic.scan(start_time=start, end_time=end).to_arrow())
    assert in_order(reported.toArrow()).to_pylist() == expected.to_pylist()
    assert reported.count() == sum(start <= time < end for time in times)


def test_topics_lists_and_patterns(spark: SparkSession, url: str) -> None:
    count = {
        info.name: open_bucket(url).topic(info.name).count(on_encrypted="null") for info in open_bucket(url).topics()
    }

    def found(**options: Any) -> set[str]:
        return {row.topic for row in read(spark, url, columns="topic", **options).distinct().collect()}

    two = ["persistent://public/golden/plain", "persistent://public/golden/int64"]
    assert found(topics=two) == found(topics=json.dumps(two)) == found(topics=",".join(two)) == set(two)
    assert found(topicsPattern="public/golden/single-.*") == {name for name in count if "/single-" in name}
    parts = {name for name in count if "/partitioned-partition-" in name}
    assert len(parts) > 1
    assert found(topic="public/golden/partitioned") == parts
    assert read(spark, url, columns="topic", onEncrypted="null").count() == sum(count.values())


def test_sql_view(spark: SparkSession, url: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders USING ledgerfs OPTIONS (path '{url}', topic '{PLAIN}')")
    assert spark.sql("SELECT count(*) FROM orders").first()[0] == open_bucket(url).topic(PLAIN).count()
    assert spark.sql("SELECT count(*) FROM orders WHERE entry_id < 10").first()[0] <= 10 * 100


WRONG: list[tuple[dict[str, str], str]] = [
    ({"endtime_": "2026"}, "endtime_: no such option"),
    ({"topic": "public/golden/nothing"}, "nothing: no ledger of this topic"),
    ({"topic": PLAIN, "topicsPattern": ".*"}, "either topics"),
    ({"topicsPattern": "("}, "invalid regular expression"),
    ({"columns": "valeu"}, "valeu: no such column"),
    ({"startTime": "last week"}, "last week"),
    ({"partitionBytes": "much"}, "partitionBytes=much"),
    ({"onCorrupt": "ignore"}, "on_corrupt"),
    ({"checkChecksums": "maybe"}, "true or false"),
    ({"key": "AKIA"}, "no such option"),
    ({"storage.secret": "hidden-thing"}, "do not pass credentials"),
    ({"storage.client_kwargs": '{"aws_secret_access_key": "hidden-thing"}'}, "do not pass credentials"),
    ({"fs.s3a.secret.key": "hidden-thing"}, "do not pass credentials"),
    ({"privateKeys": "app=-----BEGIN PRIVATE KEY-----hidden-thing"}, "pass the path of a file"),
]


@for_each(("options", "said"), WRONG)
def test_wrong_options_are_reported_by_the_process_that_plans(url: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(LedgerfsError) as caught:
        by_tasks(url, **options)
    assert said in str(caught.value)
    assert "hidden-thing" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"), [one for one in WRONG if {"columns", "topic", "storage.secret"} & one[0].keys()]
)
def test_wrong_options_are_reported(spark: SparkSession, url: str, options: dict[str, str], said: str) -> None:
    with pytest.raises((AnalysisException, PythonException)) as caught:
        read(spark, url, **options).collect()
    assert said in str(caught.value)
    assert "hidden-thing" not in str(caught.value)


def test_a_bucket_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises((AnalysisException, PythonException), match="BucketNotFoundError"):
        read(spark, str(tmp_path / "nothing")).collect()
    with pytest.raises((AnalysisException, PythonException), match="the bucket is missing"):
        spark.read.format("ledgerfs").load().collect()


def test_an_empty_bucket(spark: SparkSession, tmp_path: Path) -> None:
    assert read(spark, str(tmp_path)).count() == 0


def test_damage_names_object_and_offset(spark: SparkSession, tmp_path: Path) -> None:
    made = offload([frame(metadata(), b"x" * 100)] * 3)
    put_in_folder(tmp_path, made)
    (data,) = tmp_path.glob("*-ledger-1")
    broken = bytearray(made.data)
    at = len(broken) - 130
    broken[at : at + 8] = b"\xff" * 8
    data.write_bytes(broken)
    with pytest.raises(PythonException, match=r"Corrupt\w+Error: .*"):
        read(spark, str(tmp_path)).collect()
    left = read(spark, str(tmp_path), onCorrupt="skip").count()
    assert 0 < left < 3


def test_half_a_topic_is_no_data_frame(spark: SparkSession, tmp_path: Path) -> None:
    """An error of the plan, before any task has a row."""
    bucket = lossy_folder(tmp_path / "bucket")
    for made in (ledger(1), ledger(2), ledger(3, name=OTHER_NAME)):
        bucket.put(made)
    bucket.lose(key_of(ledger(2)))
    for options in ({}, {"topic": TOPIC}):
        with pytest.raises(PySparkException, match="data object is missing"):
            read(spark, bucket.url, **options).count()
    assert read(spark, bucket.url, topic=OTHER).count() == MESSAGES
    assert read(spark, bucket.url, topic=TOPIC, onCorrupt="skip").count() == MESSAGES
    with pytest.raises(MissingLedgerError):
        stats(spark, bucket.url)


def test_a_loaded_frame_is_a_snapshot_and_the_next_one_is_new(spark: SparkSession, tmp_path: Path) -> None:
    put_in_folder(tmp_path, offload([frame(metadata(), b"x")], 1))
    first = read(spark, str(tmp_path))
    assert first.count() == 1
    put_in_folder(tmp_path, offload([frame(metadata(), b"y")], 2, uuid=2))
    assert first.count() == 1
    assert read(spark, str(tmp_path)).count() == 2


def test_a_task_that_dies_and_is_tried_again_changes_nothing(spark: SparkSession, url: str, tmp_path: Path) -> None:
    """The first attempt of each task ends its worker process in the middle of its rows."""
    marks = str(tmp_path)

    def die_once(batches: Any) -> Any:
        mark = Path(marks) / str(TaskContext.get().partitionId())
        for number, batch in enumerate(batches):
            if number and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    frame_ = read(spark, url, onEncrypted="null", partitionBytes="16MiB", columns="ledger_id,entry_id,batch_index")
    usual = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    rows = sorted(map(tuple, frame_.collect()), key=repr)
    again = sorted(map(tuple, frame_.mapInArrow(die_once, frame_.schema).collect()), key=repr)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", usual)
    assert again == rows
    assert list(tmp_path.iterdir()), "no task died"


def test_there_is_no_stream_and_the_error_says_what_to_do(url: str) -> None:
    """What Spark calls in the process that plans a stream. Of that process it expects an answer within ten seconds."""
    source = LedgerfsDataSource({"path": url})
    stream = _streamReader(source, source.schema())
    with pytest.raises(UnsupportedFormatError, match=r"readStream is not supported yet: read with spark.read, and"):
        stream.initialOffset()


def test_s3_with_hadoops_settings(spark: SparkSession, s3: S3Server, s3_golden: str, url: str) -> None:
    """The endpoint is an option, credentials are what the session's settings say; neither is in any plan."""
    from ledgerfs.spark import register

    register(spark, {"fs.s3a.access.key": CREDENTIALS["key"], "fs.s3a.secret.key": CREDENTIALS["secret"]})
    for scheme in ("s3", "s3a"):
        frame_ = read(spark, s3_golden.replace("s3", scheme, 1), topic=PLAIN, endpoint_url=s3.endpoint)
        assert frame_.count() == open_bucket(url).topic(PLAIN).count()
        plan = frame_._jdf.queryExecution().toString()
        assert CREDENTIALS["secret"] not in plan
        assert CREDENTIALS["key"] not in plan


def test_s3_errors_show_no_credentials(spark: SparkSession, s3: S3Server) -> None:
    from ledgerfs.spark import register

    register(spark, {"fs.s3a.access.key": CREDENTIALS["key"], "fs.s3a.secret.key": CREDENTIALS["secret"]})
    with pytest.raises((AnalysisException, PythonException), match="BucketNotFoundError") as caught:
        read(spark, "s3://no-such-bucket", endpoint_url=s3.endpoint).collect()
    assert CREDENTIALS["secret"] not in str(caught.value)
