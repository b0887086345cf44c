"""Data objects that would become the same ledger: at most one of them may, or the repair would make contradicting copies."""

from collections.abc import Iterable
from dataclasses import replace

from ledgerfs.catalog.findings import Severity
from ledgerfs.catalog.repairs import Repair
from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs.layouts.pulsar_blob.repairs.actions import RebuildIndex, ReplaceIndex
from ledgerfs.layouts.pulsar_blob.repairs.same_bytes import is_same_object
from ledgerfs.layouts.pulsar_blob.repairs.survey import Survey
from ledgerfs.storage.objects import ObjectStat


def one_of_each(survey: Survey, repairs: Iterable[Repair]) -> list[Repair]:
    """Return the repairs with at most one new index for each ledger: none if the data objects differ."""
    found = list(repairs)
    makers: dict[tuple[int | None, str | None], list[Repair]] = {}
    for repair in found:
        if rebuilt_data(repair) is not None:
            makers.setdefault((repair.ledger_id, repair.topic), []).append(repair)
    settled: dict[int, Repair] = {}
    for rivals in makers.values():
        if len(rivals) > 1:
            settled |= {id(rival): one for rival, one in zip(rivals, _with_one_index(survey, rivals), strict=True)}
    return _knowing_each_other([settled.get(id(repair), repair) for repair in found])


def rebuilt_data(repair: Repair) -> ObjectStat | None:
    """Return the data object for which a repair makes an index; None if it makes none."""
    action = _rebuilding(repair)
    return None if action is None else action.data


def _rebuilding(repair: Repair) -> RebuildIndex | None:
    action = repair.action.rebuilt if isinstance(repair.action, ReplaceIndex) else repair.action
    return action if isinstance(action, RebuildIndex) else None


def _knowing_each_other(repairs: list[Repair]) -> list[Repair]:
    """Return the same repairs, which know each other's new indexes: those of one id in several topics are no uploads of others."""
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


def _with_one_index(survey: Survey, rivals: list[Repair]) -> list[Repair]:
    first, *others = [stat for stat in map(rebuilt_data, rivals) if stat is not None]
    if all(_is_same(survey, first, other) for other in others):
        reason = f"the same bytes as {first.key}, whose index is made; `repair` looks at it again when that is there"
        return [
            rivals[0],
            *(replace(rival, reason=reason, action=None, severity=Severity.REMARK) for rival in rivals[1:]),
        ]
    keys = ", ".join(stat.key for stat in (first, *others))
    reason = (
        f"whole, but not the only one: {keys} differ, and at most one of them is this ledger. Remove the others, then name the ledger "
        f"(`--ledger {rivals[0].ledger_id}`)"
    )
    return [replace(rival, reason=reason, action=None) for rival in rivals]


def _is_same(survey: Survey, one: ObjectStat, other: ObjectStat) -> bool:
    try:
        return is_same_object(survey, one, other)
    except StoreUnreachableError:
        raise
    except LedgerfsError:
        # Without a comparison nothing is proved, and without a new index nothing is lost.
        return False
