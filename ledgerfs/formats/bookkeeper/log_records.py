"""The records of an entry log: ``int32 size | entry``, one after the other (``docs/formats/entry-logs.md``)."""

from ledgerfs.formats.array_types import Bytes
from ledgerfs.formats.bookkeeper.record_walk import (
    MOST_ENTRY_BYTES,
    WINDOW_ALIGNMENT,
    LogRecords,
    least_window_bytes,
    walk_records,
)

__all__ = ["MOST_ENTRY_BYTES", "WINDOW_ALIGNMENT", "LogRecords", "least_window_bytes", "scan_records"]


def scan_records(
    data: Bytes,
    start: int,
    most_bytes: int = MOST_ENTRY_BYTES,
    *,
    is_end: bool = True,
    in_gap: bool = False,
    asked: int = 0,
) -> LogRecords:
    """Find the records of a log from a place on: the first one's, or where an earlier scan ended.

    ``data`` is all of the log, or with ``is_end=False`` a window of it: it begins at a multiple of `WINDOW_ALIGNMENT` of the log, since
    padding ends at such places, and a record that may reach out of it is left to the next window. That one begins at the last multiple that
    is not behind ``end``, with ``in_gap`` and ``asked`` as this one has ``ends_in_gap`` and ``asked``. Nothing may be found in a window
    of less than `least_window_bytes`: then it has to be larger.

    Special records (maps and fillers, of ledger -1) are passed over. Raises nothing: what is wrong is told.
    """
    return walk_records(data, start, most_bytes, is_end, in_gap, asked, is_journal=False)
