"""Which copies of which ledgers of the bucket, or of disks, are a topic's, and are to be restored."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, ManagedLedgerInfo
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.missing_ledgers import GapKind, MissingLedger


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
    name: str,
    refs: Sequence[LedgerRef],
    info: ManagedLedgerInfo | None,
    owners: Mapping[int, str],
    *,
    with_deleted: bool,
) -> tuple[list[LedgerRef], list[int]]:
    """Return the ledgers that are the topic's, and the ids of those that were not any more when the cluster was dumped."""
    last = info.ledgers[-1].ledger_id if info is not None and info.ledgers else -1
    is_any = info is None or with_deleted
    kept: list[LedgerRef] = []
    left_out: list[int] = []
    for ref in refs:
        owner = owners.get(ref.ledger_id)
        if owner == name or (owner is None and (is_any or ref.ledger_id > last)):
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
