"""Topics that were restored: what their notes, their lists and the bucket say of them now."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.recovery.journal import Note, new_ids_path, note_of, parse_new_ids
from ledgerfs_cluster.recovery.planning import readable_ledgers
from ledgerfs_cluster.recovery.report import Outcome, TopicRecovery
from ledgerfs_cluster.zookeeper.nodes import Nodes

GONE = "the topic was deleted, or created again, since it was restored"


def restored_before(
    topic: TopicRecovery, nodes: Nodes, catalog: Catalog, *, looks_for_transactions: bool
) -> TopicRecovery:
    """Return a topic that an earlier run restored, and what is wrong with it: by its list now, its note, and what is planned.

    Raises `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    note, wanted = note_of(nodes, topic.target), len(topic.cursors)
    if note is None:
        return replace(topic, outcome=Outcome.THERE, reason=GONE)
    _, reason = restored_ledgers(nodes, catalog, topic.target, note)
    if reason is None and wanted > note.subscriptions:
        reason = (
            f"it was restored with {note.subscriptions:,} subscriptions, and the dump has {wanted:,}: they are made only with the topic, "
            "others with `pulsar-admin topics create-subscription`"
        )
    if reason is None and looks_for_transactions and not note.hides_aborted:
        reason = "it was restored with --no-transactions: brokers show what was aborted, if there was any"
    return replace(topic, outcome=Outcome.THERE, reason=reason or topic.reason, subscriptions=note.subscriptions)


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


def lost_since(restored: Sequence[TopicRecovery], catalog: Catalog) -> Mapping[str, str]:
    """Return of each topic, by its name in the lost cluster, what the bucket has lost, or got, since the plan was made.

    ``catalog`` is of a listing after all commits: what is deleted, or uploaded, while topics are restored is reported.
    """
    reasons: dict[str, str] = {}
    for one in restored:
        if one.outcome is not Outcome.RESTORED:
            continue
        names, listed = {one.source, one.target}, [ref for _, ref in one.listed]
        lost = not_in_bucket(names, [(ref.ledger_id, ref.uuid) for ref in listed], catalog)
        known = {ref.ledger_id for ref in (*one.ledgers, *listed)} | set(one.left_out)
        late = sorted({ledger_id for name in names for ledger_id in not_restored(catalog, name, known)})
        if lost:
            reasons[one.source] = (
                f"the bucket has lost ledger {lost[0]} while topics were restored ({len(lost):,} ledgers in all)"
            )
        elif late:
            reasons[one.source] = (
                f"ledger {late[0]} came into the bucket while topics were restored, and is not in its list ({len(late):,} in all): "
                "restore the topic once more, under another name (--as, --new-ids)"
            )
    return reasons


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
    # Their objects may have the name of the topic that they were restored from before the cluster was lost.
    return [
        ledger_id
        for ledger_id, uuid in copies
        if (ledger_id, uuid) not in there
        and not any(ref.uuid == uuid and ref.is_sound for ref in catalog.all_of(ledger_id))
    ]


def _original(catalog: Catalog, source: str, ledger_id: int, listed: LedgerInfo) -> LedgerRef | None:
    """Return the ledger that was restored: the copy that the list names, which may be of another topic, else the one to read."""
    copies = [ref for ref in (*catalog.copies_of(source, ledger_id), *catalog.all_of(ledger_id)) if ref.is_sound]
    uuid = None if listed.context is None else listed.context.uuid
    named = [ref for ref in copies if ref.uuid == uuid]
    return next(iter([*named, *(ref for ref in copies if ref.managed_ledger == source)]), None)
