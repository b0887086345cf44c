"""The read side of the data source, as Spark calls it: one process plans, others read parts.

Filters are not pushed down: Spark then returns wrong rows from the second query of a DataFrame on. Ranges
of time and columns are options.
"""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ledgerfs.bucket.partitions import Partition
from ledgerfs.spark.runtime.worker import spare_imports
from ledgerfs.spark.source.message_rows import read_partition
from ledgerfs.spark.source.planning import plan
from ledgerfs.spark.source.read_options import ReadOptions


class MessageReader(DataSourceReader):
    """Plans a query, and reads its parts; what travels to the tasks is this without any plan."""

    def __init__(self, options: ReadOptions, columns: list[str]) -> None:
        self._options = options
        self._columns = columns
        self._scan = {name: value for name, value in options.scan.items() if name != "columns"}

    def partitions(self) -> list[InputPartition]:
        """List the bucket, and cut what is wanted of it into parts."""
        parts = [InputPartition(told) for told in plan(self._options).told()]
        spare_imports()
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a part; Spark asks for a part ``None`` where there is none."""
        if partition.value is None:
            return iter(())
        return read_partition(Partition.of(partition.value), self._options.storage, self._columns, self._scan)
