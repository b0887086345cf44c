"""Read many ranges of many files at once."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ledgerfs.catalog.file_reader import FileReader
from ledgerfs.errors import LedgerfsError

Bounds = int | list[int | None] | None
"""Starts or ends of ranges: one for each, or one for all; negative offsets count from the end, None is the file's start or end."""

_THREADS = 8


def inside(opened: FileReader, start: int | None, end: int | None) -> tuple[int, int]:
    """Return a range as Python slices define it: negative offsets count from the end."""
    low, high, _step = slice(start, end).indices(opened.size)
    return low, max(low, high)


def read_ranges(
    open_file: Callable[[str], FileReader], paths: list[str], starts: Bounds, ends: Bounds, on_error: str
) -> list[Any]:
    """Return the ranges, in their order; with ``on_error="return"`` an error replaces its range."""
    if not isinstance(paths, list):
        raise TypeError("paths is not a list")
    low = starts if isinstance(starts, list) else [starts] * len(paths)
    high = ends if isinstance(ends, list) else [ends] * len(paths)
    if not len(low) == len(high) == len(paths):
        raise ValueError("paths, starts and ends differ in length")

    rows: dict[str, list[int]] = {}
    for row, path in enumerate(paths):
        rows.setdefault(path, []).append(row)

    def read_file(path: str) -> list[Any]:
        return _of_file(open_file, path, [(low[row], high[row]) for row in rows[path]], on_error)

    found: list[Any] = [b""] * len(paths)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="ledgerfs-ranges") as pool:
        for path, outcomes in zip(rows, pool.map(read_file, rows), strict=True):
            for row, outcome in zip(rows[path], outcomes, strict=True):
                found[row] = outcome
    return found


def _of_file(
    open_file: Callable[[str], FileReader], path: str, ranges: Sequence[tuple[int | None, int | None]], on_error: str
) -> list[Any]:
    """Return the ranges of one file; reads adjacent ranges together. A failed range does not affect the others."""
    try:
        opened = open_file(path)
        return opened.read_ranges([inside(opened, *one) for one in ranges])
    except LedgerfsError as error:
        if on_error != "return":
            raise
        if len(ranges) == 1:
            return [error]
        return [outcome for one in ranges for outcome in _of_file(open_file, path, [one], on_error)]
