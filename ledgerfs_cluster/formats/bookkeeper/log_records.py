"""The records of an entry log, and of a journal: ``int32 size | entry``, one after the other (``docs/formats/entry-logs.md``).

A bookie writes a journal before it acknowledges; what is not in an entry log yet when it dies is there alone. A file of it begins with
``BKLG | int32 version``, big-endian; between its entries are records about ledgers (keys, fences, what is confirmed) and padding.
"""

import struct
from dataclasses import dataclass

from ledgerfs.formats.array_types import Bytes
from ledgerfs_cluster.errors import CorruptLogError
from ledgerfs_cluster.formats.bookkeeper.record_walk import (
    MOST_ENTRY_BYTES,
    WINDOW_ALIGNMENT,
    LogRecords,
    least_window_bytes,
    walk_records,
)

__all__ = ["MOST_ENTRY_BYTES", "WINDOW_ALIGNMENT", "LogRecords", "least_window_bytes", "scan_records"]

_MAGIC = b"BKLG"
_HEADER = struct.Struct(">4si")
_VERSIONS = range(2, 7)
_PADDED_SINCE = 5
_PADDED_HEADER_BYTES = 512


def scan_records(
    data: Bytes,
    start: int,
    most_bytes: int = MOST_ENTRY_BYTES,
    *,
    is_journal: bool = False,
    is_end: bool = True,
    in_gap: bool = False,
    asked: int = 0,
) -> LogRecords:
    """Find the records of a log, or of a file of a journal, from a place on: the first one's, or where an earlier scan ended.

    ``data`` is all of the log, or with ``is_end=False`` a window of it: it begins at a multiple of `WINDOW_ALIGNMENT` of the log, since
    padding ends at such places, and a record that may reach out of it is left to the next window. That one begins at the last multiple that
    is not behind ``end``, with ``in_gap`` and ``asked`` as this one has ``ends_in_gap`` and ``asked``. Nothing may be found in a window
    of less than `least_window_bytes`: then it has to be larger.

    Special records (maps and fillers, of ledger -1) are passed over. In a journal a size of 0 is where the bookie had not written yet; what
    follows such zeros nevertheless is found. Raises nothing: what is wrong is told.
    """
    return walk_records(data, start, most_bytes, is_end, in_gap, asked, is_journal)


@dataclass(frozen=True, slots=True)
class JournalHeader:
    """What a file of a journal says of itself.

    Attributes
    ----------
    version
        2 to 6.
    first_record
        The offset of its first record.

    """

    version: int
    first_record: int


def parse_journal_header(data: memoryview, *, key: str) -> JournalHeader:
    """Parse the first bytes of a file of a journal, whose name is ``key``.

    Raises `CorruptLogError` for what is none, or has a version that is not known. Version 1 had no header; it was gone before there was
    Pulsar.
    """
    if len(data) < _HEADER.size:
        raise CorruptLogError(f"{len(data)} bytes are shorter than the header of a journal", key=key, offset=0)
    magic, version = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptLogError(f"it begins with {magic!r}, a journal with {_MAGIC!r}", key=key, offset=0)
    if version not in _VERSIONS:
        raise CorruptLogError(f"a journal of version {version} is not known", key=key, offset=4)
    return JournalHeader(version, _PADDED_HEADER_BYTES if version >= _PADDED_SINCE else _HEADER.size)
