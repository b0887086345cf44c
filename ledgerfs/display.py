"""Representations of values for shells and notebooks: a short line, an HTML table, and names without internals.

Escapes names of topics and columns for terminals and HTML, since they come from the bucket.
"""

from collections.abc import Collection, Iterable, Iterator
from html import escape
from itertools import islice

MOST_ROWS = 20
"""Largest number of rows of a table in a notebook."""
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def printable(text: str) -> str:
    """Return a text of the bucket with escaped control characters, so that names cannot control a terminal or forge a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def span(milliseconds: int) -> str:
    """Return a time span with its largest unit: ``1.5 h``."""
    for size, unit in _UNITS:
        if milliseconds >= size:
            return f"{milliseconds / size:.1f} {unit}"
    return f"{milliseconds} ms"


def human_size(size: int) -> str:
    """Return a size with a binary unit: ``1.5 MiB``."""
    value = float(size)
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def html_table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return the first `MOST_ROWS` rows of a table as HTML; integers have commas, None is a dash."""
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
    """Yield the names that `dir` shows of a value: all except private ones and those in ``hidden``, which other packages use."""
    for name in object.__dir__(value):
        is_own = not name.startswith("_") or name.startswith("__") or name == "_repr_html_"
        if is_own and name not in hidden:
            yield name
