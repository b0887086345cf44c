"""Read restored topics back through brokers, and compare them with the bucket; the new cluster's records list these topics."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs_cluster.recovery.checking.comparison import TopicComparison, compare_topic
from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService
from ledgerfs_cluster.recovery.journal import (
    GONE,
    NOTES,
    Note,
    new_ids,
    nodes_below,
    note_of,
    parse_note,
    restored_ledgers,
)
from ledgerfs_cluster.recovery.planning import Wanted
from ledgerfs_cluster.recovery.report import Outcome, Report, TopicRecovery
from ledgerfs_cluster.recovery.transaction_messages import TopicTransactions, transactions_in
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster


@dataclass(frozen=True, slots=True)
class Check:
    """Compares restored topics; read-only.

    Attributes
    ----------
    bucket
        The bucket that they were restored from.
    cluster
        The new cluster.
    service
        Its brokers' service for clients.

    """

    bucket: Bucket
    cluster: LivingCluster
    service: PulsarService

    def run(self, wanted: Wanted, progress: Progress) -> Report:
        """Read the topics that were restored from the bucket back through brokers, and compare all messages.

        Raises the errors of the bucket, of ZooKeeper and of brokers, and `ObjectNotFoundError` if none of the wanted topics was restored.
        """
        began_ms, url, nodes = time.time_ns() // 1_000_000, self.bucket.store.url, self.cluster.nodes
        self.bucket.refresh(progress)
        nodes.catch_up()
        notes = {node.path.removeprefix(f"{NOTES}/"): parse_note(node) for node in nodes_below(nodes, NOTES)}
        chosen = {
            target: note for target, note in sorted(notes.items()) if note.bucket == url and wanted.has(note.source)
        }
        if not chosen:
            raise ObjectNotFoundError(
                "the new cluster has no topics that were restored from this bucket; check --into, --topics and BUCKET",
                key=url,
            )
        topics = []
        for number, (target, note) in enumerate(chosen.items(), 1):
            topics.append(self._checked(target, note))
            progress("comparing topics", number, len(chosen))
        return Report(url, self.cluster.url, None, None, began_ms, time.time_ns() // 1_000_000, topics)

    def _checked(self, target: str, note: Note) -> TopicRecovery:
        nodes = self.cluster.nodes
        topic = TopicRecovery(note.source, target, outcome=Outcome.THERE, subscriptions=note.subscriptions)
        if note_of(nodes, target) is None:
            return replace(topic, outcome=Outcome.FAILED, reason=GONE, subscriptions=0)
        ledgers, reason = restored_ledgers(nodes, self.bucket.catalog, target, note)
        compared = None
        try:
            compared = self._compared(topic.target_topic, ledgers, note, new_ids(nodes, target, note))
        except LedgerfsError as error:
            reason = reason or f"cannot read it through brokers: {error}"
        return replace(topic, ledgers=ledgers, reason=reason, compared=compared)

    def _compared(self, topic: str, ledgers: Sequence[LedgerRef], note: Note, ids: dict[int, int]) -> TopicComparison:
        readers = [self.bucket.uncached_reader(ref) for ref in ledgers if not ids or ref.ledger_id in ids]
        found = transactions_in(readers) if note.hides_aborted else TopicTransactions()
        return compare_topic(self.service, topic, readers, found.hidden_messages, ids)
