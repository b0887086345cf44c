"""Restore topics into a cluster, one after the other: prepare its ledgers, then create it by one atomic commit.

A topic with conflicting ids needs copies of its ledgers; one with transactions a snapshot of the aborted ones, by which brokers hide
their messages. An interrupted run leaves whole topics, and unlisted ledgers, which the next run reads and reuses.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import InvalidOptionError, LedgerfsError, RefusedLedgerError, StoreUnreachableError
from ledgerfs.formats.decompression import Compression
from ledgerfs_cluster.errors import ChangedMeanwhileError, ListFullError, LockLostError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import (
    EditedList,
    LedgerInfo,
    ManagedLedgerInfo,
    OffloadContext,
    Position,
    build_managed_ledger_info,
)
from ledgerfs_cluster.formats.managed_ledgers.names import cursor_path, managed_ledger_path
from ledgerfs_cluster.offload.list_bytes import fits, stored
from ledgerfs_cluster.recovery.generated_ids import FreeIds, coordinators_behind
from ledgerfs_cluster.recovery.journal import NewIds, Note, new_ids_of, new_ids_path, not_restored, note_path
from ledgerfs_cluster.recovery.new_cluster import NewCluster
from ledgerfs_cluster.recovery.new_ledgers import copy_under_id, end_transactions
from ledgerfs_cluster.recovery.report import Outcome, TopicRecovery
from ledgerfs_cluster.recovery.subscriptions import Positions, subscriptions_of
from ledgerfs_cluster.recovery.transaction_messages import (
    TopicTransactions,
    build_transaction_snapshot,
    snapshot_topic,
    transactions_in,
)
from ledgerfs_cluster.snapshot.answered_nodes import answered
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.zookeeper.changes import ClusterLock, MakeNode, Operation, SetNode

_PLAIN_BYTES = 200_000
"""Larger values are compressed: brokers read both forms."""


@dataclass(frozen=True, slots=True)
class Restoring:
    """Restores topics; for one thread.

    Attributes
    ----------
    lock
        The cluster's lock.
    bucket, catalog
        The bucket with the ledgers, and its contents at the time of planning.
    into
        The new cluster.
    ids
        Unused ids that no generator returns, beyond all others.
    hides_aborted
        Whether the cluster's brokers have transactions enabled, and so hide aborted messages.

    """

    lock: ClusterLock
    bucket: Bucket
    catalog: Catalog
    into: NewCluster
    ids: FreeIds
    hides_aborted: bool

    def restore(self, topic: TopicRecovery, *, has_new_ids: bool) -> TopicRecovery:
        """Restore a planned topic, and return the result.

        Raises `LockLostError`, `StoreUnreachableError`, and the errors of ZooKeeper: then the topic exists completely or not at all.
        """
        try:
            return self._restored(topic, has_new_ids=has_new_ids)
        except (LockLostError, StoreUnreachableError):
            raise
        except ChangedMeanwhileError as error:
            reason = f"another client created a topic with this name at the same time: {error}"
        except LedgerfsError as error:
            reason = str(error)
        return replace(topic, outcome=Outcome.FAILED, reason=reason)

    def _restored(self, topic: TopicRecovery, *, has_new_ids: bool) -> TopicRecovery:
        found = TopicTransactions()
        if self.into.looks_for_transactions:
            found = transactions_in([self.bucket.reader(ref) for ref in topic.ledgers])
        aborted = found.hidden()
        refusal = self._refusal(found)
        if refusal is not None:
            return topic.refused(refusal)
        if found.open and topic.target == topic.source:
            topic = replace(topic, ledgers=(*topic.ledgers, self._end_of_transactions(topic, found)))
        ids = [ref.ledger_id for ref in topic.ledgers]
        refs: Sequence[LedgerRef] = topic.ledgers
        if has_new_ids:
            first = self._noted_ids(topic, ids)
            copies = enumerate(topic.ledgers, first)
            refs = [copy_under_id(self.bucket, ref, new_id, topic.target) for new_id, ref in copies]
        listed = tuple(zip(ids, refs, strict=True))
        moved = [(old, ref.ledger_id, ref.last_entry + 1) for old, ref in listed]
        positions = Positions(moved, self.ids.last, topic.renumbered)
        cursors, remarks = subscriptions_of(topic.source, topic.cursors, positions)
        hidden, opened = found.count("aborted"), found.count("open")
        if hidden:
            remarks.append(f"{hidden:,} entries are of aborted transactions, which readers do not get")
        if opened:
            remarks.append(f"{opened:,} entries are of transactions without a known end")
        if found.entries and self.hides_aborted:
            self._publish(topic, aborted, refs[-1])
        topic = replace(
            topic,
            outcome=Outcome.RESTORED,
            listed=listed,
            subscriptions=len(cursors),
        ).with_remarks(*remarks)
        self.lock.commit(self._commit_of(topic, cursors))
        return topic

    def _commit_of(self, topic: TopicRecovery, cursors: Mapping[str, bytes]) -> list[Operation]:
        """Return the commit that creates a topic: its ledger list, its subscriptions, and the record of its recovery.

        Raises `ListFullError` above ZooKeeper's packet size.
        """
        values = {managed_ledger_path(topic.target): self._list(topic)}
        values |= {cursor_path(topic.target, name): data for name, data in cursors.items()}
        made: list[Operation] = []
        for path, plain in values.items():
            codec = Compression.NONE if len(plain) <= _PLAIN_BYTES else Compression.ZSTD
            made.append(MakeNode(path, stored(EditedList(plain, codec), key=path)))
        note = Note(
            topic.source,
            self.bucket.store.url,
            len(topic.listed),
            len(cursors),
            self.ids.last,
            left_out=len(not_restored(self.catalog, topic.source, {ref.ledger_id for ref in topic.ledgers})),
            has_new_ids=any(old != ref.ledger_id for old, ref in topic.listed),
            hides_aborted=self.into.looks_for_transactions,
        ).build()
        # A deleted topic of this name may have left its record.
        path = note_path(topic.target)
        noted = next((node for _, node in answered(self.lock.newest().get_many, [path])), None)
        made.append(MakeNode(path, note) if noted is None else SetNode.of(noted, note))
        if not fits(made):
            reason = "its ledger list and subscriptions are too large for one transaction of ZooKeeper"
            raise ListFullError(reason, key=managed_ledger_path(topic.target))
        return made

    def _list(self, topic: TopicRecovery) -> bytes:
        """Return a topic's ledger list, with an extra last ledger that BookKeeper does not have, and never will.

        A broker that loads the topic drops the last ledger of the list if BookKeeper does not have it, so that must not be a restored one.
        """
        now_ms, driver = time.time_ns() // 1_000_000, self.into.driver
        former = () if topic.info is None else topic.info.ledgers
        closed_ms = {one.ledger_id: one.closed_ms for one in former}
        ledgers = [
            LedgerInfo(
                ref.ledger_id,
                ref.last_entry + 1,
                ref.length,
                # As in the lost cluster, so that retention by age continues. If unknown, the ledger seems younger.
                closed_ms.get(old) or ref.changed_ms or now_ms,
                OffloadContext(
                    ref.uuid,
                    is_complete=True,
                    is_deleted_from_bookkeeper=True,
                    offloaded_ms=now_ms,
                    driver=driver.name,
                    properties=driver.properties,
                ),
            )
            for old, ref in topic.listed
        ]
        ledgers.append(LedgerInfo(self.ids.last, 0, 0, 0))
        properties = () if topic.info is None else topic.info.properties
        # Never terminated: without a ledger in BookKeeper, brokers then report no last message (seen with Pulsar 4.0.7).
        return build_managed_ledger_info(ManagedLedgerInfo(tuple(ledgers), None, properties))

    def _refusal(self, found: TopicTransactions) -> str | None:
        """Return why a topic cannot be served with these transactions; None if it can."""
        if not self.hides_aborted:
            hidden = found.count("aborted") + found.count("open")
            if not hidden:
                return None
            return (
                f"brokers would deliver {hidden:,} entries of uncommitted transactions, since the new cluster has "
                "transactionCoordinatorEnabled=false: enable it, or pass --no-transactions"
            )
        behind = coordinators_behind(self.lock, found.greatest) if found.greatest else {}
        if not behind:
            return None
        number, given = next(iter(behind.items()))
        return (
            f"the new cluster may use transaction ids of this topic again, such as ({number},{found.greatest[number]}): coordinator "
            f"{number} is in use, and its last known id is {given}. Restore into a cluster without earlier clients with transactions"
        )

    def _end_of_transactions(self, topic: TopicRecovery, found: TopicTransactions) -> LedgerRef:
        """Write the ledger that ends a topic's open transactions for readers of the bucket."""
        ledger_id = self._noted_ids(topic, ())
        if ledger_id < topic.ledgers[-1].ledger_id:
            # Before the messages it would end nothing, and readers of the bucket would wait forever.
            reason = f"an earlier run reserved ledger {ledger_id} for the end of open transactions, but the topic has newer ledgers"
            raise RefusedLedgerError(f"{reason}: restore it under another name (--as)", key=new_ids_path(topic.target))
        at_ms = max(ref.changed_ms for ref in topic.ledgers)
        return end_transactions(self.bucket, topic.target, ledger_id, found.open, at_ms)

    def _publish(self, topic: TopicRecovery, aborted: Sequence[tuple[int, int]], last: LedgerRef) -> None:
        """Publish the aborted transactions to brokers, before any of them can load the topic."""
        if self.into.publish is None:
            raise InvalidOptionError(
                "it has transactions, but no Pulsar client is set to publish a snapshot of them (NewCluster.publish)",
                key=topic.topic,
            )
        end = Position(last.ledger_id, last.last_entry)
        # Brokers keep these until all restored ledgers are trimmed.
        snapshot = build_transaction_snapshot(topic.target_topic, end, [(one, end) for one in aborted])
        self.into.publish(snapshot_topic(namespace_of(topic.target)), topic.target_topic, snapshot)

    def _noted_ids(self, topic: TopicRecovery, ledgers: Sequence[int]) -> int:
        """Reserve new ids for some ledgers of a topic, one id if there are none; return the first.

        Records them before anything is written, so that a run after a crash writes the same ledgers.
        """
        noted, path = new_ids_of(self.lock.newest(), topic.target), new_ids_path(topic.target)
        if noted is None:
            noted = NewIds(self.ids.take(len(ledgers) or 1), tuple(ledgers))
            self.lock.commit([MakeNode(path, noted.build())])
        elif noted.ledgers != tuple(ledgers):
            reason = "an unfinished run reserved new ids for a different set of its ledgers; restore it under another name (--as)"
            raise RefusedLedgerError(reason, key=path)
        return noted.first
