"""Orphans as values, and the journal's records of them. Only orphans that two checks confirm, of topics of this cluster."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import unquote_plus

import numpy as np

from ledgerfs.display import span
from ledgerfs_cluster.formats.bookkeeper.ledger_nodes import LedgerState
from ledgerfs_cluster.lifecycle.planning.actions import ActionKind, Plan, Reason, Refusal, Situation
from ledgerfs_cluster.lifecycle.planning.topic_views import ClusterView
from ledgerfs_cluster.offload.journal import JournalRecord, RecordKind
from ledgerfs_cluster.rules.ownership import (
    COMPACTED,
    MANAGED_LEDGER,
    SCHEMA,
    is_in,
    known_topics,
    named_ledgers,
    topic_made_for,
)
from ledgerfs_cluster.snapshot.survey import Survey
from ledgerfs_cluster.snapshot.tables import Table

_MARK = ActionKind.MARK
_ELSEWHERE = (
    "this cluster has no such topic: the topic was deleted, or another cluster uses the same BookKeeper or bucket"
)


@dataclass(frozen=True, slots=True)
class OrphanLedger:
    """A ledger in BookKeeper without a reference.

    Attributes
    ----------
    version
        Of its node.
    size
        Its bytes; 0 for one that is not closed.
    component, owner
        Its purpose in its metadata: the component's word, and the topic or schema.
    is_closed
        Whether it is closed: no writer may have it open.
    is_known
        Whether this cluster has the topic.
    created_ms, changed_ms
        When its node was created, and last set, ms since 1970 UTC.
    has_states
        Whether it was created for states of a subscription.

    """

    ledger_id: int
    version: int
    size: int
    component: str
    owner: str
    is_closed: bool
    is_known: bool
    created_ms: int
    changed_ms: int
    has_states: bool = False

    @property
    def managed_ledger(self) -> str | None:
        """The topic whose list it would be in; None for ledgers of schemas and similar."""
        return self.owner if self.component == MANAGED_LEDGER else None


@dataclass(frozen=True, slots=True)
class OrphanOffload:
    """The objects of an offload that no list names.

    Attributes
    ----------
    bucket
        The URL of the bucket.
    managed_ledger
        From the user metadata of the objects; None if these have none.
    is_known
        Whether this cluster has the topic.
    size
        Bytes of all objects.
    modified_ms
        When the younger object was written, ms since 1970 UTC.
    entries, length
        Entries of the ledger, and their bytes, from its index; -1 where objects and index are not a whole ledger.

    """

    ledger_id: int
    uuid: str
    bucket: str
    managed_ledger: str | None
    is_known: bool
    size: int
    modified_ms: int
    entries: int = -1
    length: int = -1


def orphan_ledgers(survey: Survey, rows: Table) -> Iterator[OrphanLedger]:
    """Yield the orphans for rows of a snapshot's `LEDGER` table."""
    known = known_topics(survey)
    for row in rows:
        component, owner = survey.words[int(row["component"])], survey.words[int(row["owner"])]
        is_closed = bool(row["state"] == LedgerState.CLOSED)
        yield OrphanLedger(
            int(row["ledger_id"]),
            int(row["version"]),
            int(row["length"]) if is_closed else 0,
            component,
            owner,
            is_closed,
            topic_made_for(component, owner) in known,
            int(row["created_ms"]),
            int(row["changed_ms"]),
            bool(row["cursor"] >= 0),
        )


@dataclass(frozen=True, slots=True)
class Proposal:
    """A record to write, the earliest time for it, and when the ledger was created; ms since 1970 UTC."""

    record: JournalRecord
    since_ms: int
    made_ms: int = 0


def orphan_records(plan: Plan, cluster: ClusterView, situation: Situation) -> Iterator[Proposal]:
    """Yield records of orphans, if the policy file wants them deleted; add refusals to ``plan``."""
    if situation.orphans is None or not situation.file.orphans:
        return
    named = named_ledgers(cluster.survey)
    for one in situation.orphans.ledgers:
        is_named = bool(is_in(np.array([one.ledger_id], np.int64), named)[0])
        if not is_named:
            ago = span(max(0, situation.now_ms - one.changed_ms))
            why = f"nothing references it; it was created for {one.component} {one.owner} and last changed {ago} ago"
            about = one.ledger_id, one.managed_ledger, None, None, why[:4000], one.version, one.size
            record = JournalRecord(RecordKind.ORPHAN, *about)
            reason = _why_kept(cluster, one)
            yield from _proposed(plan, cluster, situation, record, reason, one.changed_ms, one.created_ms)
    # A running attempt has objects before a list names them; those of other attempts are cleaned up by their records.
    noted = {(one.ledger_id, one.uuid) for one in situation.journal.attempts}
    for offload in situation.orphans.offloads:
        is_named = cluster.names_offload(offload.ledger_id, offload.uuid)
        is_named |= (offload.ledger_id, offload.uuid) in noted
        if not is_named:
            ago = span(max(0, situation.now_ms - offload.modified_ms))
            why = f"no ledger list references this offload in {offload.bucket}; its objects are {ago} old"
            of = offload.ledger_id, offload.managed_ledger, offload.uuid, offload.bucket, why, -1, offload.size
            record = JournalRecord(RecordKind.OBJECTS, *of)
            reason = _why_objects_are_kept(cluster, offload)
            yield from _proposed(plan, cluster, situation, record, reason, offload.modified_ms)


def _proposed(  # noqa: PLR0917  (the record, its reason and its times)
    plan: Plan,
    cluster: ClusterView,
    situation: Situation,
    record: JournalRecord,
    reason: Reason | None,
    since_ms: int,
    made_ms: int = 0,
) -> Iterator[Proposal]:
    """Yield a record with its times, by the grace period of its topic, or else of the file; or refuse it."""
    name = record.managed_ledger
    if reason is not None:
        plan.refuse(_MARK, name or f"ledger {record.ledger_id}", reason, (record.ledger_id,), record.size)
        return
    grace_ms = situation.file.trash_grace_ms if name is None else cluster.rule_of(name).trash_grace_ms
    noted_ms = situation.noted_ms
    yield Proposal(replace(record, noted_ms=noted_ms, due_ms=noted_ms + grace_ms), since_ms, made_ms)


def _why_kept(cluster: ClusterView, one: OrphanLedger) -> Reason | None:
    """Return the reason to keep a ledger; None if it may be marked."""
    topic = None if one.managed_ledger is None else cluster.topic(one.managed_ledger)
    if topic is not None and topic.is_being_deleted:
        return Reason(Refusal.BEING_DELETED, "its namespace is being deleted")
    if not one.is_closed:
        why = f"ledger {one.ledger_id} has no owner but is not closed: a writer may still be running"
        return Reason(Refusal.NOT_CLOSED, f"{why}; if not, close it with `bookkeeper shell readledger -r`")
    if not one.is_known:
        return Reason(Refusal.ANOTHER_CLUSTERS, f"ledger {one.ledger_id} was created for {one.owner}; {_ELSEWHERE}")
    why_lost = _why_of_lost_list(cluster, one) if one.size else None
    if why_lost is None:
        return None
    return Reason(Refusal.LOST_LIST, f"ledger {one.ledger_id} was created for {one.owner}, {why_lost}")


def _why_of_lost_list(cluster: ClusterView, one: OrphanLedger) -> str | None:
    """Return the reason if a ledger with entries may have lost its reference; None if it has not.

    Components create new ledgers before they leave older ones. So a ledger that is newer than those in a list, a compaction or a locator
    was referenced there before that was set back.
    """
    if one.component == COMPACTED:
        is_older = one.ledger_id < cluster.newest_compacted(topic_made_for(one.component, one.owner))
        return (
            None
            if is_older
            else "whose compaction cursor has no newer compacted ledger: the cursor was lost, or reset to an older state"
        )
    if one.component == SCHEMA:
        is_older = one.ledger_id < cluster.newest_schema(unquote_plus(one.owner))
        return (
            None
            if is_older
            else "whose schema locator has no newer ledger: the locator was lost, or reset to an older state"
        )
    return None if one.managed_ledger is None else _why_of_list(cluster, one, one.managed_ledger)


def _why_of_list(cluster: ClusterView, one: OrphanLedger, managed_ledger: str) -> str | None:
    """Return the same for a ledger of a topic: brokers write only to listed ledgers, and trim the oldest first."""
    found = cluster.list_of(managed_ledger)
    if found is None:
        return "whose ledger list is empty: the list was lost"
    listed, made_ms = found
    first = int(listed["ledger_id"][0])
    if one.ledger_id > first and not one.has_states:
        return f"whose ledger list begins at ledger {first} but lacks this newer ledger: the list was reset to an older state"
    if one.created_ms < made_ms:
        return "whose ledger list is newer: the old list was lost, or the topic was deleted and created again"
    return None


def _why_objects_are_kept(cluster: ClusterView, one: OrphanOffload) -> Reason | None:
    """Return the reason to keep objects; None if they may be marked."""
    name, objects = one.managed_ledger, f"objects of offload {one.uuid} in {one.bucket}"
    if not one.is_known:
        return Reason(Refusal.ANOTHER_CLUSTERS, f"{objects}: {_ELSEWHERE}")
    if name is None:
        return None
    if not cluster.has_its_offloads_at(name, one.bucket):
        return Reason(
            Refusal.BACKUP, f"{objects} may be a backup: {name} is offloaded to another bucket, or not at all"
        )
    why = _why_only_copy(cluster, one, name)
    return (
        None if why is None else Reason(Refusal.LOST_LIST, f"{objects} are of ledger {one.ledger_id} of {name}, {why}")
    )


def _why_only_copy(cluster: ClusterView, one: OrphanOffload, managed_ledger: str) -> str | None:
    """Return the reason if objects that no list names may be the only copy of a ledger; None if they are not.

    Failed attempts leave objects of a ledger that is still in BookKeeper or in another offload; trims leave objects that are older than all
    listed ledgers.
    """
    found = cluster.list_of(managed_ledger)
    if found is None:
        return "whose ledger list is empty: the list was lost"
    listed, made_ms = found
    rows, first = listed[listed["ledger_id"] == one.ledger_id], int(listed["ledger_id"][0])
    if not rows.size and one.ledger_id > first:
        return f"whose ledger list begins at ledger {first} but lacks this newer ledger: the list was reset to an older state"
    if one.modified_ms < made_ms:
        return "whose ledger list is newer: the old list was lost, or the topic was deleted and created again"
    if rows.size:
        return _why_not_as_listed(one, rows[0], in_bookkeeper=cluster.has_closed(one.ledger_id))
    return None


def _why_not_as_listed(one: OrphanOffload, row: np.void, *, in_bookkeeper: bool) -> str | None:
    """Return the reason if objects may have entries that BookKeeper and the listed offload both lack; None if one of them has all."""
    if not (row["is_complete"] or in_bookkeeper):
        return "whose ledger list contains it, but neither BookKeeper nor another offload has a copy"
    listed = int(row["entries"]), int(row["size"])
    if one.entries < 0 or not listed[0] or (one.entries, one.length) == listed:
        return None
    return (
        f"whose ledger list has {listed[0]:,} entries with {listed[1]:,} bytes for it, but these objects have {one.entries:,} with "
        f"{one.length:,}"
    )
