"""Lines of the trash journal: those that are to be written, those that are due, and those that do not hold any more.

A line in `TrashState.MARKED` only says what was so: it is due only if the same is planned again, with the same version of the ledger's
node. One that is not planned any more is dropped. Of one that is past that its list has been changed already, and the deletion goes on.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.ownership import is_in, named_ledgers
from ledgerfs.display import human_size, span
from ledgerfs.errors import CorruptMetadataError
from ledgerfs.formats.array_types import Int64
from ledgerfs.lifecycle.journal.trash_line import TRASH, TrashKind, TrashLine, TrashState, parse_trash_node_name
from ledgerfs.lifecycle.planning.actions import Action, ActionKind, Plan, Reason, Refusal, Refused, Waiting
from ledgerfs.lifecycle.planning.deletions import Proposal
from ledgerfs.lifecycle.planning.situation import Situation
from ledgerfs.lifecycle.planning.topic_views import ClusterView
from ledgerfs.lifecycle.policy.policy_file import Via

_DELETE, _MARK, _CLEAN = ActionKind.DELETE, ActionKind.MARK, ActionKind.CLEAN
_OF_ORPHANS = frozenset({TrashKind.ORPHAN, TrashKind.OBJECTS})
_TELLS = frozenset({Refusal.GREATEST, Refusal.LOST_LIST})
"""By these it is known that nothing of it is deleted: what was marked is not any more."""
_Key = tuple[TrashKind, int, str | None]
_About = tuple[int, str | None]


class TrashPlanner:
    """Compares what is to be deleted with the lines that are there.

    Parameters
    ----------
    plan
        Gets what follows; has all refusals of topics already.
    wanted
        The lines that would be written now if there were none.

    """

    __slots__ = ("_cluster", "_flagged", "_listed", "_named", "_plan", "_refused", "_rows", "_situation", "_wanted")

    def __init__(self, plan: Plan, cluster: ClusterView, situation: Situation, wanted: Iterable[Proposal]) -> None:
        self._plan = plan
        self._cluster = cluster
        self._situation = situation
        self._wanted = {_key(one.line): one for one in wanted}
        self._rows = {name: row for row, name in enumerate(cluster.survey.topics)}
        listed = cluster.survey.listed
        self._named: Int64 = named_ledgers(cluster.survey)
        self._listed: Int64 = np.unique(listed["ledger_id"])
        self._flagged: Int64 = np.unique(listed["ledger_id"][listed["is_deleted_from_bookkeeper"]])
        self._refused = {
            (one.subject, ledger_id): one
            for one in plan.refused
            if one.kind in {_MARK, ActionKind.TRIM} and one.refusal not in _TELLS
            for ledger_id in one.ledger_ids
        }

    def add(self) -> None:
        """Add what lines there are to be, what becomes of those that are there, and what waits."""
        due: list[TrashLine] = []
        dropped: list[tuple[TrashLine, str]] = []
        kept: set[_About] = set()
        watched: set[_Key] = set()
        for line in self._situation.notes.lines:
            if not self._situation.is_wanted(line.managed_ledger):
                kept.add(_about(line))
                continue
            match line.state:
                case TrashState.DELETED:
                    why = self._why_closed(line)
                    if why is None:
                        watched.add(_key(line))
                    else:
                        dropped.append((line, why))
                case TrashState.UNLISTED:
                    kept.add(_about(line))
                    due += self._going_on(line)
                case TrashState.MARKED:
                    why = self._why_dropped(line)
                    if why is not None:
                        dropped.append((line, why))
                        continue
                    kept.add(_about(line))
                    due += self._if_due(line)
        self._delete(self._without_holes(due))
        self._drop(dropped)
        # A line that is dropped, or watched, has the node that its successor will have.
        going = watched | {_key(line) for line, _ in dropped}
        wanted = [one for key, one in self._wanted.items() if _about(one.line) not in kept and key not in going]
        self._mark(self._without_damaged(wanted))

    def _going_on(self, line: TrashLine) -> Iterator[TrashLine]:
        """Yield a line whose list was changed already, unless a list or a node says otherwise."""
        is_unlisted = not _has(self._named, line.ledger_id)
        if line.kind is TrashKind.OBJECTS:
            is_unlisted = line.uuid is not None and not self._cluster.names_offload(line.ledger_id, line.uuid)
        elif line.kind in {TrashKind.OFFLOADED, TrashKind.FLAGGED}:
            is_unlisted = not _has(self._listed, line.ledger_id) or _has(self._flagged, line.ledger_id)
        if line.managed_ledger in self._cluster.damaged_lists:
            self._refuse(line, Reason(Refusal.UNREADABLE, "the list of its topic could not be read"))
        elif self._cluster.is_greatest(line.ledger_id) and line.kind is not TrashKind.OBJECTS:
            why = f"the deletion of ledger {line.ledger_id} began, and it has the greatest id of a list now"
            self._refuse(line, Reason(Refusal.GREATEST, why))
        elif not is_unlisted:
            why = f"the deletion of ledger {line.ledger_id} began, and a list names it as if it had not"
            self._refuse(line, Reason(Refusal.NAMED, why))
        else:
            yield line

    def _why_closed(self, line: TrashLine) -> str | None:
        """Return why a line in `TrashState.DELETED` is closed; None, and that it waits, while a broker may come that has the old list."""
        until_ms = line.watched_until_ms
        owner = self._cluster.survey.owners.of(line.managed_ledger or "") if until_ms else Owner.NONE
        if owner is not Owner.NONE:
            who = "a broker has the topic now, and" if owner is Owner.SOME else "a broker that may have the topic"
            return f"all of it is deleted; {who} has to let it go if it has the list as it was before"
        if self._situation.now_ms >= until_ms:
            return "all of it is deleted"
        why = "it is deleted, and looked whether a broker comes that has the list of its topic as it was before"
        self._plan.waiting.append(Waiting(_CLEAN, line.managed_ledger, (line.ledger_id,), 0, until_ms, why))
        return None

    def _why_dropped(self, line: TrashLine) -> str | None:
        """Return why a line in `TrashState.MARKED` does not hold any more; None if it does, or if that is not known."""
        wanted = self._wanted.get(_key(line))
        if wanted is not None:
            now, marked = ((one.version, one.managed_ledger, one.size, one.bucket) for one in (wanted.line, line))
            return None if now == marked else f"ledger {line.ledger_id} is not as it was marked"
        if self._is_unknown(line):
            return None
        if line.kind in _OF_ORPHANS:
            return "it is no orphan any more, or the policy file does not want orphans deleted"
        if line.managed_ledger is not None and self._cluster.survey.owners.of(line.managed_ledger) is Owner.SOME:
            return "a broker owns the topic's bundle by now: this is the broker's own work"
        if not _has(self._listed, line.ledger_id):
            return "no list names the ledger any more"
        return f"what it was marked for does not hold any more: {line.why}"

    def _is_unknown(self, line: TrashLine) -> bool:
        """Whether it cannot be told now if a line still holds."""
        is_looked_for = line.kind not in _OF_ORPHANS or self._situation.orphans is not None
        is_readable = line.managed_ledger not in self._cluster.damaged_lists
        is_looked_for &= self._why_unlisted(line) is None
        return not is_looked_for or not is_readable or self._refusal_of(line) is not None

    def _why_unlisted(self, line: TrashLine) -> str | None:
        """Return why nobody could look for the objects of a line; None if somebody has, or nobody was to."""
        orphans = self._situation.orphans
        return None if orphans is None or line.kind is not TrashKind.OBJECTS else orphans.why_unlisted(line.bucket)

    def _refusal_of(self, line: TrashLine) -> Refused | None:
        subject = line.managed_ledger if line.managed_ledger is not None else f"ledger {line.ledger_id}"
        return self._refused.get((subject, line.ledger_id))

    def _if_due(self, line: TrashLine) -> Iterator[TrashLine]:
        """Yield a line that holds, if its grace is over; else add that it waits, or that it is not known whether it holds."""
        now_ms = self._situation.now_ms
        if _key(line) not in self._wanted:
            told = self._refusal_of(line)
            if line.managed_ledger in self._cluster.damaged_lists:
                self._refuse(line, Reason(Refusal.UNREADABLE, "the list of its topic could not be read"))
            elif told is not None:
                self._refuse(line, Reason(told.refusal, told.why))
            elif (unlisted := self._why_unlisted(line)) is not None:
                why = f"it is not known whether it is an orphan still: its bucket could not be looked into: {unlisted}"
                self._refuse(line, Reason(Refusal.UNREADABLE, why))
            else:
                self._wait(line, None, "it is not known whether it is an orphan still: nobody has looked for orphans")
        elif now_ms < (due_ms := self._due_ms(line)):
            ago = span(max(0, now_ms - line.marked_ms))
            self._wait(line, due_ms, f"{line.why}; it was marked {ago} ago, and may be taken back")
        else:
            yield line

    def _due_ms(self, line: TrashLine) -> int:
        """Return when a line that holds is due, by the longer one of two graces: that when it was marked, and that of now."""
        now = self._wanted[_key(line)].line
        return max(line.due_ms, line.marked_ms + now.due_ms - now.marked_ms)

    def _without_holes(self, due: Sequence[TrashLine]) -> Iterator[TrashLine]:
        """Yield lines without those of ledgers past retention that have an older one which stays: these wait.

        Brokers trim from the oldest ledger on. By that readers and exports know whether they missed any.
        """
        going: dict[str, set[int]] = {}
        for line in due:
            if line.kind is TrashKind.TRIMMED and line.state is TrashState.MARKED and line.managed_ledger is not None:
                going.setdefault(line.managed_ledger, set()).add(line.ledger_id)
        stays = {name: self._oldest_that_stays(name, ids) for name, ids in going.items()}
        for line in due:
            older = stays.get(line.managed_ledger or "")
            is_trimmed = line.kind is TrashKind.TRIMMED and line.state is TrashState.MARKED
            if is_trimmed and older is not None and older < line.ledger_id:
                self._wait(line, None, f"ledger {older}, which is older, is not due: a topic gets no holes")
            else:
                yield line

    def _oldest_that_stays(self, managed_ledger: str, going: Container[int]) -> int | None:
        """Return the first ledger with entries of a topic's list that does not go; None without a list."""
        survey = self._cluster.survey
        row = self._rows.get(managed_ledger)
        ledgers = None if row is None else survey.ledgers_of(row)
        if ledgers is None:
            return None
        return next((one for one in ledgers.ids[ledgers.entries > 0].tolist() if one not in going), None)

    def _without_damaged(self, proposals: Iterable[Proposal]) -> Iterator[Proposal]:
        """Yield lines of what no damaged line is about, by the name of its node; of others it is said that they are not written."""
        damaged = dict(_damaged_lines(self._situation.notes.unreadable))
        for one in proposals:
            name = damaged.get(_about(one.line))
            if name is None:
                yield one
                continue
            why = (
                f"the trash journal has a line of ledger {one.line.ledger_id} that cannot be read: "
                f"`ledgerfs lifecycle undo` drops it by its name, {name}"
            )
            subject = one.line.managed_ledger or f"ledger {one.line.ledger_id}"
            reason = Reason(Refusal.UNREADABLE, why)
            self._plan.refuse(_MARK, subject, reason, (one.line.ledger_id,), one.line.size)

    def _mark(self, proposals: Iterable[Proposal]) -> None:
        for some in _grouped(one.line for one in proposals):
            since = [self._wanted[_key(line)].since_ms for line in some]
            since_ms = min((one for one in since if one is not None), default=None)
            first, size = some[0], sum(line.size for line in some)
            grace = span(first.due_ms - first.marked_ms)
            why = (
                f"{_count(some)}, {human_size(size)}, of kind {first.kind.value}, to be deleted in {grace}: {first.why}"
            )
            self._plan.actions.append(self._action(_MARK, some, since_ms, why))

    def _delete(self, lines: Iterable[TrashLine]) -> None:
        for some in _grouped(lines):
            first, since_ms = some[0], min(line.due_ms for line in some)
            if first.state is TrashState.UNLISTED:
                why = f"{_count(some)}, whose deletion began and did not end: {first.why}"
            else:
                ago = span(self._situation.now_ms - since_ms)
                why = f"{_count(some)}, whose grace is over since {ago}: {first.why}"
            self._plan.actions.append(self._action(_DELETE, some, since_ms, why))

    def _drop(self, lines: Sequence[tuple[TrashLine, str]]) -> None:
        for line, why in lines:
            said = f"the trash line of ledger {line.ledger_id} is dropped, and nothing is deleted: {why}"
            self._plan.actions.append(self._action(_CLEAN, [line], line.marked_ms, said))

    def _action(self, kind: ActionKind, lines: Sequence[TrashLine], since_ms: int | None, why: str) -> Action:
        ids = tuple(line.ledger_id for line in lines)
        size = 0 if kind is _CLEAN else sum(line.size for line in lines)
        return Action(kind, lines[0].managed_ledger, ids, size, Via.DIRECT, since_ms, why, lines=tuple(lines))

    def _wait(self, line: TrashLine, due_ms: int | None, why: str) -> None:
        self._plan.waiting.append(Waiting(_DELETE, line.managed_ledger, (line.ledger_id,), line.size, due_ms, why))

    def _refuse(self, line: TrashLine, reason: Reason) -> None:
        subject = line.managed_ledger or f"ledger {line.ledger_id}"
        self._plan.refuse(_DELETE, subject, reason, (line.ledger_id,), line.size)


def _key(line: TrashLine) -> _Key:
    return line.kind, line.ledger_id, line.uuid


def _about(line: TrashLine) -> _About:
    """Return what a line is about: one ledger has one line, and so has one offload without a ledger."""
    return line.ledger_id, line.uuid if line.kind is TrashKind.OBJECTS else None


def _damaged_lines(unreadable: Iterable[str]) -> Iterator[tuple[_About, str]]:
    """Yield what the lines are about that could not be read, by the names of their nodes, and these names."""
    for path in unreadable:
        folder, _, name = path.rpartition("/")
        if folder != TRASH:
            continue
        try:
            kind, ledger_id, uuid = parse_trash_node_name(name)
        except CorruptMetadataError:
            # No line of ours is ever written there.
            continue
        yield (ledger_id, uuid if kind is TrashKind.OBJECTS else None), name


def _grouped(lines: Iterable[TrashLine]) -> Iterator[list[TrashLine]]:
    """Yield the lines of each topic, kind and state, by ascending ids."""

    def of(line: TrashLine) -> tuple[Any, ...]:
        return line.managed_ledger or "", line.kind.value, line.state.value

    order: Callable[[TrashLine], tuple[Any, ...]] = lambda line: (*of(line), line.ledger_id)  # noqa: E731
    for _, some in groupby(sorted(lines, key=order), key=of):
        yield list(some)


def _count(lines: Sequence[TrashLine]) -> str:
    return f"ledger {lines[0].ledger_id}" if len(lines) == 1 else f"{len(lines):,} ledgers"


def _has(ids: Int64, ledger_id: int) -> bool:
    return bool(is_in(np.array([ledger_id], np.int64), ids)[0])
