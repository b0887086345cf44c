"""MapFiles of Pulsar's filesystem offloader as data frames, and what Spark's verification and catalog say."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ledgerfs.spark.pipelines.catalog import catalog
from ledgerfs.spark.pipelines.verify import verify
from tests.support.golden_rows import expected_of


def test_a_golden_bucket(spark: SparkSession, golden_mapfiles: Path) -> None:
    url, topic = f"file://{golden_mapfiles}", "persistent://public/golden/plain"
    rows = spark.read.format("ledgerfs").option("topic", topic).load(url)
    expected = expected_of(golden_mapfiles, topic)
    found = sorted((row.ledger_id, row.entry_id, row.batch_index, bytes(row.value or b"")) for row in rows.collect())
    assert [one[:3] for one in found] == [(one["ledger_id"], one["entry_id"], one["batch_index"]) for one in expected]
    other = spark.read.format("ledgerfs").option("topic", topic).option("layout", "pulsar_blob")
    with pytest.raises(PySparkException, match="no ledger of this topic"):
        other.load(url).count()
    assert not verify(spark, url).where("severity = 'damage'").count()
    assert catalog(spark, url).count() == 63
