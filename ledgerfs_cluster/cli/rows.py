"""Rows that a command prints, as a table or as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ledgerfs.cli.output import print_json, show, table
from ledgerfs.display import printable

Columns = Mapping[str, Callable[[Any], str]]
"""{title of a column: the text of a row}."""
count = "{:,}".format
"""A number as a table has it."""


def cell(name: str, text: Callable[[Any], str] = str) -> Callable[[Mapping[str, Any]], str]:
    """Return what makes the text of a row's value, which is a dash for None."""
    return lambda row: "-" if row[name] is None else printable(text(row[name]))


def print_rows(
    rows: Sequence[Any],
    columns: Columns,
    right: tuple[str, ...],
    *,
    as_json: bool,
    json_of: Callable[[Any], Any] = lambda row: row,
) -> None:
    """Print rows as JSON, or as a table if there are any; ``right`` are the titles of columns with numbers."""
    if as_json:
        print_json([json_of(one) for one in rows])
    elif rows:
        shown = table(*columns, right=right)
        for one in rows:
            shown.add_row(*(text(one) for text in columns.values()))
        show(shown)
