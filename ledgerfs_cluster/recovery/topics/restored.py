"""Topics that were restored: what their notes, their lists and the bucket say of them now."""

from collections.abc import Collection, Sequence
from itertools import chain

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.recovery.planning.topic_ledgers import readable_ledgers
from ledgerfs_cluster.recovery.topics.journal import Note, new_ids_path, parse_new_ids
from ledgerfs_cluster.zookeeper.nodes import Nodes

GONE = "the topic was deleted, or created again, since it was restored"


def restored_ledgers(
    nodes: Nodes, catalog: Catalog, target: str, note: Note
) -> tuple[tuple[LedgerRef, ...], str | None]:
    """Return the ledgers of the bucket that a topic was restored from, as far as its list has them, and what is wrong with it.

    Raises `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    node = nodes.get(managed_ledger_path(target))
    offloaded = [one for one in parse_managed_ledger_info(node.data, key=node.path).ledgers if one.is_offloaded]
    former = {new: old for old, new in new_ids(nodes, target, note).items()}
    # What the cluster itself has offloaded since has later ids.
    listed = {former.get(one.ledger_id, one.ledger_id): one for one in offloaded if one.ledger_id < note.extra_id}
    found = [_original(catalog, note.source, old, one) for old, one in listed.items()]
    named = [(one.ledger_id, one.context.uuid) for one in offloaded if one.context is not None]
    lost = not_in_bucket({note.source, target}, named, catalog)
    late = not_restored(catalog, note.source, listed.keys(), note.extra_id if target == note.source else None)
    reason = None
    if lost:
        reason = (
            f"the bucket does not have ledger {lost[0]}, which its list names ({len(lost):,} in all), or not as a whole"
        )
    elif len(listed) < note.ledgers:
        reason = f"its list has {len(listed):,} of the {note.ledgers:,} ledgers that were restored: brokers have trimmed the others since"
    elif len(late) > note.left_out:
        reason = (
            f"{len(late) - note.left_out:,} ledgers in the bucket are not in its list: they came after it was restored"
        )
    return tuple(ref for ref in found if ref is not None), reason


def new_ids(nodes: Nodes, target: str, note: Note) -> dict[int, int]:
    """Return {id in the lost cluster: id in the new one} of a topic whose ledgers have others; empty if they have not."""
    if not note.has_new_ids:
        return {}
    made = parse_new_ids(nodes.get(new_ids_path(target)))
    return dict(zip(made.ledgers, made.new, strict=True))


def not_restored(catalog: Catalog, source: str, restored: Collection[int], before: int | None = None) -> set[int]:
    """Return the ids of a topic's ledgers that the bucket has, and could be restored, and were not; with ``before`` only smaller ones."""
    ids = {ref.ledger_id for ref in readable_ledgers(catalog, source, None)}
    return {one for one in ids if one not in restored and (before is None or one < before)}


def not_in_bucket(names: Collection[str], copies: Sequence[tuple[int, str | None]], catalog: Catalog) -> list[int]:
    """Return which of some copies of ledgers, as (id, uuid), the bucket does not have as a whole, under some names of their topic."""
    there = {(ref.ledger_id, ref.uuid) for name in names for ref in catalog.refs_of(name) if ref.is_sound}
    lacking = [one for one in copies if one not in there]
    # Their objects may have the name of the topic that they were restored from before the cluster was lost.
    return [
        ledger_id
        for ledger_id, uuid in lacking
        if not any(ref.uuid == uuid and ref.is_sound for ref in catalog.all_of(ledger_id))
    ]


def _original(catalog: Catalog, source: str, ledger_id: int, listed: LedgerInfo) -> LedgerRef | None:
    """Return the ledger that was restored: the copy that the list names, which may be of another topic, else the one to read."""
    copies = [ref for ref in (*catalog.copies_of(source, ledger_id), *catalog.all_of(ledger_id)) if ref.is_sound]
    uuid = None if listed.context is None else listed.context.uuid
    named = (ref for ref in copies if ref.uuid == uuid)
    return next(chain(named, (ref for ref in copies if ref.managed_ledger == source)), None)
