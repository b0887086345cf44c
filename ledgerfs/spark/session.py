"""The Spark session of a command: the one that ``spark-submit`` prepared, or a local one."""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

_SETTINGS = {
    # A task's start takes 10 ms this way, and 60 over TCP (facts/spark-peers.md §1.3).
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "true",
}


def open_session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session.

    Parameters
    ----------
    name
        What Spark's UI calls the application.
    master
        ``local[4]``, ``spark://host:7077``, ``yarn``, …; None for what ``spark-submit`` or ``spark-defaults.conf`` says, else all cores here.
    settings
        Spark's own, which come before ours.

    """
    # Workers that have another Python than the driver lack what is installed here; a cluster says where its own is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**_SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
