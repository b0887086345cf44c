"""`ledgerfs.spark.pipelines.stats`: messages, bytes and keys, as a count of the messages themselves gives them."""

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ledgerfs import open_bucket
from ledgerfs.errors import InvalidOptionError, NotFoundError
from ledgerfs.spark.pipelines.export import export
from ledgerfs.spark.pipelines.stats import stats
from ledgerfs.spark.source.messages import read_messages

PLAIN = "persistent://public/golden/plain"


def counted(url: str, names: list[str]) -> dict[tuple[Any, ...], tuple[int, int, set[Any]]]:
    """Count messages one by one: {(topic, day, producer): (messages, bytes, keys)}."""
    groups: dict[tuple[Any, ...], list[tuple[int, Any]]] = defaultdict(list)
    bucket = open_bucket(url)
    columns = ["publish_time", "producer_name", "key", "key_bytes", "value"]
    for name in names:
        for row in pa.table(bucket.topic(name).scan(columns, on_encrypted="null")).to_pylist():
            key = row["key"].encode() if row["key"] is not None else row["key_bytes"]
            group = (name, row["publish_time"].date(), row["producer_name"])
            groups[group].append((len(row["value"] or b""), key))
    return {
        group: (len(rows), sum(size for size, _ in rows), {key for _, key in rows} - {None})
        for group, rows in groups.items()
    }


def test_every_topic_is_counted_as_its_messages_are(spark: SparkSession, golden_url: str) -> None:
    wanted = counted(golden_url, [info.name for info in open_bucket(golden_url).topics()])
    rows = stats(spark, golden_url, on_encrypted="null").collect()
    assert [tuple(row)[:5] for row in rows] == sorted(
        ((*group, messages, size) for group, (messages, size, _) in wanted.items()),
        key=lambda row: (row[0].encode(), row[1], row[2].encode()),
    )
    assert sum(row.messages for row in rows) > 12_000
    for row in rows:
        keys = wanted[row.topic, row.day, row.producer_name][2]
        assert row.keys == pytest.approx(len(keys), rel=0.2)
    assert max(row.keys for row in rows) > 1


def test_topics_times_and_groups_are_chosen(spark: SparkSession, golden_url: str) -> None:
    all_of = [(row.topic, row.messages) for row in stats(spark, golden_url, topics=[PLAIN], by=["topic"]).collect()]
    assert all_of == [(PLAIN, 600)]
    scan = open_bucket(golden_url).topic(PLAIN).scan(["publish_time"], start_time="2026-11-21T06:00:20")
    later = stats(spark, golden_url, topics=[PLAIN], by=[], start_time="2026-11-21T06:00:20").collect()
    assert [row.messages for row in later] == [len(pa.table(scan))]
    assert 0 < later[0].messages < 600
    pattern = "persistent://public/golden/partitioned-.*"
    names = [row.topic for row in stats(spark, golden_url, topics_pattern=pattern, by=["topic"]).collect()]
    assert names == [f"persistent://public/golden/partitioned-partition-{number}" for number in range(3)]


def test_a_topic_that_is_not_there_and_a_wrong_group_are_named(spark: SparkSession, golden_url: str) -> None:
    with pytest.raises(NotFoundError, match="nothing-here"):
        stats(spark, golden_url, topics=["persistent://public/golden/nothing-here"])
    with pytest.raises(InvalidOptionError, match="topic, day, producer_name"):
        stats(spark, golden_url, by=["hour"])


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ({"strat_time": 0}, "start_time"),
        ({"topic": "persistent://public/golden/plain"}, ""),
        ({"partition_byte": 1}, ""),
        ({"transaction": "all"}, "transactions"),
    ],
)
def test_a_misspelt_option_is_reported_before_anything_is_asked(options: dict[str, Any], meant: str) -> None:
    reported = rf"{next(iter(options))}.*no such option{meant and rf'.*did you mean {meant}'}"
    for call in (
        lambda: read_messages(None, "file:///nowhere", **options),
        lambda: stats(None, "file:///nowhere", **options),
        lambda: export(None, "file:///nowhere", "lake", **options),
    ):
        with pytest.raises(InvalidOptionError, match=reported):
            call()
