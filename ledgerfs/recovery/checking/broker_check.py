"""What brokers serve of a restored topic, compared with the bucket: all of it, or its first, its last, and some entries between."""

from collections.abc import Mapping
from dataclasses import dataclass

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import StaleObjectError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.managed_ledgers.managed_ledger_info import parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.recovery.checking.comparison import TopicComparison, compare_topic
from ledgerfs.recovery.checking.topic_reading import ReadService
from ledgerfs.recovery.copies.settled_copies import OpenAs, unsettled
from ledgerfs.recovery.planning.topic_plan import TopicPlan
from ledgerfs.recovery.topics.new_cluster import note_of
from ledgerfs.storage.zookeeper.nodes import Nodes


@dataclass(frozen=True, slots=True)
class BrokerCheck:
    """How brokers are asked.

    Attributes
    ----------
    sample
        How many entries are compared besides the first and the last; None for all.
    open_as, looks_for_transactions
        As topics were restored.

    """

    service: ReadService
    sample: int | None
    open_as: OpenAs = "aborted"
    looks_for_transactions: bool = True

    def compare(
        self, bucket: Bucket, nodes: Nodes, plan: TopicPlan, hidden: Mapping[int, Int64] | None = None
    ) -> TopicComparison:
        """Return what a topic's brokers serve, compared; raises the errors of the bucket, of ZooKeeper and of brokers.

        ``hidden`` are the entries that they must not send, by ledger, if those are known; otherwise all entries are read to find them.
        """
        readers = [bucket.uncached_reader(ref) for ref in plan.ledgers]
        if hidden is None:
            hidden = unsettled(readers).hidden(self.open_as) if self.looks_for_transactions else {}
        return compare_topic(
            self.service, plan.target_topic, readers, hidden, sample=self.sample, ids=_new_ids(nodes, plan)
        )


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
