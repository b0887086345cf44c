"""Records of restored topics in the cluster's ZooKeeper, written by the commit that creates a topic: so an interrupted run can resume.

Later checks compare records, ledger lists and the bucket.

A topic is ours if the commit that wrote its record also created its list: both have the same time, by ZooKeeper's one clock for a commit.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import CorruptMetadataError, ObjectNotFoundError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import LedgerInfo, parse_managed_ledger_info
from ledgerfs_cluster.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs_cluster.recovery.planning import readable_ledgers
from ledgerfs_cluster.recovery.report import Outcome, TopicRecovery
from ledgerfs_cluster.snapshot.answered_nodes import answered, paths_below
from ledgerfs_cluster.snapshot.next_ids import RECOVERY
from ledgerfs_cluster.zookeeper.node import Node
from ledgerfs_cluster.zookeeper.nodes import NodeReader, Nodes

NOTES = f"{RECOVERY}/topics"
NEW_IDS = f"{RECOVERY}/new-ids"
GONE = "the topic was deleted, or created again, after it was restored"

Noted = TypeVar("Noted")


@dataclass(frozen=True, slots=True)
class Note:
    """A restored topic.

    Attributes
    ----------
    source, bucket
        The former managed ledger, and the URL of the bucket, without credentials.
    ledgers, subscriptions
        Number of each.
    extra_id
        An id after those of its restored ledgers, and before all that the cluster generates.
    left_out
        Number of the bucket's ledgers with its former name that were not restored.
    has_new_ids
        Whether its ledgers have new ids.
    hides_aborted
        Whether brokers hide aborted messages; False if entries were not searched for transactions.

    """

    source: str
    bucket: str
    ledgers: int
    subscriptions: int
    extra_id: int
    left_out: int
    has_new_ids: bool
    hides_aborted: bool

    def build(self) -> bytes:
        """Return the data of its node."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class NewIds:
    """New ids of a topic's ledgers: from ``first`` on, in the order of their old ids.

    Without ``ledgers`` they keep their ids, and ``first`` is the id of the ledger that ends open transactions.
    """

    first: int
    ledgers: tuple[int, ...]

    @property
    def new(self) -> range:
        """The reserved ids."""
        return range(self.first, self.first + (len(self.ledgers) or 1))

    def build(self) -> bytes:
        """Return the data of its node."""
        return json.dumps(asdict(self)).encode()


def note_path(target: str) -> str:
    """Return the path of a managed ledger's record."""
    return f"{NOTES}/{target}"


def new_ids_path(target: str) -> str:
    """Return the path of the record with the new ids of a managed ledger's ledgers."""
    return f"{NEW_IDS}/{target}"


def parse_note(node: Node) -> Note:
    """Parse the node of a topic's record; raises `CorruptMetadataError`."""
    kinds = Note.__annotations__
    return _parsed(node, lambda reported: Note(**{name: kind(reported[name]) for name, kind in kinds.items()}))


def parse_new_ids(node: Node) -> NewIds:
    """Parse the node of a record of new ids; raises `CorruptMetadataError`."""
    return _parsed(node, lambda reported: NewIds(int(reported["first"]), tuple(map(int, reported["ledgers"]))))


def note_of(nodes: Nodes, target: str) -> Note | None:
    """Return the record of a restored topic, unless it was deleted or created again since; None for others."""
    try:
        made, note = nodes.get(managed_ledger_path(target)), nodes.get(note_path(target))
    except ObjectNotFoundError:
        return None
    return parse_note(note) if is_of_note(made, note) else None


def is_of_note(made: Node, note: Node) -> bool:
    """Return whether the commit that wrote a record also created the topic's list."""
    return made.created_ms == note.changed_ms


def new_ids_of(nodes: NodeReader, target: str) -> NewIds | None:
    """Return the recorded new ids of a topic's ledgers; None without a record."""
    return next((parse_new_ids(node) for _, node in answered(nodes.get_many, [new_ids_path(target)])), None)


def nodes_below(nodes: Nodes, folder: str) -> Iterator[Node]:
    """Yield the records in a folder, whose paths contain topic names; raises the errors of ZooKeeper."""
    level = [folder]
    while level:
        level = list(paths_below(nodes, level))
        for _, node in answered(nodes.get_many, level):
            if node.data:
                yield node


def restored_before(
    topic: TopicRecovery, nodes: Nodes, catalog: Catalog, *, looks_for_transactions: bool
) -> TopicRecovery:
    """Return a topic that an earlier run restored, with a reason if its current list, its record and the plan disagree.

    Raises `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    note, wanted = note_of(nodes, topic.target), len(topic.cursors)
    if note is None:
        return replace(topic, outcome=Outcome.THERE, reason=GONE)
    _, reason = restored_ledgers(nodes, catalog, topic.target, note)
    if reason is None and wanted > note.subscriptions:
        reason = (
            f"it was restored with {note.subscriptions:,} subscriptions, but the dump has {wanted:,}: add the missing ones with "
            "`pulsar-admin topics create-subscription`, since ledgerfs creates subscriptions only together with a topic"
        )
    if reason is None and looks_for_transactions and not note.hides_aborted:
        reason = "it was restored with --no-transactions: brokers also deliver messages of aborted transactions, if it has any"
    return replace(topic, outcome=Outcome.THERE, reason=reason or topic.reason, subscriptions=note.subscriptions)


def restored_ledgers(
    nodes: Nodes, catalog: Catalog, target: str, note: Note
) -> tuple[tuple[LedgerRef, ...], str | None]:
    """Return the bucket's ledgers that a topic was restored from and still lists, and what is wrong with it.

    Raises `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    node = nodes.get(managed_ledger_path(target))
    offloaded = [one for one in parse_managed_ledger_info(node.data, key=node.path).ledgers if one.is_offloaded]
    former = {new: old for old, new in new_ids(nodes, target, note).items()}
    # Ledgers that the cluster itself has offloaded since have later ids.
    listed = {former.get(one.ledger_id, one.ledger_id): one for one in offloaded if one.ledger_id < note.extra_id}
    found = [_original(catalog, note.source, old, one) for old, one in listed.items()]
    named = [(one.ledger_id, one.context.uuid) for one in offloaded if one.context is not None]
    lost = not_in_bucket({note.source, target}, named, catalog)
    late = not_restored(catalog, note.source, listed.keys(), note.extra_id if target == note.source else None)
    reason = None
    if lost:
        reason = f"the bucket lacks ledger {lost[0]} of its ledger list, or has only a part of it ({len(lost):,} such ledgers)"
    elif len(listed) < note.ledgers:
        reason = f"its ledger list has {len(listed):,} of the {note.ledgers:,} restored ledgers: brokers have trimmed the others"
    elif len(late) > note.left_out:
        reason = f"{len(late) - note.left_out:,} ledgers in the bucket are not in its ledger list: they were added after it was restored"
    return tuple(ref for ref in found if ref is not None), reason


def lost_since(restored: Sequence[TopicRecovery], catalog: Catalog) -> Mapping[str, str]:
    """Return {former topic: changes of its ledgers in the bucket since the plan}.

    ``catalog`` is of a listing after all commits, so deletions and uploads during the restore are reported.
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
                f"ledger {lost[0]} was deleted from the bucket during the recovery ({len(lost):,} such ledgers)"
            )
        elif late:
            reasons[one.source] = (
                f"ledger {late[0]} was added to the bucket during the recovery and is not restored ({len(late):,} such ledgers): "
                "restore the topic again, under another name (--as, --new-ids)"
            )
    return reasons


def new_ids(nodes: Nodes, target: str, note: Note) -> dict[int, int]:
    """Return {id in the lost cluster: id in the new one} of a topic with new ids; empty for others."""
    if not note.has_new_ids:
        return {}
    made = parse_new_ids(nodes.get(new_ids_path(target)))
    return dict(zip(made.ledgers, made.new, strict=True))


def not_restored(catalog: Catalog, source: str, restored: Collection[int], before: int | None = None) -> set[int]:
    """Return the ids of a topic's readable ledgers in the bucket that were not restored; ``before`` limits the ids."""
    ids = {ref.ledger_id for ref in readable_ledgers(catalog, source, None)}
    return {one for one in ids if one not in restored and (before is None or one < before)}


def not_in_bucket(names: Collection[str], copies: Sequence[tuple[int, str | None]], catalog: Catalog) -> list[int]:
    """Return the ids of copies, given as (id, uuid), that the bucket does not have intact under any of a topic's names."""
    there = {(ref.ledger_id, ref.uuid) for name in names for ref in catalog.refs_of(name) if ref.is_sound}
    # Objects may have the name of the topic that they were restored from before the cluster was lost.
    return [
        ledger_id
        for ledger_id, uuid in copies
        if (ledger_id, uuid) not in there
        and not any(ref.uuid == uuid and ref.is_sound for ref in catalog.all_of(ledger_id))
    ]


def _original(catalog: Catalog, source: str, ledger_id: int, listed: LedgerInfo) -> LedgerRef | None:
    """Return the restored ledger: the copy in the list, which may be of another topic, else the one to read."""
    copies = [ref for ref in (*catalog.copies_of(source, ledger_id), *catalog.all_of(ledger_id)) if ref.is_sound]
    uuid = None if listed.context is None else listed.context.uuid
    named = [ref for ref in copies if ref.uuid == uuid]
    return next(iter([*named, *(ref for ref in copies if ref.managed_ledger == source)]), None)


def _parsed(node: Node, made: Callable[[Any], Noted]) -> Noted:
    try:
        return made(json.loads(node.data))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise CorruptMetadataError("the node is not a valid record of a recovery", key=node.path) from error
