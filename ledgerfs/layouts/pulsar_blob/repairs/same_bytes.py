"""Check whether a complete copy of the ledger contains a whole data object: compare byte by byte, a few MiB at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ledgerfs.cache.object_window import open_parts
from ledgerfs.cache.read_ahead import cut_parts
from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import CorruptObjectError, LedgerfsError, StoreUnreachableError, UnsupportedFormatError
from ledgerfs.formats.pulsar_blob.block import MIN_HEADER_BYTES
from ledgerfs.formats.records import EntryBatch
from ledgerfs.layouts.pulsar_blob.columns import NUMBER
from ledgerfs.layouts.pulsar_blob.repairs.actions import RebuildIndex, ReplaceIndex
from ledgerfs.layouts.pulsar_blob.repairs.data_walk import DataWalk
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.storage.objects import ObjectStat, ReadRequest


def why_not_contained(survey: Survey, orphan: ObjectStat, copy: LedgerRef) -> str | None:
    """Return why deleting ``orphan`` may lose data; None if ``copy`` contains all of it.

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
        return f"its records differ from those of the complete copy {copy.key} at byte {at} of the records"
    return None


def first_difference(left: Iterator[memoryview], right: Iterator[memoryview]) -> int | None:
    """Return the offset of the first byte of ``left`` that ``right`` lacks or has otherwise; None if ``right`` begins with ``left``."""
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


def one_of_each(survey: Survey, repairs: Iterable[Repair]) -> list[Repair]:
    """Return the repairs with at most one new index per ledger: none if the data objects differ."""
    found = list(repairs)
    makers: dict[tuple[int | None, str | None], list[Repair]] = {}
    for repair in found:
        if _rebuilding(repair) is not None:
            makers.setdefault((repair.ledger_id, repair.topic), []).append(repair)
    settled: dict[int, Repair] = {}
    for conflicts in makers.values():
        if len(conflicts) > 1:
            settled |= {
                id(conflict): one for conflict, one in zip(conflicts, _with_one_index(survey, conflicts), strict=True)
            }
    return _knowing_each_other([settled.get(id(repair), repair) for repair in found])


def _rebuilding(repair: Repair) -> RebuildIndex | None:
    """Return the action with which a repair makes an index; None if it makes none."""
    action = repair.action.rebuilt if isinstance(repair.action, ReplaceIndex) else repair.action
    return action if isinstance(action, RebuildIndex) else None


def _knowing_each_other(repairs: list[Repair]) -> list[Repair]:
    """Return the repairs with each other's new indexes as known claims: one id in several topics is not a conflict."""
    made = frozenset(action.key.index_key for action in map(_rebuilding, repairs) if action is not None)

    def informed(repair: Repair) -> Repair:
        action = _rebuilding(repair)
        if action is None:
            return repair
        action = replace(action, known=action.known | made)
        if isinstance(repair.action, ReplaceIndex):
            return replace(repair, action=replace(repair.action, rebuilt=action))
        return replace(repair, action=action)

    return [informed(repair) for repair in repairs]


def _with_one_index(survey: Survey, conflicts: list[Repair]) -> list[Repair]:
    first, *others = [action.data for action in map(_rebuilding, conflicts) if action is not None]
    if all(_is_same(survey, first, other) for other in others):
        reason = f"the same bytes as {first.key}, whose index is rebuilt now; run the repair again after that"
        return [
            conflicts[0],
            *(replace(conflict, reason=reason, action=None, severity=Severity.REMARK) for conflict in conflicts[1:]),
        ]
    keys = ", ".join(stat.key for stat in (first, *others))
    reason = (
        f"complete, but {keys} differ, and at most one of them is this ledger. Remove the others, then repair with "
        f"`--ledger {conflicts[0].ledger_id}`"
    )
    return [replace(conflict, reason=reason, action=None) for conflict in conflicts]


def _is_same(survey: Survey, one: ObjectStat, other: ObjectStat) -> bool:
    """Whether two objects have the same bytes."""
    pair = (_object(survey, stat, stat.size) for stat in (one, other))
    try:
        return one.size == other.size and first_difference(*pair) is None
    except StoreUnreachableError:
        raise
    except LedgerfsError:
        # Without a comparison nothing is proved, and without a new index nothing is lost.
        return False
