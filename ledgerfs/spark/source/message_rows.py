"""The message table with Spark's types; each task of a query reads a part of a bucket into it."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
from cachetools import LRUCache
from pyspark.sql.types import StructType

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.bucket.partitions import Partition, Run
from ledgerfs.errors import InvalidOptionError, InvalidRowsError
from ledgerfs.messages.decode.undecodable import Undecodable
from ledgerfs.scan.options import ScanOptions
from ledgerfs.scan.part_reading import TopicPart
from ledgerfs.scan.projection import asked_columns
from ledgerfs.scan.report import ScanReport
from ledgerfs.spark.runtime.storage import Storage
from ledgerfs.spark.runtime.tasks import spare_imports
from ledgerfs.spark.source.query_values import QueryValues, Schemas, owner_of, spark_columns
from ledgerfs.spark.source.spark_types import Unheld
from ledgerfs.spark.source.struct_types import arrow_schema, spark_schema

if TYPE_CHECKING:
    from ledgerfs.scan.scan import Scan
    from ledgerfs.scan.transaction_outcomes import Known

OnEnd = Callable[[ScanReport], None]

BATCH_BYTES = 4 << 20
BATCH_ROWS = 1 << 15
"""Limits of a batch for Spark, in bytes (unless one row is larger) and rows: Spark holds each batch in memory more than once."""

_TRANSACTIONS_KNOWN = 1 << 16
_TOPICS_KNOWN = 64
_SHOWN = 200

_log = logging.getLogger("ledgerfs.spark")
_outcomes: "LRUCache[tuple[str | Bucket, str, str | None, int, int], Known]" = LRUCache(_TOPICS_KNOWN)


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """The columns of a query.

    Attributes
    ----------
    read
        Source columns in the message table.
    names
        Names of the query's columns, in order; None for all columns.

    """

    read: tuple[str, ...]
    names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, schema: StructType, options: ScanOptions, values: QueryValues) -> "WantedColumns":
        """Return the columns of a schema, which may be the user's (``spark.read.schema(…)``).

        Raises `InvalidOptionError` for an unknown column, and `InvalidRowsError` for one of another type.
        """
        names = tuple(one.name for one in schema)
        is_flat = values.shown is not None and values.shown.is_flat
        wanted = cls(asked_columns(options), names) if is_flat else cls(names)
        table = values.columns(replace(options, columns=wanted.read)).schema
        known = {one.name: one.dataType for one in spark_schema(table)}
        for one in schema:
            if one.name not in known:
                raise InvalidOptionError(f"no such column; there are {', '.join(known)}", key=one.name)
            made, given = known[one.name].simpleString(), one.dataType.simpleString()
            if one.dataType != known[one.name]:
                reason = "must be nullable at all levels" if made == given else f"has the type {given}, expected {made}"
                raise InvalidRowsError(reason, key=one.name)
        return wanted


def with_given_type(options: ScanOptions, schema: StructType) -> ScanOptions:
    """Return scan options with the document type from the query's columns, so that no read infers it.

    Does not apply to columns of fields (``flatten``). Raises `InvalidOptionError` for times: Spark's types lack the unit of numbers.
    """
    if options.values != "json" or options.flatten:
        return options
    options = replace(options, columns=tuple(schema.names))
    if "value" not in schema.names or options.schema_version != "latest":
        return options
    kind = arrow_schema(schema).field("value").type
    if _has_times(kind):
        reason = "the unit of times in JSON is unknown: use numbers or text, or pass an Avro schema (schemaVersion)"
        raise InvalidOptionError(reason, key=f"value: {schema['value'].dataType.simpleString()}"[:_SHOWN])
    return replace(options, schema_version=kind)


def _has_times(kind: pa.DataType) -> bool:
    return pa.types.is_temporal(kind) or any(_has_times(kind.field(place).type) for place in range(kind.num_fields))


def read_partition(
    partition: Partition,
    storage: Storage,
    options: ScanOptions,
    *,
    on_end: "OnEnd | None" = None,
    schemas: Schemas = MappingProxyType({}),
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a part in batches of bounded size, with the types of `SparkColumns`.

    ``on_end`` gets the report of each scan, ``schemas`` comes from `QueryValues.of_part`. Logs damage that a scan was allowed to skip.
    Raises the errors of a scan.
    """
    bucket = storage.bucket()
    # A task has one core of its executor.
    options = replace(options, threads=options.threads or 1)
    for run in partition.runs:
        report = ScanReport()
        for batch in spark_batches(scan_of_run(run, bucket, schemas, options), report):
            yield from cut_batch(batch)
        _log_left_out(report)
        if on_end is not None:
            on_end(report)
    spare_imports()


def scan_of_run(run: Run, bucket: Bucket, schemas: Schemas, options: ScanOptions) -> "Scan":
    """Return the scan of a run that decodes values with these schemas only, without a request for others."""
    # This imports numba, which planning does not need.
    from ledgerfs.scan.scan import make_scan

    part = replace(run.part(bucket), outcomes=_outcomes_of(bucket, run))
    return make_scan(run.topic, [part], options, lambda: schemas[owner_of(run.managed_ledger)])


def spark_batches(scan: "Scan", report: ScanReport) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a scan with Spark's types; values out of Spark's range are reported as undecodable."""
    made = spark_columns(scan.schema, scan.options)
    unheld = Unheld(scan.topic, scan.options.on_undecodable == "raise")
    for batch in scan.batches(report):
        yield made.of_batch(batch, unheld)
    for place, count in unheld.counts.items():
        reason = f"{place} is outside of Spark's range of times and is null"
        report.undecodable.append(Undecodable(None, reason, count, f"{_begin_of(scan.parts[0])} or later"))


def _begin_of(part: TopicPart) -> str:
    """Return the first entry that a part reads."""
    number, entry = (0, 0) if part.reach is None else part.reach.start
    return f"{part.ledgers[number].ref.ledger_id}:{entry}"


def cut_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into slices of bounded size."""
    parts = max(-(-batch.nbytes // BATCH_BYTES), -(-batch.num_rows // BATCH_ROWS), 1)
    size = max(1, -(-batch.num_rows // parts))
    return (batch.slice(start, size) for start in range(0, batch.num_rows, size))


def _log_left_out(report: ScanReport) -> None:
    """Log the omissions of a scan; Spark stores them with the task's standard error."""
    for one in report.skipped:
        _log.warning(
            "%s: entries %d to %d of ledger %d are left out: %s",
            report.topic, one.first_entry, one.last_entry, one.ledger_id, one.reason,
        )  # fmt: skip
    for part in report.incomplete:
        _log.warning(
            "%s: %d of the %d parts of a chunked message that begins with entry %d of ledger %d are missing",
            report.topic, part.chunks - part.parts, part.chunks, part.entry_id, part.ledger_id,
        )  # fmt: skip
    for value in report.undecodable:
        _log.warning(
            "%s: %d values could not be decoded, the first that of message %s: %s",
            report.topic, value.count, value.first, value.reason,
        )  # fmt: skip


def _outcomes_of(bucket: Bucket, run: Run) -> "Known":
    """Return the transaction outcomes that tasks of this process have found: a search may read the topic to its end."""
    # The URL is not a key: two endpoints may share it.
    key = (bucket.identity or bucket, bucket.layout, run.managed_ledger, run.topic_size, run.last_ledger)
    found = _outcomes.get(key)
    if found is None or len(found) > _TRANSACTIONS_KNOWN:
        found = _outcomes[key] = {}
    return found
