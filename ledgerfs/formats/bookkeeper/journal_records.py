"""The journal of a bookie: what it wrote before it acknowledged it, file by file (``docs/formats/entry-logs.md``).

What is not in an entry log yet when a bookie dies is here alone. A file begins with ``BKLG | int32 version``, big-endian; records follow as
in entry logs, and between them records about ledgers (keys, fences, what is confirmed) and padding, which have no entries.
"""

import struct
from dataclasses import dataclass

from ledgerfs.errors import CorruptLogError
from ledgerfs.formats.array_types import Bytes
from ledgerfs.formats.bookkeeper.record_walk import MOST_ENTRY_BYTES, LogRecords, walk_records

_MAGIC = b"BKLG"
_HEADER = struct.Struct(">4si")
_VERSIONS = range(2, 7)
_PADDED_SINCE = 5
_PADDED_HEADER_BYTES = 512


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


def scan_journal(
    data: Bytes,
    start: int,
    most_bytes: int = MOST_ENTRY_BYTES,
    *,
    is_end: bool = True,
    in_gap: bool = False,
    asked: int = 0,
) -> LogRecords:
    """Find the entries of a file of a journal from a place on: `JournalHeader.first_record`, or where an earlier scan ended.

    In windows, or all at once, as `ledgerfs.formats.bookkeeper.log_records.scan_records` does it. A size of 0 is where the bookie had not
    written yet; what follows such zeros nevertheless is found. Raises nothing: what is wrong is told.
    """
    return walk_records(data, start, most_bytes, is_end, in_gap, asked, is_journal=True)
