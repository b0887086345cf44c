"""The data source ``ledgerfs``: messages of offloaded topics as a DataFrame, and a DataFrame as messages of new ledgers.

Spark calls it in processes of its own: one makes the schema and the plan, others read parts of it. Filters are not pushed down: Spark then
returns wrong rows from the second query of a DataFrame on (``facts/spark-peers.md`` §1.4). Ranges of time and columns are options.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition
from pyspark.sql.types import StructType

from ledgerfs.spark.message_rows import columns_of, read_partition, spark_schema
from ledgerfs.spark.planning import plan
from ledgerfs.spark.read_options import ReadOptions, read_options
from ledgerfs.vfs.partitions import Partition


class LedgerfsDataSource(DataSource):
    """What ``spark.read.format("ledgerfs")`` and ``df.write.format("ledgerfs")`` mean."""

    settings: dict[str, str] = {}  # noqa: RUF012  (one for each class: `ledgerfs.spark.register` makes another)
    """Hadoop's settings of a session."""

    @classmethod
    def name(cls) -> str:
        """``ledgerfs``."""
        return "ledgerfs"

    def schema(self) -> StructType:
        """Return the columns of the message table that the option ``columns`` asks for."""
        options = self._read_options()
        columns = options.scan.get("columns")
        if columns is None and options.scan.get("transactions") == "all":
            from ledgerfs.messages.table_schema import DEFAULT_COLUMNS

            columns = (*DEFAULT_COLUMNS, "txn_state")
        return spark_schema(columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads columns of this schema."""
        return MessageReader(self._read_options(), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return what writes rows of this schema as messages."""
        from ledgerfs.spark.data_sink import open_sink

        return open_sink(self.options, schema, overwrite=overwrite, settings=self.settings)

    def _read_options(self) -> ReadOptions:
        options = read_options(self.options)
        return replace(options, storage=options.storage.with_settings(self.settings))


class MessageReader(DataSourceReader):
    """Plans a query, and reads its parts; what travels to the tasks is this without any plan."""

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._scan = {name: value for name, value in options.scan.items() if name != "columns"}

    def partitions(self) -> list[InputPartition]:
        """List the bucket, and cut what is wanted of it into parts."""
        return [InputPartition(told) for told in plan(self._options).told()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a part; Spark asks for a part ``None`` where there is none."""
        if partition.value is None:
            return iter(())
        return read_partition(Partition.of(partition.value), self._options.storage, self._columns, self._scan)
