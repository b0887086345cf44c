"""Runs a kernel of values over rows, as many at a time as an arena has room for."""

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from ledgerfs.errors import CorruptObjectError
from ledgerfs.formats.array_types import Bytes, Int64
from ledgerfs.messages.values.arena import Arena, build, words_of_row
from ledgerfs.messages.values.value_columns import Column, Numbering
from ledgerfs.messages.values.value_program import Reason

FIRST_WORDS = 1 << 22
"""Most words of an arena at first (32 MiB): more rows take several arenas."""
MOST_ARENAS = 4
"""Most full arenas of one call. More come only from few bytes that encode very many values."""
Run: TypeAlias = Callable[[Arena, slice, int], tuple[int, int]]
"""Decodes some rows, from one of them on; returns the row at which a node has no room left, and that node or -1."""


def decode_rows(column: Column, nodes: Numbering, source: Bytes, reasons: Int64, run: Run) -> pa.Array:
    """Return the array of a column, null where a row has a reason; a row that needs a full arena alone gets the reason `TOO_LARGE`.

    Places point into ``source``.
    Raises `CorruptObjectError` for more bytes or items than an array can count, and for too many very large rows.
    """
    parts: list[pa.Array] = []
    first, full = 0, 0
    span = max(1, FIRST_WORDS // max(1, words_of_row(nodes)))
    while first < reasons.size or not parts:
        rows = slice(first, min(first + span, reasons.size))
        arena = Arena.for_rows(nodes, rows.stop - first)
        last = _fill(arena, rows, reasons, run)
        is_sound = reasons[first:last] == 0
        parts.append(build(arena, column, source, last - first, None if is_sound.all() else is_sound))
        full += arena.is_full
        if full > MOST_ARENAS:
            raise CorruptObjectError(f"the columns of {reasons.size:,} values need too much memory for their size")
        first = last
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _fill(arena: Arena, rows: slice, reasons: Int64, run: Run) -> int:
    """Decode rows into an arena, as many as it has room for; return the index of the next row."""
    row = 0
    while rows.start < rows.stop:
        row, node = run(arena, rows, row)
        if node < 0:
            break
        if not arena.is_full:
            arena.grow(node, row)
        elif row > 0:
            return int(rows.start + row)
        else:
            reasons[rows.start] = Reason.TOO_LARGE
    return int(rows.stop)


def unwritable(data: Bytes) -> Bytes:
    """Return the same bytes as a read-only array: a writable one is another type for kernels."""
    view = data.view()
    view.flags.writeable = False
    return view
