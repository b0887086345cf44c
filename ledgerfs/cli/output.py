"""Output of commands: results on standard output, everything else (progress, notices, errors) on standard error."""

import io
import json
import logging
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ledgerfs.catalog.time_arguments import iso_time
from ledgerfs.display import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from ledgerfs.catalog.layout import Progress as OnProgress

# rich is imported only where it draws, so `ledgerfs cat` into a pipe starts without it.
# A pipe has no width; a table that is cut off would lose data.
_PIPE_WIDTH = 10_000


def show(table: "Table") -> None:
    """Print a table on standard output."""
    from rich.console import Console

    # Draw into memory: rich handles a closed pipe itself and would exit with its own code.
    drawn = io.StringIO()
    width = terminal_width()
    console = Console(
        file=drawn,
        width=width or _PIPE_WIDTH,
        force_terminal=width is not None,
        highlight=False,
        emoji=False,
        markup=False,
    )
    console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines()))


def terminal_width() -> int | None:
    """Return the width of the terminal on standard output in columns; None if it is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def say(message: str) -> None:
    """Print one line on standard error."""
    if sys.stderr is not None:
        print(printable(message), file=sys.stderr)


class Saying(logging.Handler):
    """Prints log records if logging is not configured, with `printable` applied: keys and names come from the bucket."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        try:
            say(record.getMessage())
        except (OSError, ValueError):
            self.handleError(record)


def print_json(value: Any) -> None:  # noqa: ANN401  (any JSON value)
    """Print a value as JSON."""
    for line in json.dumps(value, indent=2, ensure_ascii=False).split("\n"):
        # JSON escapes only the first 32 characters; other control characters occur only in texts.
        is_plain = line.isprintable()
        sys.stdout.write((line if is_plain else "".join(map(_json_escaped, line))) + "\n")


def _json_escaped(character: str) -> str:
    return character if character.isprintable() else json.dumps(character)[1:-1]


def table(*columns: str, right: tuple[str, ...] = ()) -> "Table":
    """Return an empty table; number columns in ``right`` are right-aligned."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return made


def minute(milliseconds: int | None) -> str:
    """Return a time (ms since 1970) to the minute, UTC; a dash if it is None."""
    text = iso_time(milliseconds)
    return "-" if text is None else text[:16].replace("T", " ")


@contextmanager
def progress(*, in_bytes: bool = False) -> "Iterator[OnProgress]":
    """Show progress on standard error if that is a terminal and the work takes more than a moment."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn(binary_units=True) if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as shown:
        tasks: dict[str, Any] = {}

        def update(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = shown.add_task(printable(what), total=total)
            shown.update(tasks[what], completed=done, total=total)

        yield update
