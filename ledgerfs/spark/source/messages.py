"""Read topics in Python, with arguments that data source options cannot contain: functions and credentials."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
from ledgerfs.bucket.partitions import Partition, Reported
from ledgerfs.catalog.missing_ledgers import MissingLedger
from ledgerfs.scan.options import ScanKeywords, ScanOptions
from ledgerfs.scan.report import ScanReport
from ledgerfs.spark.runtime.storage import Storage, storage_of
from ledgerfs.spark.runtime.tasks import distribute
from ledgerfs.spark.source.left_out import Omissions, omissions_of
from ledgerfs.spark.source.message_rows import read_partition
from ledgerfs.spark.source.planning import plan_parts, plan_values
from ledgerfs.spark.source.query_values import Schemas
from ledgerfs.spark.source.read_options import ReadOptions
from ledgerfs.spark.source.struct_types import spark_schema

if TYPE_CHECKING:
    from pyspark import Accumulator

EachBatch = Callable[[pa.RecordBatch], pa.RecordBatch]


def read_messages(
    spark: SparkSession,
    storage: Storage | str,
    *,
    topics: Sequence[str] | str | None = None,
    topics_pattern: str | None = None,
    columns: Sequence[str] | None = None,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    each_batch: EachBatch | None = None,
    schema: StructType | None = None,
    left_out: "Accumulator[Omissions] | None" = None,
    options: ScanOptions | None = None,
    **keywords: Unpack[ScanKeywords],
) -> DataFrame:
    """Return messages of topics as a DataFrame. Lists the bucket now, and reads it when rows are used.

    Parameters
    ----------
    spark, storage
        The session; a bucket's URL, or a `Storage` with options of its filesystem.
    topics, topics_pattern
        Names of topics, or a regular expression that whole names match; all topics without both.
    partition_bytes
        Approximate bytes that a task reads.
    each_batch, schema
        Function for each batch in the Python workers, and the schema of its results.
    left_out
        Accumulator to which tasks add their omissions (`ledgerfs.spark.source.left_out`); their logs contain them as well.
    columns, options, keywords
        As in `Topic.scan`, without ``limit`` and ``order``, which are `DataFrame.limit` and ``orderBy``.

    Raises
    ------
    NotFoundError, MissingLedgerError, InvalidNameError, InvalidOptionError, AccessDeniedError, StoreError
        As `ledgerfs.spark.source.planning.plan`; errors of tasks arrive as Spark errors that contain the ledgerfs message.

    """
    scan = ScanOptions.of(options, **keywords)
    if columns is not None:
        scan = replace(scan, columns=columns)
    where = storage_of(spark, storage).of_task(None, spark.sparkContext.defaultParallelism)
    if scan.private_keys:
        # The file of a key may exist only on this machine.
        keys = {name: one.read_bytes() if isinstance(one, Path) else one for name, one in scan.private_keys.items()}
        scan = replace(scan, private_keys=keys)

    def tell_missing(missing: Sequence[MissingLedger]) -> None:
        if left_out is not None:
            left_out.add(frozenset((one.topic, one) for one in missing))

    query = ReadOptions(where, topics, topics_pattern, scan, partition_bytes)
    values = plan_values(query)
    made = spark_schema(values.columns(scan).schema)
    parts = plan_parts(query, values, tell_missing)
    of_tasks = values.options_of_tasks(scan)

    def tell(report: ScanReport) -> None:
        if left_out is not None:
            left_out.add(omissions_of(report))

    def read(reported: tuple[Reported, Schemas]) -> Iterator[pa.RecordBatch]:
        part, schemas = reported
        batches = read_partition(Partition.of(part), where, of_tasks, on_end=tell, schemas=schemas)
        return batches if each_batch is None else map(each_batch, batches)

    return distribute(spark, parts, read, made if schema is None else schema)
