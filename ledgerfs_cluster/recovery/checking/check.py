"""Restored topics, as the new cluster's notes have them, read back through brokers and compared with the bucket."""

import time
from collections.abc import Sequence

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.catalog.layout import Progress
from ledgerfs.catalog.ledger_ref import LedgerRef
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.topic_names import encode_topic
from ledgerfs_cluster.errors import BrokerRefusalError
from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests
from ledgerfs_cluster.recovery.checking.comparison import TopicComparison, compare_topic
from ledgerfs_cluster.recovery.checking.pulsar_service import PulsarService
from ledgerfs_cluster.recovery.copies.transaction_messages import TopicTransactions, transactions_in
from ledgerfs_cluster.recovery.planning.topic_plan import TopicPlan
from ledgerfs_cluster.recovery.planning.wanted import Wanted
from ledgerfs_cluster.recovery.report import Outcome, Report, TopicLine
from ledgerfs_cluster.recovery.topics.journal import NOTES, Note, nodes_below, parse_note
from ledgerfs_cluster.recovery.topics.new_cluster import note_of
from ledgerfs_cluster.recovery.topics.restored import GONE, new_ids, restored_ledgers
from ledgerfs_cluster.zookeeper.living_cluster import LivingCluster


class Check:
    """Compares restored topics; nothing is written.

    Parameters
    ----------
    bucket
        From which they were restored.
    cluster
        The new one.
    service, requests
        Its brokers, as clients know them, and the admin API of any of them.

    """

    __slots__ = ("_bucket", "_cluster", "_nodes", "_requests", "_service")

    def __init__(self, bucket: Bucket, cluster: LivingCluster, service: PulsarService, requests: AdminRequests) -> None:
        self._bucket = bucket
        self._cluster = cluster
        self._nodes = cluster.nodes
        self._service = service
        self._requests = requests

    def run(self, wanted: Wanted, progress: Progress) -> Report:
        """Read what runs have restored from the bucket back through brokers, and compare all of it.

        Raises the errors of the bucket, of ZooKeeper and of brokers, and `ObjectNotFoundError` where no run has restored what is wanted.
        """
        began_ms, url = time.time_ns() // 1_000_000, self._bucket.store.url
        self._bucket.refresh(progress)
        self._nodes.catch_up()
        notes = {node.path.removeprefix(f"{NOTES}/"): parse_note(node) for node in nodes_below(self._nodes, NOTES)}
        chosen = {
            target: note for target, note in sorted(notes.items()) if note.bucket == url and wanted.has(note.source)
        }
        if not chosen:
            raise ObjectNotFoundError("no run has restored a topic from this bucket that is wanted", key=url)
        lines = []
        for number, (target, note) in enumerate(chosen.items(), 1):
            lines.append(self._line(target, note))
            progress("comparing topics", number, len(chosen))
        return Report(url, self._cluster.url, None, None, began_ms, time.time_ns() // 1_000_000, lines)

    def _line(self, target: str, note: Note) -> TopicLine:
        if note_of(self._nodes, target) is None:
            return TopicLine(TopicPlan(note.source, target), Outcome.FAILED, GONE)
        ledgers, reason = restored_ledgers(self._nodes, self._bucket.catalog, target, note)
        plan = TopicPlan(note.source, target, ledgers)
        line = TopicLine(plan, Outcome.THERE, reason, subscriptions=note.subscriptions)
        try:
            line.compared = self.compare(plan.target_topic, ledgers, note, new_ids(self._nodes, target, note))
        except LedgerfsError as error:
            line.reason = line.reason or f"it could not be read through brokers: {error}"
        return line

    def compare(self, topic: str, ledgers: Sequence[LedgerRef], note: Note, ids: dict[int, int]) -> TopicComparison:
        """Return what a topic's brokers serve, compared; raises the errors of the bucket, of ZooKeeper and of brokers."""
        readers = [self._bucket.uncached_reader(ref) for ref in ledgers if not ids or ref.ledger_id in ids]
        found = transactions_in(readers) if note.hides_aborted else TopicTransactions()
        compared = compare_topic(self._service, topic, readers, found.hidden_messages, ids)
        if count := len(found.hidden()):
            self._require_hidden(topic, count)
        return compared

    def _require_hidden(self, topic: str, count: int) -> None:
        """Raise `BrokerRefusalError` if the topic's broker knows of fewer aborted transactions than so many."""
        name = topic.removeprefix("persistent://")
        if name.count("/") != 2:
            # This part of the admin API knows no topics of Pulsar 1.
            return
        namespace, _, local = name.rpartition("/")
        path = f"/admin/v3/transactions/transactionBufferStats/{namespace}/{encode_topic(local)}"
        answer = self._requests.told(path)
        known = answer.get("totalAbortedTransactions") if isinstance(answer, dict) else None
        if isinstance(known, int) and known < count:
            reason = f"brokers hide {known:,} transactions, and {count:,} were not committed: restore the topic under another name (--as)"
            raise BrokerRefusalError(reason, key=topic)
