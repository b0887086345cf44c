"""What shells and notebooks show of our values: a short line, a table of HTML, and names without internals.

Names of topics and columns are the bucket's: they drive no terminal, and are no HTML.
"""

from collections.abc import Collection, Iterable, Iterator
from html import escape
from itertools import islice

MOST_ROWS = 20
"""Of a table in a notebook."""


def printable(text: str) -> str:
    """Return a text of the bucket's with control characters escaped: names must not drive a terminal or forge a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def html_table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as HTML, its first `MOST_ROWS` rows; integers have commas, None is a dash."""
    found = iter(rows)
    shown = [_row(row, "td") for row in islice(found, MOST_ROWS)]
    if next(found, None) is not None:
        shown.append("<tr><td>…</td></tr>")
    lines = "".join([_row(heads, "th"), *shown])
    return f"<table><caption>{_text(caption)}</caption>{lines}</table>"


def _row(cells: Iterable[object], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(value: object) -> str:
    if value is None:
        return "-"
    return escape(printable(f"{value:,}" if isinstance(value, int) else str(value)))


def names_shown(value: object, hidden: Collection[str] = ()) -> Iterator[str]:
    """Yield what `dir` tells of a value: all but what begins with one ``_``, and what is for the other rooms of the package."""
    for name in object.__dir__(value):
        is_own = not name.startswith("_") or name.startswith("__") or name == "_repr_html_"
        if is_own and name not in hidden:
            yield name
