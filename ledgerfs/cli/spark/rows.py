"""Rows of a DataFrame as commands print them."""

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from ledgerfs.cli.output import print_json
from ledgerfs.ledgers.time_arguments import iso_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collected_rows(frame: "DataFrame") -> list[dict[str, Any]]:
    """Do the work, and return its rows; times know that they are of UTC, which those of Spark's own rows do not."""
    rows: list[dict[str, Any]] = frame.toArrow().to_pylist()
    return rows


def milliseconds(time: datetime | None) -> int | None:
    """Return a time as ms since 1970 UTC."""
    return None if time is None else round(time.timestamp() * 1000)


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print rows as JSON: a list of objects."""
    print_json([{name: _plain(value) for name, value in row.items()} for row in rows])


def _plain(value: Any) -> Any:  # noqa: ANN401  (what a column holds, and whatever JSON knows)
    if isinstance(value, datetime):
        return iso_time(milliseconds(value))
    return value.isoformat() if isinstance(value, date) else value
