"""Offloaded topics in Apache Spark: a data source, which Spark finds by itself as ``ledgerfs``, and pipelines on it.

::

    spark.read.format("ledgerfs").option("topic", "persistent://public/default/orders").load("s3://tier")

Sessions that have their own settings of S3 (``spark.hadoop.fs.s3a.…``) tell them by `register`. Needs the
extra ``spark`` (PySpark 4.1 or newer) and Java 17.
"""

from typing import TYPE_CHECKING

__all__ = ["read_messages", "register"]

if TYPE_CHECKING:
    from ledgerfs.spark.source.messages import read_messages
    from ledgerfs.spark.source.registration import register


def __getattr__(name: str) -> object:
    """Load what is asked for on first use: Spark imports this package in every process, for whatever source."""
    if name == "register":
        from ledgerfs.spark.source.registration import register

        return register
    if name == "read_messages":
        from ledgerfs.spark.source.messages import read_messages

        return read_messages
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
