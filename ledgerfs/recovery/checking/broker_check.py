"""What brokers serve of a restored topic, compared with the bucket: all of it, or its first, its last, and some entries between."""

from dataclasses import dataclass

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import BrokerRefusalError, StaleObjectError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.topic_names import encode_topic
from ledgerfs.recovery.checking.comparison import TopicComparison, compare_topic
from ledgerfs.recovery.checking.topic_reading import ReadService
from ledgerfs.recovery.copies.transaction_messages import transactions_in
from ledgerfs.recovery.planning.topic_plan import TopicPlan
from ledgerfs.recovery.topics.new_cluster import note_of
from ledgerfs.recovery.topics.restoring import RestoredTopic
from ledgerfs.storage.admin_api.admin_requests import AdminRequests
from ledgerfs.storage.zookeeper.nodes import Nodes


@dataclass(frozen=True, slots=True)
class BrokerCheck:
    """How brokers are asked.

    Attributes
    ----------
    requests
        To the admin API of any of them.
    sample
        How many entries are compared besides the first and the last; None for all.

    """

    service: ReadService
    requests: AdminRequests
    sample: int | None

    def compare(self, bucket: Bucket, nodes: Nodes, plan: TopicPlan, done: RestoredTopic) -> TopicComparison:
        """Return what a topic's brokers serve, compared; raises the errors of the bucket, of ZooKeeper and of brokers.

        Where ``done`` does not have what they must not send, as of a topic that an earlier run restored, all entries are read to find it.
        """
        readers = [bucket.uncached_reader(ref) for ref in plan.ledgers]
        hidden, count, note = done.hidden_ids, done.hidden_transactions, note_of(nodes, plan.target)
        if hidden is None:
            hidden, count = {}, 0
            if note is not None and note.open_as is not None:
                found, open_as = transactions_in(readers), note.open_as or "aborted"
                hidden, count = found.hidden_messages(open_as), len(found.hidden(open_as))
        compared = compare_topic(
            self.service, plan.target_topic, readers, hidden, sample=self.sample, ids=_new_ids(nodes, plan)
        )
        if count:
            self._require_hidden(plan.target_topic, count)
        return compared

    def _require_hidden(self, topic: str, count: int) -> None:
        """Raise `BrokerRefusalError` if the topic's broker knows of fewer aborted transactions than so many."""
        name = topic.removeprefix("persistent://")
        if name.count("/") != 2:
            # This part of the admin API knows no topics of Pulsar 1.
            return
        namespace, _, local = name.rpartition("/")
        path = f"/admin/v3/transactions/transactionBufferStats/{namespace}/{encode_topic(local)}"
        answer = self.requests.told(path)
        known = answer.get("totalAbortedTransactions") if isinstance(answer, dict) else None
        if isinstance(known, int) and known < count:
            reason = f"brokers hide {known:,} transactions, and {count:,} were not committed: restore the topic under another name (--as)"
            raise BrokerRefusalError(reason, key=topic)


def _new_ids(nodes: Nodes, plan: TopicPlan) -> dict[int, int]:
    """Return {id in the lost cluster: id in the new one} of a topic whose ledgers have others; empty if they have not.

    Raises `StaleObjectError` if its list does not have all of them any more.
    """
    note = note_of(nodes, plan.target)
    if note is None or not note.has_new_ids:
        return {}
    node = nodes.get(managed_ledger_path(plan.target))
    listed = parse_managed_ledger_info(node.data, key=node.path).ledgers[: note.ledgers]
    if len(listed) < len(plan.ledgers) or any(
        ref.entries != one.entries for ref, one in zip(plan.ledgers, listed, strict=False)
    ):
        reason = "its ledgers have other ids, and the list does not have all of them any more, so that nobody can tell which is which"
        raise StaleObjectError(reason, key=node.path)
    return {ref.ledger_id: one.ledger_id for ref, one in zip(plan.ledgers, listed, strict=False)}
