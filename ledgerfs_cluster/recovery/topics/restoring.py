"""Restoring topics into a cluster, one after the other: what each needs beside its ledgers, then one commit, which makes it, or nothing.

A topic whose ids are taken needs copies of its ledgers; one with transactions a snapshot of those that were aborted, by which brokers hide
their messages. Whatever ends a run leaves whole topics, and ledgers that no list names, which the next run takes: it reads what is there,
and goes on.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import LedgerfsError, RefusedLedgerError, StoreUnreachableError
from ledgerfs.formats.decompression import Compression
from ledgerfs.messages.decode.entry_fields import Transaction
from ledgerfs_cluster.errors import ChangedMeanwhileError, ListFullError, LockLostError
from ledgerfs_cluster.formats.managed_ledgers.list_changes import EditedList
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    Position,
    build_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.formats.managed_ledgers.transaction_snapshot import build_transaction_snapshot, snapshot_topic
from ledgerfs_cluster.offload.list_bytes import fits, stored
from ledgerfs_cluster.offload.offload_driver import OffloadDriver
from ledgerfs_cluster.recovery.copies.new_ledgers import copy_under_id, end_transactions
from ledgerfs_cluster.recovery.copies.transaction_messages import TopicTransactions, transactions_in
from ledgerfs_cluster.recovery.planning.topic_plan import TopicPlan
from ledgerfs_cluster.recovery.report import Outcome, TopicLine
from ledgerfs_cluster.recovery.topics.coordinators import coordinators_behind
from ledgerfs_cluster.recovery.topics.journal import NewIds, Note, new_ids_path, note_path, parse_new_ids
from ledgerfs_cluster.recovery.topics.ledger_ids import FreeIds
from ledgerfs_cluster.recovery.topics.new_cluster import Found, note_of
from ledgerfs_cluster.recovery.topics.restored import GONE, not_in_bucket, not_restored, restored_ledgers
from ledgerfs_cluster.recovery.topics.subscriptions import Positions, subscriptions_of
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode, Operation, SetNode
from ledgerfs_cluster.zookeeper.node import Node
from ledgerfs_cluster.zookeeper.nodes import Nodes

_PLAIN_BYTES = 200_000
"""Larger values are compressed: brokers read both, whatever they write."""

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
    looks_for_transactions
        Whether all entries are read for transactions; otherwise brokers show aborted messages, if there are any.
    gives_new_ids
        Whether ledgers whose ids are taken are copied under new ones.

    """

    driver: OffloadDriver
    publish: Publish | None = None
    looks_for_transactions: bool = True
    gives_new_ids: bool = False


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

    __slots__ = ("_bucket", "_catalog", "_hides_aborted", "_how", "_ids", "_lock", "_nodes")

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
        self._ids = ids
        self._how = how
        self._hides_aborted = hides_aborted

    def restore(self, plans: Sequence[TopicPlan], found: Found) -> Iterator[TopicLine]:
        """Yield what became of each topic.

        Raises `LockLostError`, `StoreUnreachableError`, and the errors of ZooKeeper: what was yielded before is whole, and nothing of the
        rest is there.
        """
        for plan in plans:
            yield self._line(plan, found)

    def _line(self, plan: TopicPlan, found: Found) -> TopicLine:
        if (plan.source, plan.target) in found.ours:
            return line_of_restored(plan, self._nodes, self._catalog, self._how)
        reason = reason_not_to_restore(plan, found, gives_new_ids=self._how.gives_new_ids)
        if reason is not None:
            return TopicLine(plan, Outcome.REFUSED, reason)
        try:
            return self._made(plan, has_new_ids=found.clash(plan) is not None)
        except (LockLostError, StoreUnreachableError):
            raise
        except ChangedMeanwhileError as error:
            return TopicLine(plan, Outcome.FAILED, f"another client made a topic of this name meanwhile: {error}")
        except LedgerfsError as error:
            return TopicLine(plan, Outcome.FAILED, str(error))

    def _made(self, plan: TopicPlan, *, has_new_ids: bool) -> TopicLine:
        readers = [self._bucket.reader(ref) for ref in plan.ledgers]
        looks = self._how.looks_for_transactions
        found = transactions_in(readers) if looks else TopicTransactions()
        aborted, refusal = found.hidden(), self._refusal(found)
        if refusal is not None:
            return TopicLine(plan, Outcome.REFUSED, refusal)
        if found.open and plan.target == plan.source:
            plan = self._ended(plan, found)
        line = TopicLine(plan, Outcome.RESTORED)
        line.hidden, line.opened = found.count("aborted"), found.count("open")
        ids = [ref.ledger_id for ref in plan.ledgers]
        refs = plan.ledgers
        if has_new_ids:
            first = self._noted_ids(plan, ids)
            copies = enumerate(plan.ledgers, first)
            refs = tuple(copy_under_id(self._bucket, ref, new_id, plan.target) for new_id, ref in copies)
        line.ledgers = tuple(zip(ids, refs, strict=True))
        assert self._ids is not None  # noqa: S101  (there are some as soon as one topic is due)
        positions = Positions(
            [(old, ref.ledger_id, ref.last_entry + 1) for old, ref in line.ledgers], self._ids.last, plan.renumbered
        )
        cursors, line.own_remarks = subscriptions_of(plan.source, plan.former.cursors, positions)
        line.subscriptions = len(cursors)
        if found.entries and self._hides_aborted:
            self._publish(plan, aborted, refs[-1])
        self._lock.commit(self._commit_of(line, cursors, hides_aborted=looks))
        return line

    def _commit_of(self, line: TopicLine, cursors: Mapping[str, bytes], *, hides_aborted: bool) -> list[Operation]:
        """Return the commit that makes a topic: its list of ledgers, its subscriptions, and a note that it was restored.

        Raises `ListFullError` for more than a ZooKeeper takes at once.
        """
        assert self._ids is not None  # noqa: S101  (there are some as soon as one topic is due)
        plan, now_ms, extra_id = line.plan, time.time_ns() // 1_000_000, self._ids.last
        path = managed_ledger_path(plan.target)
        ids = {ref.ledger_id for ref in plan.ledgers}
        note = Note(
            plan.source,
            self._bucket.store.url,
            len(line.ledgers),
            len(cursors),
            extra_id,
            left_out=len(not_restored(self._catalog, plan.source, ids)),
            has_new_ids=any(old != ref.ledger_id for old, ref in line.ledgers),
            hides_aborted=hides_aborted,
        ).build()
        made: list[Operation] = [MakeNode(path, _value(_list(line, self._how.driver, extra_id, now_ms), path))]
        for name, data in cursors.items():
            cursor = cursor_path(plan.target, name)
            made.append(MakeNode(cursor, _value(data, cursor)))
        # There may be the note of a topic of this name that was deleted since.
        noted = self._node(note_path(plan.target))
        made.append(MakeNode(note_path(plan.target), note) if noted is None else SetNode.of(noted, note))
        if not fits(made):
            raise ListFullError("its list and its subscriptions are more than a ZooKeeper takes at once", key=path)
        return made

    def _refusal(self, found: TopicTransactions) -> str | None:
        """Return why a topic cannot be served with these transactions; None if it can."""
        if not self._hides_aborted:
            hidden = found.count("aborted") + found.count("open")
            if not hidden:
                return None
            return (
                f"brokers would show {hidden:,} entries of transactions that were not committed, since the new cluster has "
                "transactionCoordinatorEnabled=false: enable it, or --no-transactions"
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
        return replace(
            plan, ledgers=(*plan.ledgers, end_transactions(self._bucket, plan.target, ledger_id, found.open, at_ms))
        )

    def _publish(self, plan: TopicPlan, aborted: Sequence[Transaction], last: LedgerRef) -> None:
        """Have brokers know which transactions were aborted, before any of them can load the topic."""
        assert self._how.publish is not None  # noqa: S101  (as it is for each run)
        topic, end = plan.target_topic, Position(last.ledger_id, last.last_entry)
        # No broker forgets any of them before all that is restored is trimmed.
        snapshot = build_transaction_snapshot(topic, end, [(one, end) for one in aborted])
        self._how.publish(snapshot_topic(namespace_of(plan.target)), topic, snapshot)

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
        assert self._ids is not None  # noqa: S101  (there are some as soon as one topic is due)
        made = NewIds(self._ids.take(len(ledgers) or 1), tuple(ledgers))
        self._lock.commit([MakeNode(path, made.build())])
        return made.first

    def _node(self, path: str) -> Node | None:
        return next((node for _, node in answered(self._lock.newest().get_many, [path])), None)


def _list(line: TopicLine, driver: OffloadDriver, extra_id: int, now_ms: int) -> bytes:
    """Return the list of a topic, and behind its ledgers one that BookKeeper does not have, and never will.

    A broker that loads the topic forgets the last ledger of the list if BookKeeper does not know it, so that must be none of ours.
    """
    former = line.plan.former
    ledgers = [
        LedgerInfo(
            ref.ledger_id,
            ref.last_entry + 1,
            ref.length,
            # As the lost cluster had it: retention by age goes on as it was. Where it is not known the ledger seems younger.
            former.closed_ms.get(old) or ref.changed_ms or now_ms,
            OffloadContext(
                ref.uuid,
                is_complete=True,
                is_deleted_from_bookkeeper=True,
                offloaded_ms=now_ms,
                driver=driver.name,
                properties=driver.properties,
            ),
        )
        for old, ref in line.ledgers
    ]
    ledgers.append(LedgerInfo(extra_id, 0, 0, 0))
    # Never terminated: of a list without a ledger that BookKeeper has, brokers then know no last message (seen with Pulsar 4.0.7).
    return build_managed_ledger_info(ManagedLedgerInfo(tuple(ledgers), None, former.properties))


def _value(plain: bytes, path: str) -> bytes:
    codec = Compression.NONE if len(plain) <= _PLAIN_BYTES else Compression.ZSTD
    return stored(EditedList(plain, codec), key=path)


def line_of_restored(plan: TopicPlan, nodes: Nodes, catalog: Catalog, how: How) -> TopicLine:
    """Return a topic that an earlier run restored, and what is wrong with it: by its list now, its note, and what is planned.

    Raises `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    line, note = TopicLine(plan, Outcome.THERE), note_of(nodes, plan.target)
    if note is None:
        line.reason = GONE
        return line
    line.subscriptions = note.subscriptions
    _, line.reason = restored_ledgers(nodes, catalog, plan.target, note)
    wanted = len(plan.former.cursors)
    if line.reason is None and wanted > note.subscriptions:
        line.reason = (
            f"it was restored with {note.subscriptions:,} subscriptions, and the dump has {wanted:,}: they are made only with the topic, "
            "others with `pulsar-admin topics create-subscription`"
        )
    if line.reason is None and how.looks_for_transactions and not note.hides_aborted:
        line.reason = "it was restored with --no-transactions: brokers show what was aborted, if there was any"
    line.reason = line.reason or plan.refusal
    return line


def reason_not_to_restore(plan: TopicPlan, found: Found, *, gives_new_ids: bool) -> str | None:
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


def lost_since(restored: Sequence[TopicLine], catalog: Catalog) -> Mapping[str, str]:
    """Return of each topic, by its name in the lost cluster, what the bucket has lost, or got, since the plan was made.

    ``catalog`` is of a listing after all commits: what is deleted, or uploaded, while topics are restored is reported.
    """
    reasons: dict[str, str] = {}
    for one in restored:
        if one.outcome is not Outcome.RESTORED:
            continue
        names = {one.plan.source, one.plan.target}
        lost = not_in_bucket(names, [(ref.ledger_id, ref.uuid) for _, ref in one.ledgers], catalog)
        known = {ref.ledger_id for ref in (*one.plan.ledgers, *(ref for _, ref in one.ledgers))} | set(
            one.plan.left_out
        )
        late = sorted({ledger_id for name in names for ledger_id in not_restored(catalog, name, known)})
        if lost:
            reasons[one.plan.source] = (
                f"the bucket has lost ledger {lost[0]} while topics were restored ({len(lost):,} ledgers in all)"
            )
        elif late:
            reasons[one.plan.source] = (
                f"ledger {late[0]} came into the bucket while topics were restored, and is not in its list ({len(late):,} in all): "
                "restore the topic once more, under another name (--as, --new-ids)"
            )
    return reasons
