"""The Spark session of a command: the one that ``spark-submit`` prepared, or a local one."""

import os
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

_SETTINGS = {
    # A task's start takes 10 ms this way, and 60 over TCP.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_DAEMON = "spark.python.daemon.module"
_PROGRESS = "spark.ui.showConsoleProgress"
_LOG_LEVEL = "spark.log.level"
# Of a failed task Spark prints a page of Java before the driver, that is we, get to know.
_QUIET = "FATAL"
_QUIET_START = Path(__file__).with_name("quiet-log4j2.properties")


def open_session(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session.

    Parameters
    ----------
    name
        What Spark's UI calls the application.
    master
        ``local[4]``, ``spark://host:7077``, ``yarn``, …; None for what ``spark-submit`` or ``spark-defaults.conf`` says, else all cores.
    settings
        Spark's own, which come before ours; ``spark.log.level`` for those who want to see more than what ends a command.

    """
    given = settings or {}
    # Workers that have another Python than the driver lack what is installed here; a cluster says where its own is.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if _LOG_LEVEL not in given:
        _start_quietly()
    # A bar that is drawn anew all the time is of no use in a file.
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
    """Have workers of this machine end without a traceback each (`ledgerfs.spark.runtime.daemon`), unless another is set.

    Only where it is sure to be found: another Python may have no ledgerfs, and what ``--py-files`` brings, or a cluster fetches, is not
    there yet when a daemon starts. On a cluster such tracebacks are in the executors' logs.
    """
    settings = context.getConf()
    is_here = re.fullmatch(r"local(\[.*\])?", context.master or "") is not None and context.pythonExec == sys.executable
    if is_here and not settings.get("spark.submit.pyFiles") and not settings.contains(_DAEMON):
        # The session had to be there for its master to be known; a daemon starts with the first Python task.
        context._jsc.sc().conf().set(_DAEMON, "ledgerfs.spark.runtime.daemon")  # noqa: SLF001


def _start_quietly() -> None:
    """Have a Java machine that is yet to start log nothing about its host name and its libraries, unless somebody has said what it logs."""
    options = os.environ.get("SPARK_SUBMIT_OPTS", "")
    if "log4j2" not in options and "SPARK_CONF_DIR" not in os.environ and _QUIET_START.is_file():
        os.environ["SPARK_SUBMIT_OPTS"] = f"{options} -Dlog4j2.configurationFile={_QUIET_START.as_uri()}".strip()
    # No pandas is used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
