"""``--stats`` and ``--trace``: print a command's requests to the store on standard error, as sums or one by one."""

import logging
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ledgerfs.cli.output import say
from ledgerfs.display import human_size

if TYPE_CHECKING:
    from ledgerfs.bucket.bucket import Bucket

Command = TypeVar("Command", bound=Callable[..., Any])
"""The function of a command, to which options are added."""

_LOGGER = logging.getLogger("ledgerfs.store")
_STATS_WANTED = "ledgerfs.stats_wanted"


def traffic_options(command: Command) -> Command:
    """Add both options; neither becomes an argument of the command."""
    flag = partial(click.option, is_flag=True, expose_value=False, is_eager=True)
    stats = flag("--stats", callback=_want_stats, help="Print a summary of requests to the store on standard error.")
    trace = flag("--trace", callback=_trace, help="Print each request to the store on standard error.")
    return stats(trace(command))


def say_stats_at_end(context: click.Context, bucket: "Bucket") -> None:
    """Print the sums when the command exits, also after an error, if ``--stats`` was given."""
    if not context.meta.get(_STATS_WANTED):
        return
    began = time.monotonic()

    def say_stats() -> None:
        stats = bucket.stats()
        say(
            f"stats: requests {stats.requests}, bytes asked {_bytes(stats.bytes_asked)}, "
            f"bytes used {_bytes(stats.bytes_used)}, hits {stats.hits}, waits {stats.waits}, "
            f"retries {stats.retries}, seconds {time.monotonic() - began:.2f}"
        )

    context.call_on_close(say_stats)


def _bytes(size: int) -> str:
    return f"{size} ({human_size(size)})"


def _want_stats(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    context.meta[_STATS_WANTED] = is_wanted


class _Trace(logging.Handler):
    """Prints the stores' log, a line for each request."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        say(f"trace: {record.getMessage()}")


def _trace(context: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted:
        return
    handler, level = _Trace(), _LOGGER.level

    def end() -> None:
        _LOGGER.removeHandler(handler)
        _LOGGER.setLevel(level)

    _LOGGER.addHandler(handler)
    _LOGGER.setLevel(logging.DEBUG)
    context.call_on_close(end)
