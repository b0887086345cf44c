"""Offloaded topics in Apache Spark: a data source, which Spark finds by itself as ``ledgerfs``, and pipelines on it.

::

    spark.read.format("ledgerfs").option("topic", "persistent://public/default/orders").load("s3://tier")

Needs the extra ``spark`` (PySpark 4.1 or newer) and Java 17.
"""
