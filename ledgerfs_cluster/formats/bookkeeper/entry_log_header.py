"""The headers of entry logs and journals, and the ledgers map of a finished log (``docs/formats/entry-logs.md``).

A log begins with 1024 bytes, ``BKLO | int32 version | int64 offset of the map | int32 ledgers``, big-endian. The map, after the last entry,
contains the bytes of each ledger in the log. Offset and count are 0 until the log is finished, and stay so in a crash: then the records
have to be scanned.

A bookie writes to a journal before it acknowledges; when it dies, entries that are not in an entry log yet are only there. A journal file
begins with ``BKLG | int32 version``, big-endian; between its entries are records about ledgers (keys, fences, LACs) and padding.
"""

import struct
from dataclasses import dataclass

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.errors import CorruptLogError

LOG_HEADER_BYTES = 1024
"""Position of the first record; logs of the direct writer first have an empty record up to byte 4096."""
_MAGIC = b"BKLO"
_HEADER = struct.Struct(">4siqi")
_PART = struct.Struct(">iqqi")
_PART_BYTES, _LEDGER_BYTES = 24, 16
_NO_ENTRY, _MAP = -1, -2
_MOST_IN_A_PART = 10_000
_VERSIONS = (0, 1)
_JOURNAL_MAGIC = b"BKLG"
_JOURNAL_HEADER = struct.Struct(">4si")
_JOURNAL_VERSIONS = range(2, 7)
_PADDED_SINCE = 5
_PADDED_HEADER_BYTES = 512


@dataclass(frozen=True, slots=True)
class EntryLogHeader:
    """The header of a log.

    Attributes
    ----------
    version
        0 or 1; logs of version 0 have no map.
    map_at
        The offset of the map; 0 if the log is not finished.
    ledgers
        Number of ledgers in the map.

    """

    version: int
    map_at: int
    ledgers: int

    @property
    def has_map(self) -> bool:
        """Whether the log is finished, and has a map."""
        return self.map_at > 0


@dataclass(frozen=True, slots=True)
class LedgersMap:
    """Bytes of each ledger in a log, by ascending id; arrays of shape (ledgers,).

    Attributes
    ----------
    sizes
        Bytes of all its entries, each with the 4 bytes of its size.

    """

    ledger_ids: Int64
    sizes: Int64


def parse_log_header(data: memoryview, *, key: str) -> EntryLogHeader:
    """Parse the first bytes of a log named ``key``.

    Raises `CorruptLogError` for bytes that are not an entry log's, or of an unknown version.
    """
    if len(data) < LOG_HEADER_BYTES:
        raise CorruptLogError(
            f"the file has only {len(data)} bytes, less than the header of an entry log", key=key, offset=0
        )
    magic, version, map_at, ledgers = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptLogError(f"not an entry log: it begins with {magic!r} instead of {_MAGIC!r}", key=key, offset=0)
    if version not in _VERSIONS:
        raise CorruptLogError(f"the entry log has an unknown version {version}", key=key, offset=4)
    if not (map_at == ledgers == 0 or (map_at >= LOG_HEADER_BYTES and ledgers >= 0)):
        raise CorruptLogError(
            f"the header has an invalid ledgers map: {ledgers} ledgers at byte {map_at}", key=key, offset=8
        )
    return EntryLogHeader(version, map_at, ledgers)


def parse_ledgers_map(data: memoryview, header: EntryLogHeader, *, key: str) -> LedgersMap:
    """Parse the map of a log: ``data`` are the bytes of the log from ``header.map_at`` on.

    Raises `CorruptLogError` if it ends early, or has another number of ledgers than the header: then scan the log.
    """
    parts: list[Int64] = []
    at = found = 0
    while found < header.ledgers:
        if at + _PART_BYTES > len(data):
            raise _broken(header, at, f"the ledgers map ends after {found} of {header.ledgers} ledgers", key)
        size, ledger_id, entry_id, count = _PART.unpack_from(data, at)
        is_map = (ledger_id, entry_id) == (_NO_ENTRY, _MAP) and 0 < count <= _MOST_IN_A_PART
        if not is_map or size != _PART_BYTES - 4 + count * _LEDGER_BYTES:
            raise _broken(header, at, "the ledgers map has an invalid part", key)
        end = at + 4 + size
        if end > len(data) or found + count > header.ledgers:
            raise _broken(header, at, f"a part of the ledgers map has {count} ledgers, more than the log has", key)
        parts.append(np.frombuffer(data[at + _PART_BYTES : end], ">i8").astype(np.int64).reshape(count, 2))
        at, found = end, found + count
    table = np.concatenate(parts) if parts else np.zeros((0, 2), np.int64)
    if (table < 0).any():
        raise _broken(header, 0, "the ledgers map has negative numbers", key)
    table = table[np.argsort(table[:, 0], kind="stable")]
    if (table[1:, 0] == table[:-1, 0]).any():
        raise _broken(header, 0, "the ledgers map contains a ledger twice", key)
    return LedgersMap(table[:, 0].copy(), table[:, 1].copy())


def _broken(header: EntryLogHeader, at: int, reason: str, key: str) -> CorruptLogError:
    return CorruptLogError(reason, key=key, offset=header.map_at + at)


def parse_journal_header(data: memoryview, *, key: str) -> int:
    """Return the position of the first record of a journal, from the first bytes of a file of it, named ``key``.

    Raises `CorruptLogError` for bytes that are not a journal's, or of an unknown version. Version 1 had no header; it is older than
    Pulsar.
    """
    if len(data) < _JOURNAL_HEADER.size:
        raise CorruptLogError(
            f"the file has only {len(data)} bytes, less than the header of a journal", key=key, offset=0
        )
    magic, version = _JOURNAL_HEADER.unpack_from(data)
    if magic != _JOURNAL_MAGIC:
        raise CorruptLogError(
            f"not a journal: it begins with {magic!r} instead of {_JOURNAL_MAGIC!r}", key=key, offset=0
        )
    if version not in _JOURNAL_VERSIONS:
        raise CorruptLogError(f"the journal has an unknown version {version}", key=key, offset=4)
    return _PADDED_HEADER_BYTES if version >= _PADDED_SINCE else _JOURNAL_HEADER.size
