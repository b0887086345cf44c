"""Run a command with Spark: stop the session at the end, raise failures as ledgerfs errors, print rows as JSON.

``python -m`` and ``spark-submit`` can also run a command's module as a script, with the same exit codes.
"""

import logging
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import ledgerfs.cli
from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.cli.output import print_json
from ledgerfs.cli.spark.options import WHAT_IS_NEEDED, SessionOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_script(command: str) -> None:
    """Run ``ledgerfs spark <command>`` with the arguments of this process, and exit with its code."""
    sys.argv[1:1] = ["spark", command]
    ledgerfs.cli.main()


@contextmanager
def running(session: SessionOptions, name: str) -> Iterator["SparkSession"]:
    """Open the session, and stop it and its jobs at the end, also after errors and Ctrl-C.

    Raises a task's ledgerfs error again, so message and exit code are the same as without Spark. Raises `click.ClickException`
    if Spark or Java is not installed or fails.
    """
    _require_java()
    # Spark's Ctrl-C handler calls Java in the middle of other calls; stopping the session stops its jobs as well.
    on_interrupt = signal.getsignal(signal.SIGINT)
    opened = session.open(name)
    signal.signal(signal.SIGINT, on_interrupt)
    _silence_py4j()
    # Imported only after the check that Spark is installed.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from ledgerfs.spark.runtime.tasks import error_of, line_of

    try:
        yield opened
    except (PySparkException, Py4JError) as failure:
        if _was_interrupted(failure):
            raise KeyboardInterrupt from failure
        error = error_of(failure)
        if error is None:
            raise click.ClickException(f"Spark: {line_of(failure)}") from failure
        raise error from failure
    finally:
        # Java exits with this process in any case; after an interruption it may not answer.
        with suppress(Py4JError):
            opened.stop()


def collected_rows(frame: "DataFrame") -> list[dict[str, Any]]:
    """Run the query, and return its rows; times are in UTC, unlike those of Spark's own rows."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def milliseconds(time: datetime | None) -> int | None:
    """Return a time as ms since 1970 UTC."""
    return None if time is None else round(time.timestamp() * 1000)


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print rows as JSON: a list of objects."""
    print_json([{name: _plain(value) for name, value in row.items()} for row in rows])


def _silence_py4j() -> None:
    """Hide py4j's tracebacks after Ctrl-C. It logs some to the root logger, which then also prints the log of py4j itself."""
    logging.getLogger().addFilter(lambda _: False)
    logging.getLogger("py4j").propagate = False


def _was_interrupted(error: BaseException | None) -> bool:
    """Return whether the error followed Ctrl-C: Spark's cleanup calls Java again, which may have closed the connection."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _require_java() -> None:
    """Raise `click.ClickException` if Spark's start script would not find Java; under spark-submit it has."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").is_file() if home else shutil.which("java") is not None
    if not found:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "the command java was not found"
        raise click.ClickException(f"{where}; {WHAT_IS_NEEDED}")


def _plain(value: Any) -> Any:  # noqa: ANN401  (a column value, or a JSON value)
    if isinstance(value, datetime):
        return iso_time(milliseconds(value))
    return value.isoformat() if isinstance(value, date) else value
