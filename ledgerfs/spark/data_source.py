"""The data source ``ledgerfs`` of Spark."""

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter
from pyspark.sql.types import StructType


class LedgerfsDataSource(DataSource):
    """Messages of offloaded topics as a DataFrame, and a DataFrame as messages of new ledgers."""

    @classmethod
    def name(cls) -> str:
        """``ledgerfs``."""
        return "ledgerfs"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001  (as Spark calls it)
        """Return what writes rows of this schema as messages."""
        from ledgerfs.spark.data_sink import open_sink

        return open_sink(self.options, schema, overwrite=overwrite)

    def reader(self, schema: StructType) -> DataSourceReader:
        raise NotImplementedError
