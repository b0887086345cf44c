"""Check whether the data of a ledger is complete: the last key has to be the last entry of the metadata.

A MapFile has no mark of completion. The index is only a hint where a short walk to the end begins: only the data can prove that entries are
missing.
"""

from enum import Enum

from ledgerfs.cache.object_window import ObjectWindow, open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.errors import CorruptLedgerError, UnsupportedFormatError
from ledgerfs.formats.mapfile.blocks import find_sync
from ledgerfs.formats.mapfile.header import RecordCompression, SequenceHeader
from ledgerfs.formats.mapfile.last_key import keys_to_end
from ledgerfs.formats.mapfile.window import Window
from ledgerfs.storage.object_store import ObjectStore
from ledgerfs.storage.objects import ObjectStat, ReadRequest

_MARKERS_TRIED = 8


class End(Enum):
    """Result of the check for the end of a ledger's data."""

    SEEN = "seen"
    """The last entry is the last record."""
    MISSING = "missing"
    UNKNOWN = "unknown"
    """It is too far from where a walk can begin; a later read of the ledger finds out."""


def leads_to_end(window: Window, position: int, key: int, header: SequenceHeader, last_entry: int) -> bool:
    """Return whether a walk from a position of the index, for a key, comes to the last entry; the window ends with the data."""
    try:
        first, last = keys_to_end(window, position - window.offset, header)
    except CorruptLedgerError:
        return False
    is_there = first <= key if header.compression is RecordCompression.BLOCK else first == key
    return is_there and key <= last == last_entry


def end_of(window: Window, header: SequenceHeader, last_entry: int) -> End:
    """Return whether the last bytes of the data contain its end, from the first position at which a walk can begin."""
    starts = _starts(window, header)
    for start in starts:
        try:
            _, last = keys_to_end(window, start, header)
        except CorruptLedgerError:
            continue
        return End.SEEN if last == last_entry else End.MISSING
    return End.MISSING if starts else End.UNKNOWN


def walked_end(store: ObjectStore, data: ObjectStat, header: SequenceHeader, last_entry: int) -> End:
    """Return whether the data has its end, by a walk through all of it, some MiB at a time; raises the errors of reading."""
    # This imports numba, which a right index makes unnecessary.
    from ledgerfs.layouts.mapfile.key_walk import START, walk_keys

    plan = (ReadRequest(data.key, *part, data.version, False) for part in cut_parts(0, data.size, is_known=True))
    behind = START
    with open_parts(store, plan, is_known=True) as parts:
        try:
            for stretch in walk_keys(ObjectWindow(parts, data.key, 0), START, header, last_entry, data):
                behind = stretch.behind
        except CorruptLedgerError:
            return End.MISSING
        except UnsupportedFormatError:
            return End.UNKNOWN
    return End.SEEN if (behind.key, behind.position) == (last_entry + 1, data.size) else End.MISSING


def _starts(window: Window, header: SequenceHeader) -> list[int]:
    """Return indexes in the window where a walk may begin: the first record, or else after the first markers."""
    if window.offset <= header.size:
        return [header.size - window.offset]
    starts: list[int] = []
    at = find_sync(window.buffer, header.sync, 0)
    while at is not None and len(starts) < _MARKERS_TRIED:
        starts.append(at)
        at = find_sync(window.buffer, header.sync, at + 1)
    return starts
