"""The data source ``ledgerfs``: messages of offloaded topics as a DataFrame, and a DataFrame as messages of new ledgers.

Spark imports this wherever it looks for sources, whether ours is used or not; so what reads and writes is imported when it is asked for.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from ledgerfs.spark.source.read_options import ReadOptions


class LedgerfsDataSource(DataSource):
    """What ``spark.read.format("ledgerfs")`` and ``df.write.format("ledgerfs")`` mean."""

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
        """Return what reads columns of this schema."""
        from ledgerfs.spark.source.message_reader import MessageReader
        from ledgerfs.spark.source.message_rows import columns_of

        return MessageReader(self._read_options(), columns_of(schema))

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """Return what writes rows of this schema as messages."""
        from ledgerfs.spark.source.data_sink import open_sink

        return open_sink(self.options, schema, overwrite=overwrite, settings=self.settings)

    def _read_options(self) -> "ReadOptions":
        from ledgerfs.spark.source.read_options import read_options

        options = read_options(self.options)
        return replace(options, storage=options.storage.with_settings(self.settings))
