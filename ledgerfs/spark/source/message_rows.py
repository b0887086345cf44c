"""The message table with Spark's types, and reading a part of a bucket into it, as every task of a reading query does."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from cachetools import LRUCache
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.partitions import Partition, Run
from ledgerfs.errors import InvalidRowsError
from ledgerfs.messages.decode.table_schema import schema_of
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.runtime.tasks import spare_imports

if TYPE_CHECKING:
    from ledgerfs.scan.scan import Scan
    from ledgerfs.scan.transaction_outcomes import Known

OnEnd = Callable[["Scan"], None]

BATCH_BYTES = 4 << 20
BATCH_ROWS = 1 << 15
"""A batch for Spark has at most so many bytes (or one larger row) and rows: Spark holds each in memory more than once."""

_TRANSACTIONS_KNOWN = 1 << 16
_TOPICS_KNOWN = 64

_log = logging.getLogger("ledgerfs.spark")
_outcomes: "LRUCache[tuple[str | Bucket, str, str | None, int, int], Known]" = LRUCache(_TOPICS_KNOWN)


def arrow_schema(columns: Sequence[str] | None) -> pa.Schema:
    """Return the columns for Spark, all of them nullable. Raises `InvalidRowsError` for an unknown one."""
    return pa.schema([field.with_nullable(True) for field in schema_of(columns)])


def spark_schema(columns: Sequence[str] | None) -> StructType:
    """Return the same as Spark's type."""
    found: StructType = from_arrow_schema(arrow_schema(columns))
    return found


def columns_of(schema: StructType) -> list[str]:
    """Return the columns of a schema, which may be the user's (``spark.read.schema(…)``).

    Raises `InvalidRowsError` for an unknown column, or one of another type.
    """
    names = [field.name for field in schema]
    for wanted, found in zip(schema, spark_schema(names), strict=True):
        if wanted.dataType != found.dataType:
            raise InvalidRowsError(
                f"is {found.dataType.simpleString()} here, not {wanted.dataType.simpleString()}", key=wanted.name
            )
    return names


def read_partition(
    partition: Partition,
    storage: Storage,
    columns: Sequence[str] | None,
    options: Mapping[str, Any],
    on_end: "OnEnd | None" = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a part in batches of bounded size, of `arrow_schema`.

    ``options`` are those of `Topic.scan`, ``on_end`` is told of each scan that is done. What a scan left out because it is damaged, and
    may be, is logged. Raises as a scan does.
    """
    schema, bucket = arrow_schema(columns), storage.bucket()
    for run in partition.runs:
        scan = run.scan(bucket, columns=schema.names, **options)
        scan.known_outcomes = _outcomes_of(bucket, run)
        for batch in scan:
            yield from cut_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        _log_left_out(scan)
        if on_end is not None:
            on_end(scan)
    spare_imports()


def cut_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices of bounded size."""
    parts = max(-(-batch.nbytes // BATCH_BYTES), -(-batch.num_rows // BATCH_ROWS), 1)
    size = max(1, -(-batch.num_rows // parts))
    return (batch.slice(start, size) for start in range(0, batch.num_rows, size))


def _log_left_out(scan: "Scan") -> None:
    """Log what a scan left out; Spark keeps that with the task's standard error."""
    for one in scan.skipped:
        _log.warning(
            "%s: entries %d to %d of ledger %d are left out: %s",
            scan.topic, one.first_entry, one.last_entry, one.ledger_id, one.reason,
        )  # fmt: skip
    for part in scan.incomplete:
        _log.warning(
            "%s: %d of the %d parts of a chunked message that begins with entry %d of ledger %d are missing",
            scan.topic, part.chunks - part.parts, part.chunks, part.entry_id, part.ledger_id,
        )  # fmt: skip


def _outcomes_of(bucket: Bucket, run: Run) -> "Known":
    """Return the outcomes that tasks of this process know of a topic's transactions: looking for one may read the topic to its end."""
    # Not by its URL, which two endpoints may share.
    key = (bucket.identity or bucket, bucket.dialect, run.managed_ledger, run.topic_size, run.last_ledger)
    found = _outcomes.get(key)
    if found is None or len(found) > _TRANSACTIONS_KNOWN:
        found = _outcomes[key] = {}
    return found
