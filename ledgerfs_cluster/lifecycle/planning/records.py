"""Plan the journal's records: new ones, due ones, and ones that are no longer valid.

A record of a marked orphan only states the past: it is due if its grace period is over and it would be written again now, for the same
version of the ledger's node; otherwise it is dropped. Clean up after an attempt to offload if no list names its objects.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ledgerfs.display import human_size, span
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind, Plan, Reason, Refusal, Situation
from ledgerfs_cluster.lifecycle.planning.orphans import Proposal, orphan_records
from ledgerfs_cluster.lifecycle.planning.topic_views import ClusterView
from ledgerfs_cluster.lifecycle.policy.policy_file import Via
from ledgerfs_cluster.offload.journal import MOST_MARKED, ROOT, JournalRecord

_AT_ONCE = 200
_DELETE, _MARK, _CLEAN = ActionKind.DELETE, ActionKind.MARK, ActionKind.CLEAN


def plan_deletions(plan: Plan, cluster: ClusterView, situation: Situation) -> None:
    """Add records to write, actions for existing records, and those that wait."""
    _Records(plan, cluster, situation).add()


def plan_attempts(plan: Plan, cluster: ClusterView, situation: Situation) -> None:
    """Add the cleanup of attempts to offload whose objects no list names."""
    for one in situation.journal.attempts:
        topic, ids = one.managed_ledger or "", (one.ledger_id,)
        age_ms = situation.now_ms - one.noted_ms
        ago = span(max(0, age_ms))
        if topic in cluster.damaged_lists:
            why = f"it is unknown whether its ledger list references offload {one.uuid}: the list could not be read"
            plan.refuse(_CLEAN, topic, Reason(Refusal.UNREADABLE, why), ids)
        elif cluster.names_offload(one.ledger_id, one.key.uuid):
            why = f"its ledger list references offload {one.uuid}, but the journal has this offload as unfinished"
            plan.refuse(_CLEAN, topic, Reason(Refusal.NAMED, why), ids)
        elif age_ms < situation.attempt_grace_ms:
            why = f"an offload of ledger {one.ledger_id} started {ago} ago and may still be running"
            plan.wait(_CLEAN, topic, ids, 0, one.noted_ms + situation.attempt_grace_ms, why)
        else:
            why = f"an offload of ledger {one.ledger_id} started {ago} ago and did not finish; no ledger list references its objects"
            plan.actions.append(Action(_CLEAN, topic, ids, 0, Via.DIRECT, one.noted_ms, why, records=(one,)))


class _Records:
    """Compares orphans with the existing records."""

    __slots__ = ("_cluster", "_plan", "_refused", "_situation", "_wanted")

    def __init__(self, plan: Plan, cluster: ClusterView, situation: Situation) -> None:
        self._plan = plan
        self._cluster = cluster
        self._situation = situation
        self._wanted = {one.record.name: one for one in orphan_records(plan, cluster, situation)}
        self._refused = {
            (one.subject, ledger_id): one
            for one in plan.refused
            # A ledger of a lost list is certainly kept: it is no longer marked.
            if one.action == _MARK.value and one.code != Refusal.LOST_LIST.value
            for ledger_id in one.ledger_ids
        }

    def add(self) -> None:
        every = self._situation.journal.marked
        due = [one for one in every if self._is_due(one)]
        for some in _grouped(due):
            since_ms = min(one.due_ms for one in some)
            ago = span(self._situation.now_ms - since_ms)
            why = f"{_count(some)}, grace period over for {ago}: {some[0].reason}"
            self._plan.actions.append(self._action(_DELETE, some, since_ms, why))
        # A dropped record has the same node as its successor.
        there = {one.name for one in every}
        proposals = [one for name, one in self._wanted.items() if name not in there]
        self._mark(list(self._without_damaged(proposals)), max(0, MOST_MARKED - len(every)))

    def _is_due(self, record: JournalRecord) -> bool:
        """Return whether a record is valid and its grace period over; otherwise add that it is dropped, waits, or is undecided."""
        found = self._wanted.get(record.name)
        if found is None:
            reason = self._why_unknown(record)
            if reason is None:
                self._drop(
                    record,
                    "it is no longer an orphan, or the policy file no longer has orphans deleted (orphans = true)",
                )
            elif self._situation.orphans is None:
                self._wait(record, None, reason.message)
            else:
                self._plan.refuse(_DELETE, _subject(record), reason, (record.ledger_id,), record.size)
            return False
        now, then = ((one.ledger_version, one.managed_ledger, one.size, one.bucket) for one in (found.record, record))
        if found.made_ms > record.noted_ms:
            self._drop(record, f"ledger {record.ledger_id} was created after the mark: its id was used again")
            return False
        if now != then:
            self._drop(record, f"ledger {record.ledger_id} changed after it was marked")
            return False
        # Use the longer of two grace periods: that of marking, and the current one.
        now_ms = self._situation.now_ms
        due_ms = max(record.due_ms, record.noted_ms + found.record.due_ms - found.record.noted_ms)
        if now_ms < due_ms:
            ago = span(max(0, now_ms - record.noted_ms))
            self._wait(
                record,
                due_ms,
                f"{record.reason}; marked {ago} ago, `ledgerfs lifecycle undo {record.name}` removes the mark",
            )
        return now_ms >= due_ms

    def _why_unknown(self, record: JournalRecord) -> Reason | None:
        """Return the reason if a record cannot be judged; None if it can."""
        orphans = self._situation.orphans
        if orphans is None:
            why = "it is unknown whether it is still an orphan: there was no search for orphans"
            return Reason(Refusal.UNREADABLE, why)
        if record.managed_ledger in self._cluster.damaged_lists:
            return Reason(Refusal.UNREADABLE, "the ledger list of its topic could not be read")
        unlisted = None if record.uuid is None else orphans.why_unlisted(record.bucket)
        if unlisted is not None:
            why = f"it is unknown whether it is still an orphan: its bucket could not be listed: {unlisted}"
            return Reason(Refusal.UNREADABLE, why)
        found = self._refused.get((_subject(record), record.ledger_id))
        return None if found is None else Reason(Refusal(found.code), found.message)

    def _drop(self, record: JournalRecord, why: str) -> None:
        said = f"the mark of ledger {record.ledger_id} is removed and nothing is deleted: {why}"
        self._plan.actions.append(self._action(_CLEAN, [record], record.noted_ms, said))

    def _without_damaged(self, proposals: Iterable[Proposal]) -> Iterator[Proposal]:
        """Yield proposals that no damaged record has the name of; refuse the others."""
        damaged = {
            path.rpartition("/")[2] for path in self._situation.journal.unreadable if path.startswith(f"{ROOT}/")
        }
        for one in proposals:
            record = one.record
            if record.name not in damaged:
                yield one
                continue
            why = (
                f"the journal has a damaged record of ledger {record.ledger_id}: "
                f"remove it with `ledgerfs lifecycle undo {record.name}`"
            )
            reason = Reason(Refusal.UNREADABLE, why)
            self._plan.refuse(_MARK, _subject(record), reason, (record.ledger_id,), record.size)

    def _mark(self, proposals: Sequence[Proposal], room: int) -> None:
        """Add records to write, up to ``room``; the oldest orphans first."""
        ordered = sorted(proposals, key=lambda one: one.since_ms)
        for some in _grouped(one.record for one in ordered[room:]):
            why = (
                f"the journal is full ({MOST_MARKED:,} records): these orphans will be marked after others are deleted"
            )
            ids, size = tuple(record.ledger_id for record in some), sum(record.size for record in some)
            self._plan.wait(_MARK, _subject(some[0]), ids, size, None, why)
        since = {one.record.name: one.since_ms for one in ordered}
        for some in _grouped(one.record for one in ordered[:room]):
            first, size = some[0], sum(record.size for record in some)
            grace = span(first.due_ms - first.noted_ms)
            why = f"{_count(some)}, {human_size(size)}, of kind {first.kind.value}, will be deleted in {grace}: {first.reason}"
            self._plan.actions.append(self._action(_MARK, some, min(since[one.name] for one in some), why))

    def _action(self, kind: ActionKind, records: Sequence[JournalRecord], since_ms: int, why: str) -> Action:
        ids = tuple(one.ledger_id for one in records)
        size = 0 if kind is _CLEAN else sum(one.size for one in records)
        return Action(kind, records[0].managed_ledger, ids, size, Via.DIRECT, since_ms, why, records=tuple(records))

    def _wait(self, record: JournalRecord, due_ms: int | None, why: str) -> None:
        self._plan.wait(_DELETE, _subject(record), (record.ledger_id,), record.size, due_ms, why)


def _subject(record: JournalRecord) -> str:
    return record.managed_ledger or f"ledger {record.ledger_id}"


def _grouped(records: Iterable[JournalRecord]) -> Iterator[list[JournalRecord]]:
    """Yield the records of each topic and kind, by ascending ids, in batches: other due work comes in between."""

    def of(record: JournalRecord) -> tuple[str, str]:
        return record.managed_ledger or "", record.kind.value

    for _, each in groupby(sorted(records, key=lambda one: (*of(one), one.ledger_id)), key=of):
        some = list(each)
        for start in range(0, len(some), _AT_ONCE):
            yield some[start : start + _AT_ONCE]


def _count(records: Sequence[JournalRecord]) -> str:
    return f"ledger {records[0].ledger_id}" if len(records) == 1 else f"{len(records):,} ledgers"
