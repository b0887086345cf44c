"""Telling the data source what a session knows of S3.

Spark finds the source by itself, but the process that plans a query has no session: it sees environment variables and files of settings.
What a session was given as ``spark.hadoop.fs.s3a.…`` is put into the source's class instead, which travels pickled and is printed nowhere.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from ledgerfs.spark.runtime.storage import session_settings
from ledgerfs.spark.source.data_source import LedgerfsDataSource


def register(spark: SparkSession, settings: Mapping[str, str] | None = None) -> None:
    """Make ``format("ledgerfs")`` of this session use its settings of S3.

    Parameters
    ----------
    spark
        The session.
    settings
        Further ones, under Hadoop's names (``fs.s3a.endpoint``, ``fs.s3a.access.key``, ``fs.s3a.secret.key``, …).

    """
    told = {**session_settings(spark), **(settings or {})}

    class SessionDataSource(LedgerfsDataSource):
        """The source with what this session knows."""

        settings = told

    spark.dataSource.register(SessionDataSource)
