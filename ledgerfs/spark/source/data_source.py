"""The data source ``ledgerfs``: messages of offloaded topics as a DataFrame, and a DataFrame as messages of new ledgers.

Spark imports this in every process that looks for sources, even if ours is not used; so readers and writers are imported on use.

Filters are not pushed down: Spark then returns wrong rows from the second query of a DataFrame on. Ranges of time and columns are options.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from ledgerfs.spark.source.read_options import ReadOptions


class LedgerfsDataSource(DataSource):
    """The source of ``spark.read.format("ledgerfs")`` and ``df.write.format("ledgerfs")``."""

    settings: dict[str, str] = {}  # noqa: RUF012  (one for each class: `ledgerfs.spark.register` makes another)
    """Hadoop's settings of a session."""

    @classmethod
    def name(cls) -> str:
        """``ledgerfs``."""
        return "ledgerfs"

    def schema(self) -> "StructType":
        """Return the columns of the message table that the option ``columns`` asks for."""
        from ledgerfs.messages.decode.table_schema import DEFAULT_COLUMNS
        from ledgerfs.spark.source.message_rows import spark_schema

        scan = self._read_options().scan
        columns = scan.get("columns")
        if columns is None and scan.get("transactions") == "all":
            columns = (*DEFAULT_COLUMNS, "txn_state")
        return spark_schema(columns)

    def reader(self, schema: "StructType") -> DataSourceReader:
        """Return a reader of the columns of this schema."""
        from ledgerfs.spark.source.message_rows import columns_of

        return MessageReader(self._read_options(), columns_of(schema))

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """Return a writer of rows of this schema as messages."""
        from ledgerfs.spark.source.data_sink import open_sink

        return open_sink(self.options, schema, overwrite=overwrite, settings=self.settings)

    def _read_options(self) -> "ReadOptions":
        from ledgerfs.spark.source.read_options import read_options

        options = read_options(self.options)
        return replace(options, storage=options.storage.with_settings(self.settings))


class MessageReader(DataSourceReader):
    """Plans a query in one process, and reads its parts in others; what is pickled for the tasks has no plan."""

    def __init__(self, options: "ReadOptions", columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._scan = {name: value for name, value in options.scan.items() if name != "columns"}

    def partitions(self) -> list[InputPartition]:
        """List the bucket, and cut the wanted ledgers into parts."""
        from ledgerfs.spark.runtime.tasks import spare_imports
        from ledgerfs.spark.source.planning import plan

        parts = [InputPartition(told) for told in plan(self._options).told()]
        spare_imports()
        return parts

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Yield the messages of a part; where there are no parts Spark asks for the part ``None``."""
        from ledgerfs.bucket.partitions import Partition
        from ledgerfs.spark.source.message_rows import read_partition

        if partition.value is None:
            return iter(())
        return read_partition(Partition.of(partition.value), self._options.storage, self._columns, self._scan)


def register(spark: "SparkSession", settings: Mapping[str, str] | None = None) -> None:
    """Make ``format("ledgerfs")`` of this session use its settings of S3.

    Spark finds the source by itself, but the process that plans a query has no session: it sees environment variables and files of
    settings. What a session was given as ``spark.hadoop.fs.s3a.…`` is put into the source's class instead, which is pickled and printed
    nowhere.

    Parameters
    ----------
    spark
        The session.
    settings
        Further ones, under Hadoop's names (``fs.s3a.endpoint``, ``fs.s3a.access.key``, ``fs.s3a.secret.key``, …).

    """
    from ledgerfs.spark.runtime.storage import session_settings

    told = {**session_settings(spark), **(settings or {})}

    class SessionDataSource(LedgerfsDataSource):
        """The source with this session's settings."""

        settings = told

    spark.dataSource.register(SessionDataSource)
