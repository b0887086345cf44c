"""Derive ranges from a condition: of publish times and ledger ids, outside of which no message matches it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from ledgerfs.messages.decode.table_schema import MESSAGE_SCHEMA

_LEAST, _GREATEST = -(1 << 62), 1 << 62


@dataclass(frozen=True, slots=True)
class Bounds:
    """A range with its start and without its end; None for no limit."""

    start: int | None = None
    end: int | None = None


def bounds_of(where: pc.Expression, schema: pa.Schema, column: str) -> Bounds:
    """Return the range of a column of integers or times (in its unit) that contains all rows for which a condition can be true.

    pyarrow decides whether a condition contradicts ``column < x``, as it prunes the files of a dataset. It may miss a contradiction, but
    never finds a false one, so the range may be too wide and is never too narrow.
    """
    if column not in schema.names:
        return Bounds()
    kind = MESSAGE_SCHEMA.field(column).type
    name = pc.field(column)

    def has_rows_before(bound: int) -> bool:
        # pyarrow treats numbers as continuous: `x > 1` contradicts `x <= 1`, not `x < 2`.
        return _is_possible(where, name <= pa.scalar(bound - 1, kind), schema)

    def has_rows_from(bound: int) -> bool:
        return _is_possible(where, name >= pa.scalar(bound, kind), schema)

    start = None if has_rows_before(_LEAST) else _first(lambda bound: has_rows_before(bound + 1))
    end = None if has_rows_from(_GREATEST) else _first(lambda bound: not has_rows_from(bound))
    return Bounds(start, end)


def _first(is_reached: Callable[[int], bool]) -> int:
    """Return the first of all bounds for which a predicate is true, which has to be true for all greater ones as well."""
    low, high = _LEAST, _GREATEST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_reached(middle) else (middle + 1, high)
    return low


def _is_possible(where: pc.Expression, known: pc.Expression, schema: pa.Schema) -> bool:
    """Whether a condition can be true for rows for which another one is true."""
    files: Any = ds.ParquetFileFormat()
    fragment = files.make_fragment("of no file", LocalFileSystem(), partition_expression=known)
    dataset = ds.FileSystemDataset([fragment], schema, files, LocalFileSystem())
    try:
        return next(iter(dataset.get_fragments(where)), None) is not None
    except pa.ArrowException:
        # The bound does not fit a cast in the condition: then it excludes nothing.
        return True
