"""Running a command with Spark: a session that is stopped at the end, failures as errors of ours, rows printed as JSON.

A command's module can also be run as a script, by ``python -m`` or ``spark-submit``, with the same exit codes.
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

    An error of ours that ended a task is raised again, so that message and exit code are those of other commands. Raises
    `click.ClickException` if Spark or Java is not installed, or fails on its own.
    """
    _require_java()
    # Spark's handler of Ctrl-C calls Java in the middle of other calls; stopping the session ends its jobs as well.
    on_interrupt = signal.getsignal(signal.SIGINT)
    opened = session.open(name)
    signal.signal(signal.SIGINT, on_interrupt)
    _silence_py4j()
    # Spark's own; only now it is sure that Spark is installed.
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
        # Java ends with this process in any case, and after an interruption may not answer any more.
        with suppress(Py4JError):
            opened.stop()


def collected_rows(frame: "DataFrame") -> list[dict[str, Any]]:
    """Run the query, and return its rows; times have the zone UTC, unlike those of Spark's own rows."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def milliseconds(time: datetime | None) -> int | None:
    """Return a time as ms since 1970 UTC."""
    return None if time is None else round(time.timestamp() * 1000)


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print rows as JSON: a list of objects."""
    print_json([{name: _plain(value) for name, value in row.items()} for row in rows])


def _silence_py4j() -> None:
    """Keep py4j's tracebacks of interruptions off the terminal: it logs some to the root logger, which then prints py4j's own, too."""
    logging.getLogger().addFilter(lambda _: False)
    logging.getLogger("py4j").propagate = False


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an error came after Ctrl-C: Spark's own cleaning up calls Java again, which may have closed the connection."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _require_java() -> None:
    """Raise `click.ClickException` if Spark's own script would not find Java; spark-submit has found it."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").is_file() if home else shutil.which("java") is not None
    if not found:
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is no command java"
        raise click.ClickException(f"{where}; {WHAT_IS_NEEDED}")


def _plain(value: Any) -> Any:  # noqa: ANN401  (what a column holds, and whatever JSON knows)
    if isinstance(value, datetime):
        return iso_time(milliseconds(value))
    return value.isoformat() if isinstance(value, date) else value
