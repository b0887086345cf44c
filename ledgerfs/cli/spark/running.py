"""A session for as long as a command runs, and what its failures become."""

import logging
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledgerfs.cli.spark.options import WHAT_IS_NEEDED, SessionOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def running(session: SessionOptions, name: str) -> Iterator["SparkSession"]:
    """Open the session, and stop it in the end, however that comes: its jobs with it, after Ctrl-C as well.

    What a task failed with is raised again as the error of ours that it was, so that message and exit code are those of other commands.
    Raises `click.ClickException` where Spark or Java is not installed, or fails on its own.
    """
    _require_java()
    # Spark's handler of Ctrl-C talks to Java in the middle of whatever is being said to it; stopping the session ends its jobs as well.
    on_interrupt = signal.getsignal(signal.SIGINT)
    opened = session.open(name)
    signal.signal(signal.SIGINT, on_interrupt)
    _silence_py4j()
    # Spark's own, which only now are known to be there.
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    from ledgerfs.spark.runtime.task_errors import error_of, line_of

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


def _silence_py4j() -> None:
    """Keep its tracebacks of interruptions off the terminal: it logs some to the root, which from then on prints those of its own, too."""
    logging.getLogger().addFilter(lambda _: False)
    logging.getLogger("py4j").propagate = False


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether an error came after Ctrl-C: Spark's own cleaning up talks to Java again, which may have closed the connection by then."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _require_java() -> None:
    """See to it that Spark's own script will find Java; under spark-submit it has."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    home = os.environ.get("JAVA_HOME")
    found = (Path(home) / "bin" / "java").is_file() if home else shutil.which("java") is not None
    if not found:
        where = f"JAVA_HOME is {home}, where there is none" if home else "there is no command java"
        raise click.ClickException(f"{where}; {WHAT_IS_NEEDED}")
