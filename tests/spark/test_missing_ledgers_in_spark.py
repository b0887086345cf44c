"""What Spark makes of a topic that lacks ledgers: an error of the plan, before any task has a row."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ledgerfs.errors import MissingLedgerError
from ledgerfs.spark.pipelines.stats import stats
from ledgerfs.spark.source.left_out import by_topic, left_out_accumulator
from tests.support.lacking import MESSAGES, OTHER, OTHER_NAME, TOPIC, LossyBucket, key_of, ledger, lossy_folder


@pytest.fixture
def half(tmp_path: Path) -> LossyBucket:
    """Two topics, of one of which a data object is gone."""
    bucket = lossy_folder(tmp_path / "bucket")
    for made in (ledger(1), ledger(2), ledger(3, name=OTHER_NAME)):
        bucket.put(made)
    bucket.lose(key_of(ledger(2)))
    return bucket


def test_half_a_topic_is_no_data_frame(spark: SparkSession, half: LossyBucket) -> None:
    reader = spark.read.format("ledgerfs")
    for wanted in (reader, reader.option("topic", TOPIC)):
        with pytest.raises(PySparkException, match="data object is gone"):
            wanted.load(half.url).count()
    reader = spark.read.format("ledgerfs")
    assert reader.option("topic", OTHER).load(half.url).count() == MESSAGES
    assert reader.option("topic", TOPIC).option("onCorrupt", "skip").load(half.url).count() == MESSAGES


def test_pipelines_say_what_they_lack(spark: SparkSession, half: LossyBucket) -> None:
    with pytest.raises(MissingLedgerError):
        stats(spark, half.url)
    left_out = left_out_accumulator(spark)
    rows = stats(spark, half.url, by=["topic"], on_corrupt="skip", left_out=left_out).collect()
    assert [(row.topic, row.messages) for row in rows] == [(TOPIC, MESSAGES), (OTHER, MESSAGES)]
    assert [(one.topic, [lost.ledger_id for lost in one.missing]) for one in by_topic(left_out.value)] == [(TOPIC, [2])]
