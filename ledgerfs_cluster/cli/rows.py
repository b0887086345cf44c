"""Print rows as a table or as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ledgerfs.cli.output import print_json, show, table
from ledgerfs.display import printable

Columns = Mapping[str, Callable[[Any], str]]
"""{title of a column: function that returns a row's text}."""
count = "{:,}".format
"""Format a number for a table."""


def cell(name: str, text: Callable[[Any], str] = str) -> Callable[[Mapping[str, Any]], str]:
    """Return a function that formats a row's value; None becomes a dash."""
    return lambda row: "-" if row[name] is None else printable(text(row[name]))


def print_rows(
    rows: Sequence[Any],
    columns: Columns,
    right: tuple[str, ...],
    *,
    as_json: bool,
    json_of: Callable[[Any], Any] = lambda row: row,
) -> None:
    """Print rows as JSON, or as a table unless empty; ``right`` are the titles of right-aligned columns (numbers)."""
    if as_json:
        print_json([json_of(one) for one in rows])
    elif rows:
        shown = table(*columns, right=right)
        for one in rows:
            shown.add_row(*(text(one) for text in columns.values()))
        show(shown)
