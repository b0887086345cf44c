"""The data source ``ledgerfs``: messages of offloaded topics as a DataFrame, and a DataFrame as messages of new ledgers.

Spark imports this module in every process that searches for sources, even if it uses another; so readers and writers are imported on use.

Filters are not pushed down: Spark would return wrong rows from the second query of a DataFrame on. Use the options for times and columns.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)

from ledgerfs.errors import UnsupportedFormatError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ledgerfs.spark.source.message_rows import WantedColumns
    from ledgerfs.spark.source.query_values import QueryValues
    from ledgerfs.spark.source.read_options import ReadOptions


class LedgerfsDataSource(DataSource):
    """The source of ``spark.read.format("ledgerfs")`` and ``df.write.format("ledgerfs")``."""

    settings: dict[str, str] = {}  # noqa: RUF012  (one for each class: `ledgerfs.spark.register` makes another)
    """Hadoop settings of a session."""

    _values: "QueryValues | None" = None

    @classmethod
    def name(cls) -> str:
        """``ledgerfs``."""
        return "ledgerfs"

    def schema(self) -> "StructType":
        """Return the columns of the message table in the option ``columns``, with values typed by their schemas."""
        from ledgerfs.spark.source.planning import plan_values
        from ledgerfs.spark.source.struct_types import spark_schema

        options = self._read_options()
        # Spark plans the query with a pickled copy of this object, so the rows have the types that are returned here.
        self._values = plan_values(options)
        return spark_schema(self._values.columns(options.scan).schema)

    def reader(self, schema: "StructType") -> DataSourceReader:
        """Return a reader for the columns of this schema."""
        from ledgerfs.spark.source.message_rows import WantedColumns, with_given_type
        from ledgerfs.spark.source.planning import plan_values

        options, values = self._read_options(), self._values
        if values is None:
            # Spark did not call `schema`: the user gave one.
            options = replace(options, scan=with_given_type(options.scan, schema))
            values = plan_values(options)
        columns = WantedColumns.of(schema, options.scan, values)
        return MessageReader(replace(options, scan=values.options_of_tasks(options.scan)), columns, values)

    def streamReader(self, schema: "StructType") -> "_NoStream":  # noqa: ARG002, N802  (Spark's)
        """Return a reader that raises `UnsupportedFormatError`: there is no streaming source yet."""
        return _NoStream()

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows of this schema as messages."""
        from ledgerfs.spark.source.data_sink import open_sink

        return open_sink(self.options, schema, overwrite=overwrite, settings=self.settings)

    def _read_options(self) -> "ReadOptions":
        from ledgerfs.spark.source.read_options import read_options

        options = read_options(self.options)
        return replace(options, storage=options.storage.with_settings(self.settings))


class _NoStream(DataSourceStreamReader):
    """Raises when the stream starts. Without a reader Spark would fail with its own error, which hides this one."""

    def initialOffset(self) -> dict[str, str]:  # noqa: N802  (Spark's)
        raise UnsupportedFormatError(
            "readStream is not supported yet: read with spark.read, and only new messages with the option startTime"
        )

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """Raise `NotImplementedError`. Spark requires the method, but calls it only for started streams."""
        raise NotImplementedError


class MessageReader(DataSourceReader):
    """Plans a query in one process, and reads its parts in others. Its pickle for the tasks has neither plan nor schemas."""

    def __init__(self, options: "ReadOptions", columns: "WantedColumns", values: "QueryValues | None" = None) -> None:
        self._options = options
        self._columns = columns
        self._values = values

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self._options, self._columns))

    def partitions(self) -> list[InputPartition]:
        """List the bucket, and split the selected ledgers into parts, each with the schemas of its topics."""
        from ledgerfs.spark.runtime.tasks import spare_imports
        from ledgerfs.spark.source.planning import plan_parts

        parts = list(plan_parts(self._options, self._values))
        storage = self._options.storage.of_task(self._options.bookie_rate, len(parts))
        spare_imports()
        return [InputPartition((*reported, storage)) for reported in parts]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the messages of a part. Without parts Spark passes ``None``."""
        from ledgerfs.bucket.partitions import Partition
        from ledgerfs.spark.source.message_rows import read_partition

        if partition.value is None:
            return iter(())
        part, schemas, storage = partition.value
        names, options = self._columns.names, replace(self._options.scan, columns=self._columns.read)
        batches = read_partition(Partition.of(part), storage, options, schemas=schemas)
        return batches if names is None else (batch.select(names) for batch in batches)


def register(spark: "SparkSession", settings: Mapping[str, str] | None = None) -> None:
    """Make ``format("ledgerfs")`` of this session use the session's S3 settings.

    Spark finds the source by itself, but the process that plans a query has no session: it reads only environment variables and settings
    files. So this stores the session's ``spark.hadoop.fs.s3a.…`` settings in the source's class, which is pickled but not printed.

    Parameters
    ----------
    spark
        The session.
    settings
        Further settings, under Hadoop's names (``fs.s3a.endpoint``, ``fs.s3a.access.key``, ``fs.s3a.secret.key``, …).

    """
    from ledgerfs.spark.runtime.storage import session_settings

    reported = {**session_settings(spark), **(settings or {})}

    class SessionDataSource(LedgerfsDataSource):
        """The source with this session's settings."""

        settings = reported

    spark.dataSource.register(SessionDataSource)
