"""The write side of the data source: each partition becomes one ledger; at the end all ledgers appear, or none.

Each attempt of a task writes its own data object, which is not yet a ledger. When all tasks are done, Spark calls the driver's commit,
which puts the indexes (`ledger_group`) and removes the objects of failed attempts; if a task failed for good, Spark calls abort, which
removes everything. Limits:

* An object store cannot make two objects appear at once. During the commit (a few requests for every four ledgers) readers may see only
  some of the ledgers; a driver that is killed in that time leaves these. A DataFrame of one partition (``coalesce(1)``) is one ledger,
  which appears whole or not at all.
* A driver that is killed before it commits leaves data objects without an index. They are not ledgers, and ``ledgerfs verify`` lists
  them. ``ledgerfs repair`` completes a commit that had begun; otherwise it changes them only if their ledger is named. It identifies them
  by their user metadata, which a folder does not store.
* A task that the driver cannot reach may complete a data object after the driver has removed the others; it stays without an index, too.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.partitioned_names import require_own_name
from ledgerfs.errors import InvalidRowsError, LedgerfsError, RefusedLedgerError, UnsupportedWriteError
from ledgerfs.layouts.pulsar_blob.ledger_group import LedgerGroup, remove_all
from ledgerfs.layouts.pulsar_blob.new_ledger import NewLedger, made_up_user_metadata, require_block_size
from ledgerfs.layouts.pulsar_blob.writer import UnindexedLedger
from ledgerfs.messages.encode.input_columns import InputColumns
from ledgerfs.messages.encode.values.typed_rows import TypedRows
from ledgerfs.spark.source.struct_types import arrow_schema
from ledgerfs.spark.source.write_options import WriteOptions, write_options
from ledgerfs.writing.admission import publish_together
from ledgerfs.writing.claims import Claim, IfExists, TakenIds
from ledgerfs.writing.ledger_rows import MessageRows, write_rows
from ledgerfs.writing.own_ids import new_own_id
from ledgerfs.writing.schemas_of_rows import SchemaOfRows
from ledgerfs.writing.write import Wanted

_log = logging.getLogger("ledgerfs.spark")

_TASK_OUTLIVES_ITS_END = 5.0
"""Seconds that the worker of a killed task may go on: Spark checks every two seconds, and waits two more."""


@dataclass(frozen=True, slots=True)
class WrittenPartition(WriterCommitMessage):
    """A task's message to the driver.

    Attributes
    ----------
    ledger
        The data object that the task wrote; None without rows.
    attempt
        Number of earlier failures of the task.

    """

    ledger: UnindexedLedger | None
    attempt: int = 0


def open_sink(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool, settings: Mapping[str, str] | None = None
) -> "LedgerSink":
    """Return the writer of a DataFrame's rows; called in the planning process, before any task runs.

    ``settings`` are the session's Hadoop settings.

    Raises
    ------
    UnsupportedWriteError
        ``mode("overwrite")``.
    InvalidNameError, InvalidOptionError, InvalidRowsError
        An invalid topic, option or column, or the name of a partitioned topic.
    InvalidSchemaError, SchemaConflictError
        A schema that cannot encode values, or a version number that another schema has.
    RefusedLedgerError, LedgerExistsError, NotFoundError, AccessDeniedError, StoreError
        The store does not support the block size, the first ledger exists, or the bucket does not exist or cannot be listed.

    """
    if overwrite:
        raise UnsupportedWriteError(
            'ledgers are never overwritten: write with mode("append"), and delete old ledgers with `ledgerfs rm`',
            key="overwrite",
        )
    wanted = write_options(options)
    wanted = replace(wanted, storage=wanted.storage.with_settings(settings or {}))
    columns = arrow_schema(schema)
    if wanted.schema is None:
        InputColumns(columns)
    bucket = wanted.storage.bucket()
    require_block_size(wanted.block_size, bucket.raw_store.writes.smallest_part)
    catalog = bucket.list_to_write()
    numbered = replace(wanted, ledger_id=_first_id(catalog, wanted))
    return LedgerSink(numbered, LedgerGroup.new(), _schema_of_rows(bucket, wanted, columns))


def _schema_of_rows(bucket: Bucket, wanted: WriteOptions, columns: pa.Schema) -> SchemaOfRows | None:
    """Return the schema of all tasks; raises as `SchemaOfRows.of`, and `InvalidRowsError` for columns that do not fit it."""
    if wanted.schema is None:
        return None
    found = SchemaOfRows.of(bucket, wanted.managed_ledger, wanted.schema, wanted.schema_version)
    InputColumns(TypedRows.of(columns, found.schema, found.version).schema)
    return found


class LedgerSink(DataSourceArrowWriter):
    """The writer of one job, created in the planning process, and pickled for each task and for the driver's commit or abort."""

    def __init__(self, wanted: WriteOptions, group: LedgerGroup, schema: SchemaOfRows | None = None) -> None:
        self._wanted = wanted
        self._group = group
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPartition:
        """Write the rows of a partition as a data object; its ledger id is the first id plus the partition's number.

        Raises as `write_rows`, and `InvalidRowsError` with the row's number in the partition, from 0; then no object exists.
        """
        batches = (rows for rows in iterator if rows.num_rows)
        first = next(batches, None)
        partition, attempt = _task()
        if first is None:
            return WrittenPartition(None, attempt)
        ledger = self._ledger_of(partition)
        rows = self._messages(first.schema, chain([first], batches))
        store = self._wanted.storage.bucket().raw_store
        try:
            return WrittenPartition(write_rows(store, ledger, rows, self._wanted.encoding), attempt)
        except InvalidRowsError as error:
            place = f"{error.key} of partition {partition}, for {ledger.key.data_key}"
            raise InvalidRowsError(error.reason, key=place) from error

    def _messages(self, columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> MessageRows:
        if self._schema is None:
            return MessageRows(columns, batches)
        typed = TypedRows.of(columns, self._schema.schema, self._schema.version)
        return MessageRows(typed.schema, typed.all_messages(batches))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish all partitions as ledgers, or none, and remove the objects of failed attempts. Raises as `publish_together`.

        Saves the schema first, if there is one; raises as `SchemaOfRows.save`.
        """
        reported = [_reported_by(message) for message in messages]
        written = [one.ledger for one in reported if one.ledger is not None]
        bucket = self._wanted.storage.bucket()
        if written:
            if self._schema is not None:
                times = (one.ledger.metadata.created_ms for one in written)
                self._schema.save(bucket, min((one for one in times if one is not None), default=None))
            publish_together(bucket, self._wanted.managed_ledger, IfExists.FAIL, written)
        has_failed = any(one.attempt for one in reported)
        try:
            self._sweep(frozenset(one.data.key for one in written), twice=has_failed)
        except LedgerfsError as error:
            _log.warning("data objects %s… may be left without an index: %s", self._group.key_prefix, error)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove everything. Spark passes no list of objects, so find them by name. Raises the store's errors."""
        self._sweep(frozenset(), twice=None in messages)

    def _sweep(self, kept: frozenset[str], *, twice: bool) -> None:
        """Remove all other objects of the group; twice if a task failed, whose worker may be about to complete its data object."""
        store = self._wanted.storage.bucket().raw_store
        remove_all(store, self._group, kept)
        if twice:
            time.sleep(_TASK_OUTLIVES_ITS_END)
            remove_all(store, self._group, kept)

    def _ledger_of(self, partition: int) -> NewLedger:
        wanted = self._wanted
        ledger_id = (wanted.ledger_id or 0) + partition
        uuid = self._group.new_uuid()
        marked = {**made_up_user_metadata(wanted.managed_ledger), **self._group.mark}
        return Wanted(wanted.managed_ledger, ledger_id, uuid, wanted.block_size, user_metadata=marked).new_ledger()


def _first_id(catalog: Catalog, wanted: WriteOptions) -> int:
    """Return the id of the first ledger, from a new catalog: this process may have listed the bucket for another job.

    `publish_together` checks the other ids when all rows are written; until then their number is unknown.
    """
    require_own_name(catalog, wanted.managed_ledger)
    if wanted.ledger_id is None:
        return new_own_id([catalog], [wanted.managed_ledger])
    refusal = TakenIds(catalog).refusal(Claim(wanted.managed_ledger, wanted.ledger_id))
    if refusal is not None:
        raise refusal
    return wanted.ledger_id


def _task() -> tuple[int, int]:
    """Return the number of the partition, and of earlier failures of the task."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows are written by tasks of Spark only")
    return int(context.partitionId()), int(context.attemptNumber())


def _reported_by(message: WriterCommitMessage | None) -> WrittenPartition:
    """Return a task's message; raises if a finished task sent none, since its rows would be lost."""
    if not isinstance(message, WrittenPartition):
        raise RefusedLedgerError("a task did not report its result, so nothing is written")
    return message
