"""The Spark session of a command: the session from ``spark-submit``, or a local one."""

import os
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

_SETTINGS = {
    # A task starts in 10 ms this way, in 60 ms over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # pyarrow and pandas read Spark's default, INT96, as 64-bit nanoseconds, which are wrong from 2262 on.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_DAEMON = "spark.python.daemon.module"
_PROGRESS = "spark.ui.showConsoleProgress"
_LOG_LEVEL = "spark.log.level"
# Spark prints a Java stack trace for a failed task before the driver gets the error.
_QUIET = "FATAL"
_QUIET_START = Path(__file__).with_name("quiet-log4j2.properties")


def open_session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session.

    Parameters
    ----------
    name
        Application name in Spark's UI.
    master
        ``local[4]``, ``spark://host:7077``, ``yarn``, …; None for that of ``spark-submit`` or ``spark-defaults.conf``, else all cores.
    settings
        Spark settings, which take precedence over the defaults; set ``spark.log.level`` to see more than a command's final error.

    """
    given = settings or {}
    # Workers with another Python than the driver lack the packages installed here; a cluster sets its own.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _LOG_LEVEL not in given:
        _start_quietly()
    # A progress bar that is redrawn all the time is useless in a file.
    has_terminal = sys.stderr is not None and sys.stderr.isatty()
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**_SETTINGS, _PROGRESS: str(has_terminal).lower(), **given}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(given.get(_LOG_LEVEL, _QUIET))
    _quieten_daemon(session.sparkContext)
    return session


def _quieten_daemon(context: SparkContext) -> None:
    """Make local workers exit without tracebacks (`ledgerfs.spark.runtime.daemon`), unless another daemon is set.

    Only if the daemon's module is certain to be importable: another Python may lack ledgerfs, and files of ``--py-files``, or files that a
    cluster fetches, do not exist yet when a daemon starts. On a cluster such tracebacks are in the executors' logs.
    """
    settings = context.getConf()
    is_here = re.fullmatch(r"local(\[.*\])?", context.master or "") is not None and context.pythonExec == sys.executable
    if is_here and not settings.get("spark.submit.pyFiles") and not settings.contains(_DAEMON):
        # The master is known only after the session has started; a daemon starts with the first Python task.
        context._jsc.sc().conf().set(_DAEMON, "ledgerfs.spark.runtime.daemon")  # noqa: SLF001


def _start_quietly() -> None:
    """Keep the JVM from logging its host name and libraries at its start, unless its logging is configured."""
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "log4j2" not in options and "SPARK_CONF_DIR" not in os.environ and _QUIET_START.is_file():
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={_QUIET_START.as_uri()}".strip()
    # ledgerfs does not use pandas here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
