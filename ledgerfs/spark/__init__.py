"""Offloaded topics in Apache Spark: the data source ``ledgerfs``, which Spark finds by itself, and pipelines on it.

::

    spark.read.format("ledgerfs").option("topic", "persistent://public/default/orders").load("s3://tier")

If a session has its own settings of S3 (``spark.hadoop.fs.s3a.…``), `register` makes the source use them. Needs the extra ``spark``
(PySpark 4.1 or newer) and Java 17.
"""

from typing import TYPE_CHECKING

from ledgerfs.exports import lazy_exports

__all__ = ["Storage", "catalog", "export", "read_messages", "register", "stats", "verify"]

if TYPE_CHECKING:
    from ledgerfs.spark.pipelines.catalog import catalog
    from ledgerfs.spark.pipelines.export import export
    from ledgerfs.spark.pipelines.stats import stats
    from ledgerfs.spark.pipelines.verify import verify
    from ledgerfs.spark.runtime.storage import Storage
    from ledgerfs.spark.source.data_source import register
    from ledgerfs.spark.source.messages import read_messages

# Spark imports this package in every process, for every data source.
__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Storage": "ledgerfs.spark.runtime.storage",
        "catalog": "ledgerfs.spark.pipelines.catalog",
        "export": "ledgerfs.spark.pipelines.export",
        "read_messages": "ledgerfs.spark.source.messages",
        "register": "ledgerfs.spark.source.data_source",
        "stats": "ledgerfs.spark.pipelines.stats",
        "verify": "ledgerfs.spark.pipelines.verify",
    },
)
