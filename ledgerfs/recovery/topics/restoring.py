"""Restoring topics into a cluster, one after the other: copies where they are needed, then one commit, which makes a topic or nothing.

Whatever ends a run leaves whole topics, and copies that nobody lists, which the next run takes: it looks at what is there, and goes on.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.clusters.answered_nodes import answered
from ledgerfs.errors import (
    ChangedMeanwhileError,
    LedgerfsError,
    LockLostError,
    RefusedLedgerError,
    StoreUnreachableError,
)
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.pulsar_blob.end_uuids import end_uuid
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.ledgers.partitioned_names import partitions_of
from ledgerfs.offload.offload_driver import OffloadDriver
from ledgerfs.recovery.copies.cluster_ends import end_cluster
from ledgerfs.recovery.copies.new_ids import NewPlace, copy_under_id
from ledgerfs.recovery.copies.settled_copies import OpenAs, Unsettled, unsettled, write_settled
from ledgerfs.recovery.planning.topic_ledgers import ledgers_in
from ledgerfs.recovery.planning.topic_plan import TopicPlan
from ledgerfs.recovery.topics.journal import NewIds, Note, new_ids_path, note_path, parse_new_ids
from ledgerfs.recovery.topics.ledger_ids import FreeIds
from ledgerfs.recovery.topics.new_cluster import Found, note_of
from ledgerfs.recovery.topics.subscriptions import NewSubscription, subscriptions_of
from ledgerfs.recovery.topics.topic_commit import TopicToMake, positions_of
from ledgerfs.storage.zookeeper.changes import ClusterLock, MakeNode
from ledgerfs.storage.zookeeper.node import Node
from ledgerfs.storage.zookeeper.nodes import Nodes


class Outcome(Enum):
    """What became of a topic."""

    RESTORED = "restored"
    THERE = "there before"
    """An earlier run restored it."""
    REFUSED = "not restored"
    FAILED = "failed"


@dataclass(slots=True)
class RestoredTopic:
    """A topic, and what became of it.

    Attributes
    ----------
    why
        Why it is not as it should be, in words; None if it is.
    ledgers
        Of each ledger its id in the lost cluster, and what the list has of it.
    hidden, opened
        How many entries are of aborted transactions, which no reader gets, and of transactions that never ended.
    hidden_ids
        {ledger: ids of the entries that brokers must not send}; None if nobody looked for them.
    end
        Id of the ledger that tells where the lost cluster ends; None if there is none.
    remarks
        What somebody has to know, a sentence each.

    """

    plan: TopicPlan
    outcome: Outcome
    why: str | None = None
    ledgers: tuple[tuple[int, LedgerRef], ...] = ()
    subscriptions: int = 0
    hidden: int = 0
    opened: int = 0
    hidden_ids: Mapping[int, Int64] | None = None
    end: int | None = None
    remarks: list[str] = field(default_factory=list)

    @property
    def is_served(self) -> bool:
        """Whether the new cluster has the topic from this bucket, by this run or an earlier one."""
        return self.outcome in {Outcome.RESTORED, Outcome.THERE}


@dataclass(frozen=True, slots=True)
class How:
    """How topics are restored.

    Attributes
    ----------
    driver
        By which the new cluster's brokers find the objects.
    open_as
        What becomes of messages of transactions that never ended.
    looks_for_transactions
        Whether all entries are read for transactions; otherwise there are none, on the operator's word.
    gives_new_ids
        Whether ledgers whose ids are taken are copied under new ones.
    subscriptions
        Those that no dump tells of.

    """

    driver: OffloadDriver
    open_as: OpenAs = "aborted"
    looks_for_transactions: bool = True
    gives_new_ids: bool = False
    subscriptions: tuple[NewSubscription, ...] = ()


class Restoring:
    """Restores topics; for one thread.

    Parameters
    ----------
    lock
        The cluster's.
    bucket, catalog
        What has the ledgers, and what it had when topics were planned.
    ids
        Ids that nobody has or gets, beyond all others; None if no topic is to be made.

    """

    __slots__ = ("_bucket", "_catalog", "_how", "_ids", "_lock", "_nodes", "_url")

    def __init__(
        self, lock: ClusterLock, nodes: Nodes, bucket: Bucket, catalog: Catalog, *, ids: FreeIds | None, how: How
    ) -> None:
        self._lock = lock
        self._nodes = nodes
        self._bucket = bucket
        self._catalog = catalog
        self._url = bucket.store.url
        self._ids = ids
        self._how = how

    def restore(self, plans: Sequence[TopicPlan], found: Found) -> Iterator[RestoredTopic]:
        """Yield what became of each topic.

        Raises `LockLostError`, `StoreUnreachableError`, and the errors of ZooKeeper: what was yielded before is whole, and nothing of the
        rest is there.
        """
        for plan in plans:
            yield self._outcome(plan, found)

    def _outcome(self, plan: TopicPlan, found: Found) -> RestoredTopic:
        if (plan.source, plan.target) in found.ours:
            return there_again(plan, self._nodes, self._catalog, self._how, self._end_again)
        why = why_not(plan, found, gives_new_ids=self._how.gives_new_ids)
        if why is not None:
            return RestoredTopic(plan, Outcome.REFUSED, why)
        try:
            return self._made(plan, has_new_ids=found.clash(plan) is not None)
        except (LockLostError, StoreUnreachableError):
            raise
        except ChangedMeanwhileError as error:
            return RestoredTopic(plan, Outcome.FAILED, f"somebody made a topic of this name meanwhile: {error}")
        except LedgerfsError as error:
            return RestoredTopic(plan, Outcome.FAILED, str(error))

    def _end_again(self, plan: TopicPlan, end: int) -> str | None:
        """Write once more where the lost cluster ends; return why that cannot be done, None if it was."""
        try:
            self._end(plan, end)
        except (LockLostError, StoreUnreachableError):
            raise
        except LedgerfsError as error:
            return f"where the lost cluster ends cannot be written again: {error}"
        return None

    def _end(self, plan: TopicPlan, end: int) -> None:
        end_cluster(self._bucket, plan.target, end, max((ref.changed_ms for ref in plan.ledgers), default=0))

    def _made(self, plan: TopicPlan, *, has_new_ids: bool) -> RestoredTopic:
        done = RestoredTopic(plan, Outcome.RESTORED)
        readers = [self._bucket.reader(ref) for ref in plan.ledgers]
        found = unsettled(readers, plan.ends) if self._how.looks_for_transactions else None
        if found is not None:
            done.hidden = sum(one.aborted.size for one in found.ledgers.values())
            done.opened = sum(one.open.size for one in found.ledgers.values())
            done.hidden_ids = found.hidden(self._how.open_as)
        first_id = self._first_id(plan) if has_new_ids else None
        done.ledgers = tuple(
            [
                (ref.ledger_id, self._copied(plan, ref, found, None if first_id is None else first_id + row))
                for row, ref in enumerate(plan.ledgers)
            ]
        )
        done.end = self._new_ids(1) if first_id is None and not self._hides_partitions(plan) else None
        if done.end is not None:
            # Also where there are no transactions, or no ledgers: of one that comes late, or back, nobody knows what it has.
            self._end(plan, done.end)
        assert self._ids is not None  # noqa: S101  (there are some as soon as one topic is due)
        extra_id = self._ids.last
        positions = positions_of(plan, done.ledgers, extra_id)
        subscriptions = subscriptions_of(plan.source, plan.former.cursors, self._how.subscriptions, positions, readers)
        done.subscriptions = len(subscriptions.nodes)
        done.remarks += subscriptions.remarks
        how = self._how
        nodes = subscriptions.nodes
        open_as = None if found is None else how.open_as if done.opened else ""
        left_out = len(not_restored(self._catalog, plan.source, {ref.ledger_id for ref in plan.ledgers}))
        making = TopicToMake(plan, done.ledgers, extra_id, nodes, how.driver, self._url, left_out, open_as, done.end)
        self._lock.commit(making.operations(self._node(note_path(plan.target))))
        return done

    def _hides_partitions(self, plan: TopicPlan) -> bool:
        """Whether a ledger of a topic would be the first of a name that means partitions without it."""
        if plan.ledgers:
            return False
        return plan.is_beside_partitions or bool(partitions_of(self._catalog, plan.target))

    def _copied(self, plan: TopicPlan, ref: LedgerRef, found: Unsettled | None, new_id: int | None) -> LedgerRef:
        """Return what the list is to have of a ledger: itself, or a copy that is whole in the bucket."""
        place = None if new_id is None else NewPlace(new_id, plan.target)
        if found is not None and ref.ledger_id in found.ledgers:
            return write_settled(self._bucket, ref, found, self._how.open_as, place)
        return ref if place is None else copy_under_id(self._bucket, ref, place)

    def _first_id(self, plan: TopicPlan) -> int:
        """Return the first of the new ids of a topic, noted before anything is copied: a run after a crash makes the same copies."""
        path = new_ids_path(plan.target)
        noted = self._node(path)
        ledgers = tuple(ref.ledger_id for ref in plan.ledgers)
        if noted is not None:
            found = parse_new_ids(noted)
            if found.ledgers != ledgers:
                reason = "a run that did not end has copied others of its ledgers; restore it under another name (--as)"
                raise RefusedLedgerError(reason, key=path)
            return found.first
        made = NewIds(self._new_ids(len(ledgers)), ledgers)
        self._lock.commit([MakeNode(path, made.build())])
        return made.first

    def _new_ids(self, count: int) -> int:
        """Return the first of some ids that nobody has."""
        assert self._ids is not None  # noqa: S101  (there are some as soon as one topic is due)
        return self._ids.take(count)

    def _node(self, path: str) -> Node | None:
        return next((node for _, node in answered(self._lock.newest().get_many, [path])), None)


def there_again(
    plan: TopicPlan,
    nodes: Nodes,
    catalog: Catalog,
    how: How | None,
    end_again: Callable[[TopicPlan, int], str | None] | None = None,
) -> RestoredTopic:
    """Return a topic that an earlier run restored, and what is the matter with it: by its list now, its note, and what is planned.

    Without ``how`` nothing is wanted but what the note has.
    ``end_again`` writes where its lost cluster ends, if somebody has removed that, and returns why it cannot; without it that is told.

    Raises `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    done = RestoredTopic(plan, Outcome.THERE)
    node, note = nodes.get(managed_ledger_path(plan.target)), note_of(nodes, plan.target)
    if note is None:
        done.why = "somebody made it anew meanwhile"
        return done
    done.subscriptions = note.subscriptions
    listed = [one for one in parse_managed_ledger_info(node.data, key=node.path).ledgers if one.is_offloaded]
    trouble = None
    if note.end is not None and _not_in_bucket(plan, [_named_end(plan, note.end)], catalog):
        trouble = _not_ended(note.end) if end_again is None else end_again(plan, note.end)
        if trouble is None:
            done.remarks.append("the ledger that tells where the lost cluster ends was lost, and is written again")
    done.why = _lost(plan, listed, catalog) or trouble
    done.why = done.why or _late_or_trimmed(plan, listed, note)
    done.why = done.why or (None if how is None else _otherwise_made(plan, note, how))
    return done


def not_restored(catalog: Catalog, source: str, restored: Collection[int], before: int | None = None) -> set[int]:
    """Return the ids of a topic's ledgers in the bucket that are not among those restored; with ``before`` only smaller ones."""
    ids = {ref.ledger_id for ref in ledgers_in(catalog, source)}
    return {one for one in ids if one not in restored and (before is None or one < before)}


def _lost(plan: TopicPlan, listed: Sequence[LedgerInfo], catalog: Catalog) -> str | None:
    """Return which ledgers of a topic's list the bucket does not have."""
    named = [(one.ledger_id, one.context.uuid) for one in listed if one.context is not None]
    lost = _not_in_bucket(plan, named, catalog)
    if not lost:
        return None
    return f"the bucket does not have ledger {lost[0]}, which its list names ({len(lost):,} in all), or not as a whole"


def _named_end(plan: TopicPlan, end: int) -> tuple[int, str]:
    """Return id and uuid of the ledger that ends the lost cluster in a topic."""
    return end, end_uuid(end, plan.target)


def _not_ended(end: int) -> str:
    return (
        f"the bucket does not have ledger {end}, which tells where the lost cluster ends, or not as a whole: readers of the bucket "
        "may take transactions of the two for one. A run writes it again"
    )


def _not_in_bucket(plan: TopicPlan, named: Sequence[tuple[int, str | None]], catalog: Catalog) -> list[int]:
    """Return which of some copies of ledgers, as (id, uuid), the bucket does not have as a whole."""
    names = {plan.source, plan.target}
    there = {(ref.ledger_id, ref.uuid) for name in names for ref in catalog.refs_of(name) if ref.is_sound}
    lacking = [one for one in named if one not in there]
    # They may tell the name of the topic that they were restored from before the cluster was lost.
    return [
        ledger_id
        for ledger_id, uuid in lacking
        if not any(ref.uuid == uuid and ref.is_sound for ref in catalog.all_of(ledger_id))
    ]


def _late_or_trimmed(plan: TopicPlan, listed: Sequence[LedgerInfo], note: Note) -> str | None:
    """Return what the bucket has that a topic's list does not have, or what the list does not have any more."""
    ids = {one.ledger_id for one in listed}
    late = [ref.ledger_id for ref in plan.ledgers if ref.ledger_id not in ids]
    since = "they came after it was restored, or a broker has trimmed them since"
    if note.has_new_ids and len(plan.ledgers) > note.ledgers:
        return f"{len(plan.ledgers) - note.ledgers:,} ledgers in the bucket are not in its list: {since}"
    if late and not note.has_new_ids:
        return f"{len(late):,} ledgers in the bucket are not in its list, such as {late[0]}: {since}"
    left = sum(one.ledger_id < note.extra_id for one in listed)
    if left < note.ledgers:
        return f"its list has {left:,} of the {note.ledgers:,} ledgers that were restored: brokers have trimmed the others since"
    return None


def _otherwise_made(plan: TopicPlan, note: Note, how: How) -> str | None:
    """Return in what a topic was restored otherwise than is wanted now."""
    wanted = {*plan.former.cursors, *(one.name for one in how.subscriptions)}
    if len(wanted) > note.subscriptions:
        return (
            f"it was restored with {note.subscriptions:,} subscriptions, and {len(wanted):,} are wanted: they are made only with the "
            "topic, others with `pulsar-admin topics create-subscription`"
        )
    if how.looks_for_transactions and note.open_as not in {None, "", how.open_as}:
        became = "shown" if note.open_as == "committed" else "hidden"
        return f"messages of transactions that never ended were {became} when it was restored; restore it once more under another name"
    if how.looks_for_transactions and note.open_as is None:
        return "it was restored with --no-transactions: brokers show what was aborted, if there was any"
    return None


def why_not(plan: TopicPlan, found: Found, *, gives_new_ids: bool) -> str | None:
    """Return why a topic is not restored into a cluster; None if it is."""
    if plan.refusal is not None:
        return plan.refusal
    if plan.target in found.taken:
        return found.taken[plan.target]
    clash = found.clash(plan)
    if clash is not None and not gives_new_ids:
        return f"{clash}: --new-ids copies its ledgers under others"
    if clash is not None and plan.target == plan.source:
        return f"{clash}: their copies would be the same messages twice in one topic of the bucket; give it another name (--as)"
    return None


def lost_since(restored: Sequence[RestoredTopic], catalog: Catalog) -> Mapping[str, str]:
    """Return of each topic, by its name in the lost cluster, what the bucket has lost, or got, since the plan was made.

    ``catalog`` is of a listing after all commits: what is deleted, or uploaded, while topics are restored is told, and not missed.
    """
    told: dict[str, str] = {}
    for one in restored:
        if one.outcome is not Outcome.RESTORED:
            continue
        named = [(ref.ledger_id, ref.uuid) for _, ref in one.ledgers]
        if one.end is not None:
            named.append(_named_end(one.plan, one.end))
        lost = _not_in_bucket(one.plan, named, catalog)
        known = {ref.ledger_id for ref in one.plan.ledgers} | {ref.ledger_id for _, ref in one.ledgers}
        there = {ref.ledger_id for name in {one.plan.source, one.plan.target} for ref in ledgers_in(catalog, name)}
        late = sorted(there - known - set(one.plan.left_out))
        if lost:
            told[one.plan.source] = (
                f"the bucket has lost ledger {lost[0]} while topics were restored ({len(lost):,} ledgers in all)"
            )
        elif late:
            told[one.plan.source] = (
                f"ledger {late[0]} came into the bucket while topics were restored, and is not in its list ({len(late):,} in all): "
                "restore the topic once more, under another name (--as, --new-ids)"
            )
    return told
