"""Convert columns of the message table to Python values, for few rows that people read."""

from typing import Any

import pyarrow as pa

from ledgerfs.catalog.time_arguments import time_of


def python_values(column: pa.Array) -> list[Any]:
    """Return a column's values; a time outside Python's calendar (Arrow's is larger) is None."""
    if not pa.types.is_timestamp(column.type):
        values: list[Any] = column.to_pylist()
        return values
    microseconds = column.cast(pa.int64()).to_pylist()
    return [time_of(None if one is None else one // 1000) for one in microseconds]


def python_rows(table: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return a table's rows, each as {column: value}."""
    columns = [python_values(column) for column in table.columns]
    return [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
