"""Whether a complete copy of the ledger has everything that a data object has: compared byte by byte, a few MiB at a time."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.cache.object_window import open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import CorruptObjectError, UnsupportedFormatError
from ledgerfs.formats.pulsar_blob.block import MIN_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs.layouts.pulsar_blob.repairs.data_walk import DataWalk
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.storage.objects import ObjectStat, ReadRequest


def why_not_contained(survey: Survey, orphan: ObjectStat, copy: LedgerRef) -> str | None:
    """Return why something may be lost with ``orphan``; None if ``copy`` has all of it.

    The object has to be the first bytes of the copy's data object, or, with blocks of another size or in another layout, its records the
    copy's first ones.
    """
    if copy.layout != NUMBER:
        return _why_not_among_records(survey, orphan, copy)
    whole = min(orphan.size, copy.object("data").size)
    at = first_difference(_object(survey, orphan, orphan.size), _object(survey, copy.object("data"), whole))
    if at is None:
        return None
    if at >= MIN_HEADER_BYTES:
        return f"it differs from the complete copy {copy.key} at byte {at}"
    return _why_not_among_records(survey, orphan, copy)


def _why_not_among_records(survey: Survey, orphan: ObjectStat, copy: LedgerRef) -> str | None:
    walk = DataWalk(survey.store, orphan)
    reader = survey.open_ledger(copy)
    try:
        records = _records(reader.batches(copy.first_entry, copy.last_entry))
        at = first_difference(_records(walk.batches()), records)
    except (CorruptObjectError, UnsupportedFormatError) as error:
        return f"it cannot be compared with the copy {copy.key}: {error}"
    if at is not None:
        return f"its records differ from those of the complete copy {copy.key} at byte {at} of them"
    return None


def is_same_object(survey: Survey, one: ObjectStat, other: ObjectStat) -> bool:
    """Whether two objects have the same bytes."""
    pair = (_object(survey, stat, stat.size) for stat in (one, other))
    return one.size == other.size and first_difference(*pair) is None


def first_difference(left: Iterator[memoryview], right: Iterator[memoryview]) -> int | None:
    """Return the offset of the first byte of ``left`` that ``right`` does not have there; None if it has them all."""
    position, mine, theirs = 0, memoryview(b""), memoryview(b"")
    while True:
        mine = mine or next(left, memoryview(b""))
        if not mine:
            return None
        theirs = theirs or next(right, memoryview(b""))
        size = min(len(mine), len(theirs))
        differs = np.frombuffer(mine[:size], np.uint8) != np.frombuffer(theirs[:size], np.uint8)
        if not size or differs.any():
            return position + int(differs.argmax() if size else 0)
        position, mine, theirs = position + size, mine[size:], theirs[size:]


def _object(survey: Survey, stat: ObjectStat, end: int) -> Iterator[memoryview]:
    plan = (ReadRequest(stat.key, *part, stat.version, False) for part in cut_parts(0, end, is_known=True))
    with open_parts(survey.store, plan, is_known=True) as parts:
        while parts.peek() is not None:
            yield memoryview(parts.take())


def _records(batches: Iterator[EntryBatch]) -> Iterator[memoryview]:
    """Return the records of batches, headers included."""
    return (batch.records() for batch in batches)
