"""What of a topic is to be deleted: ledgers past retention, and BookKeeper's copies of offloaded ledgers past their lag.

The rule of retention is `ledgerfs.clusters.retention`, with subscriptions where they are. What the time to live would let go besides is
left to the broker that loads the topic: only that expires anything.
"""

from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs.clusters.answers import LastEnd
from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.retention import Stays, Trim, keeps_its_last, moved_cursors, slowest_of, trim_of
from ledgerfs.display import human_size, span
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerState
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind, Plan, Reason, Refusal, Waiting
from ledgerfs.lifecycle.planning.routes import Route, direct_route, route_of
from ledgerfs.lifecycle.planning.situation import Situation
from ledgerfs.lifecycle.planning.topic_views import ClusterView, TopicView
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.lifecycle.policy.topic_rules import Whose

_MARK, _TRIM = ActionKind.MARK, ActionKind.TRIM


@dataclass(frozen=True, slots=True)
class Proposal:
    """A line that the trash journal is to have, and from when on it might have had it; None if that is not known."""

    line: TrashLine
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicDeletions:
    """What is to be deleted of a topic.

    Attributes
    ----------
    lines
        That the trash journal is to have, by this program.
    leaving
        Ids of ledgers past retention, which nobody needs to offload any more.

    """

    lines: tuple[Proposal, ...]
    leaving: tuple[int, ...]


class Deletions:
    """Plans the deletions of topics, each for itself."""

    __slots__ = ("_cluster", "_plan", "_situation")

    def __init__(self, plan: Plan, cluster: ClusterView, situation: Situation) -> None:
        self._plan = plan
        self._cluster = cluster
        self._situation = situation

    def of(self, topic: TopicView) -> TopicDeletions:
        """Return what of a topic is to be deleted by this program, and add what a broker does, what waits, and what is refused."""
        route = route_of(self._cluster, topic, has_admin=self._situation.has_admin, deletes=True)
        trim = self._trim(topic)
        past = [row for row in trim.going if topic.ledgers.ids[row] != topic.greatest] if topic.rule.trim else []
        if route is Via.BROKER:
            return self._by_broker(topic, trim, past)
        trimmed = self._trimmed(topic, route, trim, past)
        leaving = {one.line.ledger_id for one in trimmed}
        lines = (*trimmed, *self._offloaded(topic, route, leaving), *self._flagged(topic, leaving))
        return TopicDeletions(lines, tuple(sorted(leaving)))

    def _trim(self, topic: TopicView) -> Trim:
        has_current = keeps_its_last(topic.owner, topic.ledgers.last_end, is_terminated=topic.is_terminated)
        cursors = self._cluster.survey.cursors_of(topic.row)
        now_ms = self._situation.now_ms
        return trim_of(topic.ledgers, slowest_of(cursors), topic.rule.retention, now_ms, has_current=has_current)

    # Through a broker.

    def _by_broker(self, topic: TopicView, trim: Trim, past: list[int]) -> TopicDeletions:
        """Add a trim if the broker would delete anything by its own policies, which know nothing of the file."""
        self._say_waiting(topic, trim, _TRIM)
        lagging = self._past_lag(topic, topic.rule.brokers_lag_ms, _TRIM, topic.ids(past)) if topic.rule.trim else []
        kept = self._kept_by_file(topic, lagging if topic.rule.is_brokers_lag_told else _copies(topic))
        rows = sorted({*past, *lagging})
        # No broker deletes these.
        flagged = tuple(self._flagged(topic, frozenset(topic.ids(past))))
        if not rows:
            return TopicDeletions(flagged, ())
        if not topic.are_policies_known:
            self._refuse(_TRIM, topic, Reason(Refusal.UNKNOWN_POLICIES, _POLICIES), rows)
            return TopicDeletions(flagged, ())
        shared = [row for row in rows if self._cluster.is_shared(int(topic.ledgers.ids[row]))]
        if shared:
            which = topic.ledgers.ids[shared[0]]
            why = f"several lists name ledger {which}: a broker deletes what its own topic does not need any more"
            self._refuse(_TRIM, topic, Reason(Refusal.SHARED, why), rows)
            return TopicDeletions(flagged, topic.ids(past))
        if kept:
            lag = "for ever" if topic.rule.deletion_lag_ms < 0 else f"for {span(topic.rule.deletion_lag_ms)}"
            why = f"with a trim the broker deletes copies by its own lag, of {len(kept):,} ledgers that the policy file wants kept {lag}"
            self._refuse(_TRIM, topic, Reason(Refusal.BROKERS_LAG, why), rows)
            return TopicDeletions(flagged, topic.ids(past))
        told = [self._why_past(topic)] if past else []
        told += (
            [f"{len(lagging):,} offloaded ledgers are past the brokers' lag of {span(topic.rule.brokers_lag_ms)}"]
            if lagging
            else []
        )
        since = trim.since_ms if past else None
        self._plan.actions.append(
            Action(_TRIM, topic.name, topic.ids(rows), topic.size(rows), Via.BROKER, since, "; ".join(told), topic.rule)
        )
        return TopicDeletions(flagged, topic.ids(past))

    def _kept_by_file(self, topic: TopicView, rows: list[int]) -> list[int]:
        """Return those of some rows whose copies in BookKeeper the policy file wants kept for longer."""
        lag_ms = topic.rule.deletion_lag_ms
        if topic.rule.lag_from is not Whose.FILE:
            return []
        ages = self._situation.now_ms - topic.listed["offloaded_ms"]
        return [row for row in rows if lag_ms < 0 or int(ages[row]) <= lag_ms]

    # Past retention.

    def _trimmed(self, topic: TopicView, route: Route, trim: Trim, past: list[int]) -> list[Proposal]:
        """Return lines for what is past retention, from the oldest on up to the first ledger that must stay."""
        if not topic.rule.trim:
            return []
        self._say_waiting(topic, trim, _MARK)
        self._say_expiry(topic, trim)
        if len(past) < len(trim.going) and not topic.is_of_brokers:
            self._refuse(_MARK, topic, Reason(Refusal.GREATEST, _greatest(topic)), [len(topic.ledgers.ids) - 1])
        if not past:
            return []
        reason = self._no_trim(topic, route)
        if reason is not None:
            self._refuse(_MARK, topic, reason, past)
            return []
        lines = []
        for row in past:
            no_line = self._no_line(topic, row)
            if no_line is not None:
                # Those behind it stay, too: a topic has no holes.
                self._refuse(_MARK, topic, no_line, [one for one in past if one >= row])
                break
            lines.append(self._line(TrashKind.TRIMMED, topic, row, trim.since_ms, self._why_past(topic)))
        return lines

    def _no_trim(self, topic: TopicView, route: Route) -> Reason | None:
        """Return why nothing past retention may go directly; None if it may."""
        if not topic.are_policies_known and not topic.is_of_brokers:
            return Reason(Refusal.UNKNOWN_POLICIES, _POLICIES)
        if isinstance(route, Reason):
            return route
        if not topic.rule.is_retention_told:
            return Reason(Refusal.UNKNOWN_POLICIES, _BROKERS_RETENTION)
        if topic.ledgers.last_end is LastEnd.UNKNOWN:
            return Reason(Refusal.SILENT_BOOKIES, f"no bookie told where the last ledger, {topic.greatest}, ends")
        return self._unknown_subscription(topic)

    def _unknown_subscription(self, topic: TopicView) -> Reason | None:
        """Return which subscription of a topic is at a place that is not known; None if there is none."""
        if topic.damaged_cursors:
            which = min(topic.damaged_cursors)
            return Reason(Refusal.UNREADABLE, f"the node of subscription {which} could not be read")
        survey = self._cluster.survey
        cursors = survey.cursors_of(topic.row)
        stale = cursors[cursors["is_stale"]]
        if not stale.size:
            return None
        # A subscription may have been set back, so it is not only that it may be further.
        which = survey.cursor_names[int(stale["name"][0])]
        return Reason(Refusal.SILENT_BOOKIES, f"no bookie told where subscription {which} is")

    def _no_line(self, topic: TopicView, row: int) -> Reason | None:
        """Return why a ledger past retention must stay; None if it may go."""
        ledger_id, survey = int(topic.ledgers.ids[row]), self._cluster.survey
        if self._cluster.is_shared(ledger_id):
            return Reason(Refusal.SHARED, f"several lists name ledger {ledger_id}")
        if ledger_id in survey.damaged_ledgers:
            return Reason(Refusal.UNREADABLE, f"the node of ledger {ledger_id} could not be read")
        if topic.is_there[row] and topic.nodes["state"][row] != LedgerState.CLOSED:
            return Reason(Refusal.NOT_CLOSED, f"ledger {ledger_id} is not closed in BookKeeper: a writer may live")
        if (different := _different(topic, row)) is not None:
            return different
        if topic.uuid(row) is not None and self._cluster.places.url(int(topic.listed["driver"][row])) is None:
            return Reason(Refusal.NO_BUCKET, f"no bucket of the policy file has the objects of ledger {ledger_id}")
        return None

    def _why_past(self, topic: TopicView) -> str:
        rule = topic.rule.retention
        time = "no limit of time" if rule.time_ms < 0 else f"{span(rule.time_ms)}"
        size = "no limit of size" if rule.size < 0 else f"{human_size(rule.size)}"
        return f"every subscription has passed it, and it is past the retention of {time} and {size} ({topic.rule.retention_from})"

    def _say_waiting(self, topic: TopicView, trim: Trim, kind: ActionKind) -> None:
        row = trim.first_staying
        if trim.stays is not Stays.RETENTION or row is None or topic.is_of_brokers or not topic.rule.trim:
            return
        left = [f"{human_size(trim.bytes_left)} more are closed"] if trim.bytes_left >= 0 else []
        left += [f"{span(trim.ms_left)} have passed"] if trim.ms_left >= 0 else []
        due_ms = self._situation.now_ms + trim.ms_left if trim.ms_left >= 0 else None
        why = f"ledger {topic.ledgers.ids[row]} is past retention once {' or '.join(left)}"
        self._plan.waiting.append(Waiting(kind, topic.name, topic.ids([row]), topic.size([row]), due_ms, why))

    def _say_expiry(self, topic: TopicView, trim: Trim) -> None:
        """Say what the time to live would let go besides, where a subscription holds it back."""
        row = trim.first_staying
        if topic.owner is not Owner.NONE or trim.stays is not Stays.CURSOR or row is None:
            return
        survey, situation = self._cluster.survey, self._situation
        moved = moved_cursors(survey, topic.row, topic.ledgers, situation.file.broker.ttl_ms, situation.now_ms)
        if slowest_of(moved.cursors) != slowest_of(survey.cursors_of(topic.row)):
            ttl, ledger = span(moved.ttl_ms), f"ledger {topic.ledgers.ids[row]}"
            why = f"a subscription holds {ledger} back until a broker loads the topic, and expires what is older than {ttl}"
            self._plan.waiting.append(Waiting(_MARK, topic.name, topic.ids([row]), topic.size([row]), None, why))

    # Past the lag.

    def _offloaded(self, topic: TopicView, route: Route, leaving: set[int]) -> Iterator[Proposal]:
        """Yield lines for BookKeeper's copies that are past their lag."""
        lag_ms = topic.rule.deletion_lag_ms
        rows = self._past_lag(topic, lag_ms, _MARK, leaving)
        if not rows:
            return
        if topic.rule.lag_from is Whose.CLUSTER and not topic.are_policies_known:
            self._refuse(_MARK, topic, Reason(Refusal.UNKNOWN_POLICIES, _POLICIES), rows)
            return
        if not topic.rule.is_lag_told:
            route = Reason(Refusal.UNKNOWN_POLICIES, _BROKERS_LAG)
        if isinstance(route, Reason):
            self._refuse(_MARK, topic, route, rows)
            return
        for row in rows:
            if self._cluster.is_shared(int(topic.ledgers.ids[row])):
                why = f"several lists name ledger {topic.ledgers.ids[row]}"
                self._refuse(_MARK, topic, Reason(Refusal.SHARED, why), [row])
                continue
            ago = span(self._situation.now_ms - int(topic.listed["offloaded_ms"][row]))
            whose = topic.rule.lag_from.value
            why = f"its offload was complete {ago} ago, and BookKeeper keeps its copy for {span(lag_ms)} by {whose}"
            since_ms = int(topic.listed["offloaded_ms"][row]) + lag_ms
            yield self._line(TrashKind.OFFLOADED, topic, row, since_ms, why)

    def _past_lag(self, topic: TopicView, lag_ms: int, kind: ActionKind, leaving: Collection[int]) -> list[int]:
        """Return the rows whose copies in BookKeeper are past a lag, of ledgers that stay; add the next one that waits."""
        listed, now_ms = topic.listed, self._situation.now_ms
        is_copy = listed["is_complete"] & ~listed["is_deleted_from_bookkeeper"] & topic.is_there
        is_copy &= listed["ledger_id"] != topic.greatest
        is_copy &= ~np.isin(listed["ledger_id"], list(leaving))
        if lag_ms < 0 or topic.is_of_brokers:
            return []
        undated = np.flatnonzero(is_copy & (listed["offloaded_ms"] <= 0))
        if undated.size:
            why = "its list does not tell when its offload was complete, so nobody knows when its lag is over"
            self._refuse(kind, topic, Reason(Refusal.DIFFERENT, why), undated.tolist())
        is_copy &= listed["offloaded_ms"] > 0
        is_past = is_copy & (now_ms - listed["offloaded_ms"] > lag_ms)
        waiting = np.flatnonzero(is_copy & ~is_past)
        if waiting.size:
            first = int(waiting[np.argmin(listed["offloaded_ms"][waiting])])
            due_ms = int(listed["offloaded_ms"][first]) + lag_ms + 1
            why = (
                f"{waiting.size:,} offloaded ledgers are in BookKeeper, too, ledger {listed['ledger_id'][first]} for "
                f"{span(due_ms - now_ms)} more"
            )
            self._plan.waiting.append(Waiting(kind, topic.name, topic.ids(waiting), topic.size(waiting), due_ms, why))
        rows: list[int] = np.flatnonzero(is_past).tolist()
        return rows

    # Called deleted, and there.

    def _flagged(self, topic: TopicView, leaving: Container[int]) -> list[Proposal]:
        """Return lines for what stays, the list calls deleted in BookKeeper, and is there: no broker deletes it again."""
        listed, now_ms = topic.listed, self._situation.now_ms
        found: list[int] = np.flatnonzero(listed["is_deleted_from_bookkeeper"] & topic.is_there).tolist()
        ids = zip(found, topic.ids(found), strict=True)
        rows = [row for row, ledger_id in ids if ledger_id not in leaving]
        due_ms = topic.changed_ms + self._situation.file.orphan_grace_ms
        if not rows:
            return []
        if due_ms > now_ms:
            why = f"the list calls {len(rows):,} ledgers deleted that BookKeeper has, and changed {span(now_ms - topic.changed_ms)} ago"
            self._plan.waiting.append(Waiting(_MARK, topic.name, topic.ids(rows), topic.size(rows), due_ms, why))
            return []
        route = (
            Reason(Refusal.SYSTEM_TOPIC, _SYSTEM)
            if topic.is_of_brokers
            else direct_route(self._cluster, topic, deletes=True)
        )
        if isinstance(route, Reason):
            self._refuse(_MARK, topic, route, rows)
            return []
        lines = []
        for row in rows:
            ledger_id = int(topic.ledgers.ids[row])
            if ledger_id == topic.greatest:
                self._refuse(_MARK, topic, Reason(Refusal.GREATEST, _greatest(topic)), [row])
            elif self._cluster.is_shared(ledger_id):
                self._refuse(_MARK, topic, Reason(Refusal.SHARED, f"several lists name ledger {ledger_id}"), [row])
            elif not listed["is_complete"][row]:
                why = f"the list calls ledger {ledger_id} deleted, and its offload not complete: BookKeeper may have the only copy"
                self._refuse(_MARK, topic, Reason(Refusal.NAMED, why), [row])
            else:
                why = "the list calls it deleted in BookKeeper, and it is there; no broker deletes it again"
                lines.append(self._line(TrashKind.FLAGGED, topic, row, topic.changed_ms, why))
        return lines

    # What all have in common.

    def _line(self, kind: TrashKind, topic: TopicView, row: int, since_ms: int | None, why: str) -> Proposal:
        noted_ms = self._situation.noted_ms
        has_objects = kind is TrashKind.TRIMMED and topic.uuid(row) is not None
        line = TrashLine(
            kind,
            int(topic.ledgers.ids[row]),
            topic.name,
            topic.uuid(row) if has_objects else None,
            self._cluster.places.url(int(topic.listed["driver"][row])) if has_objects else None,
            why,
            int(topic.nodes["version"][row]) if topic.is_there[row] else -1,
            int(topic.ledgers.sizes[row]),
            noted_ms,
            noted_ms + topic.rule.trash_grace_ms,
            TrashState.MARKED,
        )
        return Proposal(line, since_ms)

    def _refuse(self, kind: ActionKind, topic: TopicView, reason: Reason, rows: list[int]) -> None:
        self._plan.refuse(kind, topic.name, reason, topic.ids(rows), topic.size(rows))


def _copies(topic: TopicView) -> list[int]:
    """Return the rows of all copies in BookKeeper of what is offloaded: any of them, where nobody has told the lag of brokers."""
    listed = topic.listed
    is_copy = listed["is_complete"] & ~listed["is_deleted_from_bookkeeper"] & topic.is_there
    rows: list[int] = np.flatnonzero(is_copy & (listed["ledger_id"] != topic.greatest)).tolist()
    return rows


_POLICIES = "policies of its namespace, or of single topics there, could not be read, or are not in this ZooKeeper: others may hold"
_BROKERS_RETENTION = (
    "its retention is that of the brokers' configuration, which nobody but you knows: "
    "retention_minutes and retention_megabytes of [broker]"
)
_BROKERS_LAG = "the lag is that of the brokers' configuration, which nobody but you knows: deletion_lag of [broker]"
_SYSTEM = "it is a topic of the brokers' own"


def _different(topic: TopicView, row: int) -> Reason | None:
    """Return what BookKeeper tells of a ledger that its list does not: subscriptions and readers go by the one or by the other.

    The list of an offload tells the bytes of its objects, and one that calls BookKeeper's copy deleted tells of the objects alone.
    """
    listed, node = topic.listed[row], topic.nodes[row]
    if not topic.is_there[row] or (listed["is_complete"] and listed["is_deleted_from_bookkeeper"]):
        return None
    entries, has_other_bytes = int(node["last_entry"]) + 1, bool(node["length"] != listed["size"])
    if entries == listed["entries"] and (listed["is_complete"] or not has_other_bytes):
        return None
    why = (
        f"ledger {node['ledger_id']} is listed with {int(listed['entries']):,} entries of {int(listed['size']):,} bytes, and closed in "
        f"BookKeeper with {entries:,} of {int(node['length']):,}: nobody may have read the rest"
    )
    return Reason(Refusal.DIFFERENT, why)


def _greatest(topic: TopicView) -> str:
    return f"ledger {topic.greatest} has the greatest id of the list: a broker that loads the topic makes its line anew"
