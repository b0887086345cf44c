"""By this module's name Spark finds the data source ``ledgerfs``, without anybody registering it.

Every Spark application on a machine with ledgerfs imports it, so it imports what is needed only when the source is used.
"""

__all__ = ["DefaultSource"]

from ledgerfs.spark.source.data_source import LedgerfsDataSource as DefaultSource
