"""Count messages, bytes and keys, by topic, day and producer.

::

    from ledgerfs.spark.pipelines.stats import stats

    stats(spark, "s3://tier", start_time="2026-11-01").orderBy("bytes", ascending=False).show(truncate=False)

or ``ledgerfs spark stats s3://tier``. The Python workers decode every message and replace its value by its length, so payloads never reach
Java.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

from ledgerfs.bucket.partition_plan import DEFAULT_PARTITION_BYTES
from ledgerfs.errors import InvalidOptionError
from ledgerfs.scan.options import ScanKeywords, ScanOptions
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.source.messages import read_messages

if TYPE_CHECKING:
    from pyspark import Accumulator

    from ledgerfs.spark.source.left_out import Omissions

BY = ("topic", "day", "producer_name")
"""Group columns."""

_READ = ("topic", "publish_time", "producer_name", "key", "key_bytes", "value")
_SIZES = pa.schema(
    [
        ("topic", pa.string()),
        ("day", pa.date32()),
        ("producer_name", pa.string()),
        ("key", pa.binary()),
        ("size", pa.int64()),
    ]
)


def stats(
    spark: SparkSession,
    storage: Storage | str,
    *,
    topics: Sequence[str] | str | None = None,
    topics_pattern: str | None = None,
    by: Sequence[str] = BY,
    partition_bytes: int = DEFAULT_PARTITION_BYTES,
    left_out: "Accumulator[Omissions] | None" = None,
    options: ScanOptions | None = None,
    **keywords: Unpack[ScanKeywords],
) -> DataFrame:
    """Return a row for each group, in order: the columns of ``by``, then ``messages``, ``bytes`` and ``keys``.

    ``bytes`` is the size of the values that a consumer gets, decompressed and without keys, properties and metadata; 0 for a null value
    (a tombstone, or encrypted with ``on_encrypted="null"``). ``keys`` is the approximate number of distinct keys (standard error 5 %),
    0 if no message has a key.

    Parameters
    ----------
    spark, storage
        The session; a bucket's URL, or a `Storage` with options of its filesystem.
    topics, topics_pattern
        Names of topics, or a regular expression that whole names match; all topics without both.
    by
        Some of ``topic``, ``day`` (of the publish time, UTC) and ``producer_name``, in the order of columns; empty for one sum.
    partition_bytes, left_out, options, keywords
        As in `read_messages`.

    Raises
    ------
    NotFoundError, AccessDeniedError, StoreError
        As `read_messages`; errors of tasks arrive as Spark errors that contain the ledgerfs message.
    InvalidOptionError
        An unknown column in ``by``, or an unknown option.

    """
    scan = ScanOptions.of(options, **keywords)
    if scan.values != "bytes":
        raise InvalidOptionError(
            "stats counts the bytes of values without decoding them; leave out the option", key="values"
        )
    for name in by:
        if name not in BY:
            raise InvalidOptionError(f"expected one of {', '.join(BY)}", key=name)
    sizes = read_messages(
        spark, storage, topics=topics, topics_pattern=topics_pattern, columns=_READ, each_batch=sizes_of,
        schema=from_arrow_schema(_SIZES), partition_bytes=partition_bytes, left_out=left_out, options=scan,
    )  # fmt: skip
    counted = sizes.groupBy(*by).agg(
        functions.count("*").alias("messages"),
        functions.coalesce(functions.sum("size"), functions.lit(0)).alias("bytes"),
        functions.approx_count_distinct("key").alias("keys"),
    )
    return counted.orderBy(*by) if by else counted


def sizes_of(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns to count, a row for each message."""
    key = pc.coalesce(batch["key"].cast(pa.binary()), batch["key_bytes"])
    size = pc.binary_length(batch["value"]).cast(pa.int64())
    day = batch["publish_time"].cast(pa.date32())
    return pa.RecordBatch.from_arrays([batch["topic"], day, batch["producer_name"], key, size], schema=_SIZES)
