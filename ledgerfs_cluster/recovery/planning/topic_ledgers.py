"""The ledgers of one topic: which copies in the bucket, or on disks, are restored, and what is in neither.

What is missing is known by the lost cluster's list, or, without a dump, by what the bucket shows.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.catalog.missing_ledgers import GapKind, MissingLedger
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, ManagedLedgerInfo
from ledgerfs_cluster.recovery.planning.topic_plan import MissingPart, joined
from ledgerfs_cluster.snapshot.answers import LastEnd, LedgerEndAnswer

_NOT_OFFLOADED = "it was not offloaded when the dump was made, and is neither in the bucket nor on the given disks"
_GONE = "it was offloaded, and the bucket does not have it"
_DAMAGED = "its objects in the bucket are damaged; `ledgerfs verify` names them"


def readable_ledgers(catalog: Catalog, name: str, info: ManagedLedgerInfo | None) -> Iterator[LedgerRef]:
    """Yield of each ledger the copy to restore: the one that the list names, else the newest sound one, as the catalog ranks them.

    What the list names may tell another topic: the one from which the ledger was restored, under another name, before.
    """
    uuids = {} if info is None else {one.ledger_id: _uuid_of(one) for one in info.ledgers}
    contradicted = {one.ledger_id for one in catalog.missing_of(name) if one.kind is GapKind.CONTRADICTED}
    by_id: dict[int, list[LedgerRef]] = {}
    for ref in catalog.refs_of(name):
        by_id.setdefault(ref.ledger_id, []).append(ref)
    for ledger_id in uuids.keys() - by_id.keys():
        by_id[ledger_id] = [ref for ref in catalog.all_of(ledger_id) if ref.uuid == uuids[ledger_id]]
    for ledger_id, copies in by_id.items():
        sound = [ref for ref in copies if ref.is_sound]
        named = [ref for ref in sound if ref.uuid == uuids.get(ledger_id)]
        if named:
            yield named[0]
        elif sound and ledger_id not in contradicted:
            yield sound[0]


def of_the_topic(
    name: str, refs: Sequence[LedgerRef], info: ManagedLedgerInfo | None, owners: Mapping[int, str]
) -> tuple[list[LedgerRef], list[int]]:
    """Return the ledgers that are the topic's, and the ids of those that were not any more when the cluster was dumped."""
    last = info.ledgers[-1].ledger_id if info is not None and info.ledgers else -1
    kept: list[LedgerRef] = []
    left_out: list[int] = []
    for ref in refs:
        owner = owners.get(ref.ledger_id)
        if owner == name or (owner is None and (info is None or ref.ledger_id > last)):
            kept.append(ref)
        else:
            left_out.append(ref.ledger_id)
    return kept, left_out


def refused_by_the_store(found: Collection[int], gaps: Sequence[MissingLedger]) -> str | None:
    """Return why a topic cannot be restored of which the store refuses ledgers: these are not lost. ``found`` has the ids of the others."""
    refused = [one for one in gaps if one.refusal is not None and one.ledger_id not in found]
    if not refused:
        return None
    more = f" ({len(refused) - 1:,} more ledgers are refused)" if len(refused) > 1 else ""
    return f"the store refuses {refused[0].name}, {refused[0].key}{more}: {refused[0].why}; restore the topic when it can be read"


def _uuid_of(one: LedgerInfo) -> str | None:
    return one.context.uuid if one.context is not None and one.context.is_complete else None


def missing_by_list(
    info: ManagedLedgerInfo,
    ends: Mapping[int, LedgerEndAnswer],
    restored: Sequence[LedgerRef],
    gaps: Collection[MissingLedger],
    damaged: Collection[int],
) -> tuple[MissingPart, ...]:
    """Return what a list names and is not restored.

    ``gaps`` are those that the bucket shows, and why they cannot be read; ``damaged`` are the ids of those of which no copy is sound.
    """
    there = {ref.ledger_id: ref for ref in restored}
    why = {**dict.fromkeys(damaged, _DAMAGED), **{one.ledger_id: one.why for one in gaps}}
    last = info.ledgers[-1].ledger_id if info.ledgers else -1
    parts = list(_listed_parts(info, ends, there, why))
    # What was not listed yet, or may not have been, and the bucket shows. Older ones were the topic's no more.
    parts += [_shown(one) for one in gaps if one.ledger_id not in there and not 0 <= one.ledger_id <= last]
    return joined(parts)


def missing_in_bucket(restored: Sequence[LedgerRef], gaps: Collection[MissingLedger]) -> tuple[MissingPart, ...]:
    """Return what the bucket shows and is not restored: all that is known without a dump."""
    there = {ref.ledger_id for ref in restored}
    return joined([_shown(one) for one in gaps if one.ledger_id not in there])


def _listed_parts(
    info: ManagedLedgerInfo,
    ends: Mapping[int, LedgerEndAnswer],
    there: Mapping[int, LedgerRef],
    why: Mapping[int, str],
) -> Iterator[MissingPart]:
    before_ms: int | None = None
    last = info.ledgers[-1].ledger_id if info.ledgers else None
    for one in info.ledgers:
        entries, is_exact = _entries_of(one, ends.get(one.ledger_id) if one.ledger_id == last else None)
        ref = there.get(one.ledger_id)
        lacking = None if entries is None else max(0, entries - (0 if ref is None else ref.entries))
        # What is whole in the bucket may have more entries than were told of it while it was open.
        is_whole = ref is not None and (lacking == 0 or (entries is None and not ref.is_open))
        if not is_whole and (lacking != 0 or not is_exact):
            reason = why.get(one.ledger_id) or (_GONE if one.is_offloaded else _NOT_OFFLOADED)
            if ref is not None:
                reason = "the bucket has less of it than the lost cluster had"
            until = one.closed_ms or None
            yield MissingPart(
                one.ledger_id, one.ledger_id, 1, lacking, before_ms, until, reason, is_at_least=not is_exact
            )
        before_ms = one.closed_ms or before_ms


def _entries_of(one: LedgerInfo, end: LedgerEndAnswer | None) -> tuple[int | None, bool]:
    """Return how many entries a ledger had, None if nobody tells, and whether it could not get more after the dump."""
    if one.closed_ms or one.is_offloaded or one.entries:
        return one.entries, True
    if end is None or end.end in {LastEnd.UNKNOWN, LastEnd.GONE}:
        return None, False
    return end.entries, end.end is LastEnd.CLOSED


def _shown(one: MissingLedger) -> MissingPart:
    is_being_written = one.kind is GapKind.BEING_WRITTEN
    return MissingPart(
        one.ledger_id, one.ledger_id, 1, one.entries, one.created_ms, one.modified_ms or None, one.why, is_being_written
    )
