"""Queries without Spark: planned in this process, and read by what Spark would pickle for its tasks."""

import pickle

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ledgerfs.spark.source.data_source import LedgerfsDataSource


def by_tasks(url: str, **options: str) -> tuple[StructType, pa.Table]:
    """Return the columns that a query is planned with, and the rows that its tasks yield; names of options are lower case, as in Spark."""
    planned = LedgerfsDataSource({"path": url, **{name.lower(): value for name, value in options.items()}})
    schema = planned.schema()
    reader = pickle.loads(pickle.dumps(planned)).reader(schema)
    parts = reader.partitions()
    assert parts
    tasks = [(pickle.loads(pickle.dumps(reader)), pickle.loads(pickle.dumps(part))) for part in parts]
    return schema, pa.Table.from_batches([batch for task, part in tasks for batch in task.read(part)])


def numbers(spark: SparkSession, count: int, partitions: int, size: int = 0) -> DataFrame:
    """Return values that are numbers in order, in that many partitions, each followed by so many x."""
    return spark.range(0, count, 1, partitions).selectExpr(f"concat(cast(id as string), repeat('x', {size})) value")
