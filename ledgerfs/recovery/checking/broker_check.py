"""Restored topics, as notes have them, and what brokers serve of each, compared with the bucket: all of it, or a sample."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from ledgerfs.bucket.bucket import Bucket
from ledgerfs.errors import BrokerRefusalError, StaleObjectError
from ledgerfs.formats.managed_ledgers.managed_ledger_info import LedgerInfo, parse_managed_ledger_info
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.formats.topic_names import encode_topic
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.ledger_ref import LedgerRef
from ledgerfs.recovery.checking.comparison import TopicComparison, compare_topic
from ledgerfs.recovery.checking.messages import ReadService
from ledgerfs.recovery.copies.transaction_messages import transactions_in
from ledgerfs.recovery.planning.topic_plan import TopicPlan
from ledgerfs.recovery.topics.journal import NOTES, Note, new_ids_path, nodes_below, parse_new_ids, parse_note
from ledgerfs.recovery.topics.new_cluster import note_of
from ledgerfs.recovery.topics.restoring import RestoredTopic, not_restored
from ledgerfs.storage.admin_api.admin_requests import AdminRequests
from ledgerfs.storage.zookeeper.nodes import Nodes

GONE = "the topic was deleted, or created again, since it was restored"


def restored_topics(nodes: Nodes, catalog: Catalog, bucket: str) -> Iterator[tuple[TopicPlan, str | None]]:
    """Yield each topic that was restored from a bucket (URL), as its note and its list have it, and what is the matter with it.

    Raises `CorruptMetadataError`, and the errors of ZooKeeper.
    """
    for node in sorted(nodes_below(nodes, NOTES), key=lambda one: one.path):
        note = parse_note(node)
        if note.bucket == bucket:
            yield _restored(nodes, catalog, note, node.path.removeprefix(f"{NOTES}/"))


def _restored(nodes: Nodes, catalog: Catalog, note: Note, target: str) -> tuple[TopicPlan, str | None]:
    if note_of(nodes, target) is None:
        return TopicPlan(note.source, target), GONE
    former = {new: old for old, new in new_ids(nodes, target, note).items()}
    node = nodes.get(managed_ledger_path(target))
    listed = {
        former.get(one.ledger_id, one.ledger_id): one
        for one in parse_managed_ledger_info(node.data, key=node.path).ledgers
        if one.ledger_id < note.extra_id
    }
    found = [_original(catalog, note.source, old, one) for old, one in listed.items()]
    plan = TopicPlan(note.source, target, tuple(ref for ref in found if ref is not None))
    # What the cluster itself has offloaded since is none of it.
    late = not_restored(catalog, note.source, listed.keys(), note.extra_id if target == note.source else None)
    if len(late) <= note.left_out:
        return plan, None
    return (
        plan,
        f"{len(late) - note.left_out:,} ledgers came into the bucket since it was restored, and are not in its list",
    )


def _original(catalog: Catalog, source: str, ledger_id: int, listed: LedgerInfo) -> LedgerRef | None:
    """Return the ledger that was restored: the copy that the list names, which may be of another topic, else the one to read."""
    copies = [ref for ref in (*catalog.copies_of(source, ledger_id), *catalog.all_of(ledger_id)) if ref.is_sound]
    uuid = None if listed.context is None else listed.context.uuid
    named = (ref for ref in copies if ref.uuid == uuid)
    return next(chain(named, (ref for ref in copies if ref.managed_ledger == source)), None)


def new_ids(nodes: Nodes, target: str, note: Note) -> dict[int, int]:
    """Return {id in the lost cluster: id in the new one} of a topic whose ledgers have others; empty if they have not."""
    if not note.has_new_ids:
        return {}
    made = parse_new_ids(nodes.get(new_ids_path(target)))
    return dict(zip(made.ledgers, made.new, strict=True))


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
        note = note_of(nodes, plan.target)
        if note is None:
            raise StaleObjectError(GONE, key=plan.target_topic)
        ids = new_ids(nodes, plan.target, note)
        readers = [bucket.uncached_reader(ref) for ref in plan.ledgers if not ids or ref.ledger_id in ids]
        hidden, count = done.hidden_ids, done.hidden_transactions
        if hidden is None:
            hidden, count = {}, 0
            if note.open_as is not None:
                found, open_as = transactions_in(readers), note.open_as or "aborted"
                hidden, count = found.hidden_messages(open_as), len(found.hidden(open_as))
        compared = compare_topic(self.service, plan.target_topic, readers, hidden, sample=self.sample, ids=ids)
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
