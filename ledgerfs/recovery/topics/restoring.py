"""Restoring topics into a cluster, one after the other: what each needs beside its ledgers, then one commit, which makes it, or nothing.

A topic whose ids are taken needs copies of its ledgers; one with transactions a snapshot of those that were aborted, by which brokers hide
their messages. Whatever ends a run leaves whole topics, and ledgers that nobody lists, which the next run takes: it looks at what is there,
and goes on.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.clusters.answered_nodes import answered
from ledgerfs.clusters.bundles import namespace_of
from ledgerfs.errors import (
    ChangedMeanwhileError,
    LedgerfsError,
    LockLostError,
    RefusedLedgerError,
    StoreUnreachableError,
)
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, Position, parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.managed_ledgers.transaction_snapshot import build_transaction_snapshot, snapshot_topic
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.offload.offload_driver import OffloadDriver
from ledgerfs.recovery.copies.new_ids import NewPlace, copy_under_id
from ledgerfs.recovery.copies.open_transactions import OpenAs, end_transactions
from ledgerfs.recovery.copies.transaction_messages import TopicTransactions, transactions_in
from ledgerfs.recovery.planning.topic_plan import TopicPlan
from ledgerfs.recovery.topics.coordinators import coordinators_behind
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
    hidden_transactions
        How many transactions these are of.
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
    hidden_transactions: int = 0
    remarks: list[str] = field(default_factory=list)

    @property
    def is_served(self) -> bool:
        """Whether the new cluster has the topic from this bucket, by this run or an earlier one."""
        return self.outcome in {Outcome.RESTORED, Outcome.THERE}


Publish = Callable[[str, str, bytes], None]
"""Sends one message: to which topic, with which key, and its value."""


@dataclass(frozen=True, slots=True)
class How:
    """How topics are restored.

    Attributes
    ----------
    driver
        By which the new cluster's brokers find the objects.
    publish
        Sends snapshots of aborted transactions; None where no topic with transactions is restored.
    open_as
        How transactions end that the lost cluster left open.
    looks_for_transactions
        Whether all entries are read for transactions; otherwise there are none, on the operator's word.
    shows_aborted
        Whether topics with aborted messages are restored where brokers have no transactions, so that these messages are shown.
    gives_new_ids
        Whether ledgers whose ids are taken are copied under new ones.
    subscriptions
        Those that no dump tells of.

    """

    driver: OffloadDriver
    publish: Publish | None = None
    open_as: OpenAs = "aborted"
    looks_for_transactions: bool = True
    shows_aborted: bool = False
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
    hides_aborted
        Whether the cluster's brokers have transactions, and so hide what was aborted.

    """

    __slots__ = ("_bucket", "_catalog", "_hides_aborted", "_how", "_ids", "_lock", "_nodes", "_url")

    def __init__(
        self,
        lock: ClusterLock,
        nodes: Nodes,
        bucket: Bucket,
        catalog: Catalog,
        *,
        ids: FreeIds | None,
        how: How,
        hides_aborted: bool,
    ) -> None:
        self._lock = lock
        self._nodes = nodes
        self._bucket = bucket
        self._catalog = catalog
        self._url = bucket.store.url
        self._ids = ids
        self._how = how
        self._hides_aborted = hides_aborted

    def restore(self, plans: Sequence[TopicPlan], found: Found) -> Iterator[RestoredTopic]:
        """Yield what became of each topic.

        Raises `LockLostError`, `StoreUnreachableError`, and the errors of ZooKeeper: what was yielded before is whole, and nothing of the
        rest is there.
        """
        for plan in plans:
            yield self._outcome(plan, found)

    def _outcome(self, plan: TopicPlan, found: Found) -> RestoredTopic:
        if (plan.source, plan.target) in found.ours:
            return there_again(plan, self._nodes, self._catalog, self._how)
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

    def _made(self, plan: TopicPlan, *, has_new_ids: bool) -> RestoredTopic:
        readers = [self._bucket.reader(ref) for ref in plan.ledgers]
        how, found = self._how, transactions_in(readers) if self._how.looks_for_transactions else TopicTransactions({})
        refusal = self._refusal(found)
        if refusal is not None:
            return RestoredTopic(plan, Outcome.REFUSED, refusal)
        hides = self._hides_aborted or not found.hidden(how.open_as)
        if hides and found.open and plan.target == plan.source:
            plan = self._ended(plan, found)
        done = RestoredTopic(plan, Outcome.RESTORED)
        done.hidden = sum(one.aborted.size for one in found.ledgers.values())
        done.opened = sum(one.open.size for one in found.ledgers.values())
        done.hidden_ids = found.hidden_messages(how.open_as) if hides else {}
        done.hidden_transactions = len(found.hidden(how.open_as)) if hides else 0
        first_id = self._noted_ids(plan, [ref.ledger_id for ref in plan.ledgers]) if has_new_ids else None
        done.ledgers = tuple(
            [
                (ref.ledger_id, ref if first_id is None else self._copied(plan, ref, first_id + row))
                for row, ref in enumerate(plan.ledgers)
            ]
        )
        assert self._ids is not None  # noqa: S101  (there are some as soon as one topic is due)
        extra_id = self._ids.last
        positions = positions_of(plan, done.ledgers, extra_id)
        subscriptions = subscriptions_of(plan.source, plan.former.cursors, how.subscriptions, positions, readers)
        done.subscriptions = len(subscriptions.nodes)
        done.remarks += subscriptions.remarks
        nodes = subscriptions.nodes
        open_as = None if not (how.looks_for_transactions and hides) else how.open_as if done.opened else ""
        left_out = len(not_restored(self._catalog, plan.source, {ref.ledger_id for ref in plan.ledgers}))
        making = TopicToMake(plan, done.ledgers, extra_id, nodes, how.driver, self._url, left_out, open_as)
        if found.ledgers and self._hides_aborted:
            self._publish(plan, found, done.ledgers[-1][1])
        self._lock.commit(making.operations(self._node(note_path(plan.target))))
        return done

    def _refusal(self, found: TopicTransactions) -> str | None:
        """Return why a topic cannot be served with these transactions; None if it can."""
        hidden = sum(ids.size for ids in found.hidden_messages(self._how.open_as).values())
        if not self._hides_aborted:
            if not hidden or self._how.shows_aborted:
                return None
            return (
                f"brokers would show {hidden:,} entries of transactions that were not committed, since the new cluster has "
                "transactionCoordinatorEnabled=false: enable it, or --show-aborted"
            )
        behind = coordinators_behind(self._lock, found.greatest) if found.greatest else {}
        if not behind:
            return None
        number, given = next(iter(behind.items()))
        return (
            f"the new cluster may give ids of its transactions again, such as ({number},{found.greatest[number]}): coordinator {number} is "
            f"in use, and known to be beyond {given} only. Restore into a cluster to which no client with transactions has connected"
        )

    def _ended(self, plan: TopicPlan, found: TopicTransactions) -> TopicPlan:
        """Return the plan with one ledger more, in which the open transactions end for readers of the bucket."""
        ledger_id = self._noted_ids(plan, ())
        if ledger_id < plan.ledgers[-1].ledger_id:
            # In front of the messages it would end nothing, and readers of the bucket would wait forever.
            reason = f"ledger {ledger_id}, which an earlier run noted for the end of open transactions, is not behind its ledgers"
            raise RefusedLedgerError(f"{reason}: restore it under another name (--as)", key=new_ids_path(plan.target))
        at_ms = max(ref.changed_ms for ref in plan.ledgers)
        ref = end_transactions(self._bucket, plan.target, ledger_id, found.open, self._how.open_as, at_ms)
        return replace(plan, ledgers=(*plan.ledgers, ref))

    def _publish(self, plan: TopicPlan, found: TopicTransactions, last: LedgerRef) -> None:
        """Have brokers know which transactions were aborted, before any of them can load the topic."""
        assert self._how.publish is not None  # noqa: S101  (as it is for each run)
        topic, end = plan.target_topic, Position(last.ledger_id, last.last_entry)
        # No broker forgets any of them before all that is restored is trimmed.
        snapshot = build_transaction_snapshot(topic, end, [(one, end) for one in found.hidden(self._how.open_as)])
        self._how.publish(snapshot_topic(namespace_of(plan.target)), topic, snapshot)

    def _copied(self, plan: TopicPlan, ref: LedgerRef, new_id: int) -> LedgerRef:
        """Return the copy of a ledger that the list is to have, whole in the bucket."""
        return copy_under_id(self._bucket, ref, NewPlace(new_id, plan.target))

    def _noted_ids(self, plan: TopicPlan, ledgers: Sequence[int]) -> int:
        """Return the first of the new ids of some ledgers of a topic, or one id more for none.

        It is noted before anything is written, so that a run after a crash writes the same ledgers.
        """
        path = new_ids_path(plan.target)
        noted = self._node(path)
        if noted is not None:
            found = parse_new_ids(noted)
            if found.ledgers != tuple(ledgers):
                reason = "a run that did not end has copied others of its ledgers; restore it under another name (--as)"
                raise RefusedLedgerError(reason, key=path)
            return found.first
        made = NewIds(self._new_ids(len(ledgers) or 1), tuple(ledgers))
        self._lock.commit([MakeNode(path, made.build())])
        return made.first

    def _new_ids(self, count: int) -> int:
        """Return the first of some ids that nobody has."""
        assert self._ids is not None  # noqa: S101  (there are some as soon as one topic is due)
        return self._ids.take(count)

    def _node(self, path: str) -> Node | None:
        return next((node for _, node in answered(self._lock.newest().get_many, [path])), None)


def there_again(plan: TopicPlan, nodes: Nodes, catalog: Catalog, how: How | None) -> RestoredTopic:
    """Return a topic that an earlier run restored, and what is the matter with it: by its list now, its note, and what is planned.

    Without ``how`` nothing is wanted but what the note has.

    Raises `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    done = RestoredTopic(plan, Outcome.THERE)
    node, note = nodes.get(managed_ledger_path(plan.target)), note_of(nodes, plan.target)
    if note is None:
        done.why = "the topic was deleted and created again meanwhile"
        return done
    done.subscriptions = note.subscriptions
    listed = [one for one in parse_managed_ledger_info(node.data, key=node.path).ledgers if one.is_offloaded]
    done.why = _lost(plan, listed, catalog)
    done.why = done.why or _late_or_trimmed(plan, listed, note)
    done.why = done.why or (None if how is None else _otherwise_made(plan, note, how))
    return done


def not_restored(catalog: Catalog, source: str, restored: Collection[int], before: int | None = None) -> set[int]:
    """Return the ids of a topic's ledgers in the bucket that are not among those restored; with ``before`` only smaller ones."""
    ids = {ref.ledger_id for ref in catalog.refs_of(source)}
    return {one for one in ids if one not in restored and (before is None or one < before)}


def _lost(plan: TopicPlan, listed: Sequence[LedgerInfo], catalog: Catalog) -> str | None:
    """Return which ledgers of a topic's list the bucket does not have."""
    named = [(one.ledger_id, one.context.uuid) for one in listed if one.context is not None]
    lost = _not_in_bucket(plan, named, catalog)
    if not lost:
        return None
    return f"the bucket does not have ledger {lost[0]}, which its list names ({len(lost):,} in all), or not as a whole"


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
    if how.looks_for_transactions and note.open_as is None and not how.shows_aborted:
        return (
            "it was restored with --no-transactions or --show-aborted: brokers show what was aborted, if there was any"
        )
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
        lost = _not_in_bucket(one.plan, named, catalog)
        known = {ref.ledger_id for ref in one.plan.ledgers} | {ref.ledger_id for _, ref in one.ledgers}
        there = {ref.ledger_id for name in {one.plan.source, one.plan.target} for ref in catalog.refs_of(name)}
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
