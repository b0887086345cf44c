"""The service: pass after pass it looks at the cluster, plans, and does what is planned.

All that changes a cluster is done under its lock. Whoever has lost it ends: the next service, or this one started again, goes on from what
is noted in the cluster.
"""

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.errors import LedgerfsError, StoppedError
from ledgerfs.lifecycle.acting.carrying_out import CarryingOut, Seen
from ledgerfs.lifecycle.journal.trash_line import TrashKind, TrashLine, TrashState
from ledgerfs.lifecycle.planning.actions import Action, ActionKind, Plan, Refusal
from ledgerfs.lifecycle.planning.planning import plan_of
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.lifecycle.service.status import Status, write_status

if TYPE_CHECKING:
    from ledgerfs.clusters.surveying import Progress
    from ledgerfs.lifecycle.acting.outcomes import Done
    from ledgerfs.lifecycle.service.background import BackgroundOffloads
    from ledgerfs.lifecycle.service.broker_work import BrokerWork
    from ledgerfs.lifecycle.service.events import Events
    from ledgerfs.lifecycle.service.looking import Looked, Looking
    from ledgerfs.lifecycle.service.rates import Rates
    from ledgerfs.lifecycle.service.stopping import Stopping
    from ledgerfs.storage.zookeeper.changes import ClusterLock
    from ledgerfs.storage.zookeeper.cluster_clock import ClusterClock

_STEP_S = 1.0
_DELETIONS = 1
_ORDER = {ActionKind.CLEAN: 0, ActionKind.DELETE: _DELETIONS}
_SLICE_S = 0.25
"""After how long who waits looks whether it is to end: a signal ends no sleep."""
_DELETIONS_S = 60.0
"""How long deletions, which read much, have turns in one pass: then the cluster is looked at again, for what else is due."""
_MOST_UNREAD = 20
_TRIES = 5
"""How often it is tried to complete what is copied before the service ends."""
_DONE = {
    ActionKind.MARK: "marked",
    ActionKind.DELETE: "deleted",
    ActionKind.TRIM: "trimmed",
    ActionKind.CLEAN: "cleaned",
    ActionKind.OFFLOAD: "offloaded",
}


@dataclass(frozen=True, slots=True)
class Parts:
    """What a service is made of.

    Attributes
    ----------
    looking, hands
        How it looks, and what carries actions out.
    background, by_brokers
        Offloads by this program, and by brokers; None if no broker can be asked.
    stopping
        Told once the service is to end; all else asks it.
    on_status
        Is told the status after each pass.

    """

    lock: "ClusterLock"
    looking: "Looking"
    hands: CarryingOut
    background: "BackgroundOffloads"
    by_brokers: "BrokerWork | None"
    rates: "Rates"
    clock: "ClusterClock"
    events: "Events"
    stopping: "Stopping"
    on_status: Callable[[Status], None]


class Service:
    """For one thread; `stop` is for any, and for handlers of signals."""

    __slots__ = ("_began_ms", "_had_turn", "_parts", "_passes", "_refused", "_stopping")

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stopping = parts.stopping
        self._began_ms = parts.clock.now_ms()
        self._passes = 0
        # {topic: when its deletions had their last turn}
        self._had_turn: dict[str | None, float] = {}
        self._refused: Counter[Refusal] = Counter()

    def stop(self) -> None:
        """Have it end soon, with nothing half done, and nothing begun any more."""
        self._stopping.set()

    def run(self, progress: "Progress", *, once: bool = False) -> None:
        """Make passes until it is stopped; ``once``: one, and wait for the offloads that it began.

        Raises `LockLostError`, after which nothing more is done. What ZooKeeper and stores refuse is noted, and tried again with the next
        pass, but with ``once`` it is raised.
        """
        try:
            while not self._stopping.is_set():
                self._pass_or_trouble(progress, once=once)
                if once:
                    self._finish()
                    return
                self._until_next_pass()
        finally:
            self._stopping.set()
            self._parts.background.stop()
            if not self._parts.lock.is_lost:
                self._complete_or_give_up()

    @property
    def refused(self) -> Mapping[Refusal, int]:
        """How much must not be done, by why, in the last plan."""
        return self._refused

    @property
    def has_given_up(self) -> bool:
        """Whether ledgers that were copied could not be completed before it ended."""
        return self._parts.background.has_given_up

    # Passes.

    def _pass_or_trouble(self, progress: "Progress", *, once: bool) -> None:
        try:
            self._pass(progress, once=once)
        except LedgerfsError as error:
            has_stopped = isinstance(error, StoppedError)
            if self._parts.lock.is_lost or (once and not has_stopped):
                raise
            if not has_stopped:
                self._parts.events.trouble(f"this pass ended early: {error}")

    def _pass(self, progress: "Progress", *, once: bool) -> None:
        parts = self._parts
        # A service that has lost its lock is not to find that out by its first deletion.
        parts.lock.commit([])
        looked = parts.looking.look(self._until_stopped(progress))
        self._require_going()
        now_ms, noted_ms = parts.clock.now_ms(), parts.clock.later_ms()
        has_admin = parts.by_brokers is not None
        situation = looked.situation(parts.looking.file, now_ms, noted_ms, has_admin=has_admin)
        plan = plan_of(looked.survey, situation)
        self._refused = Counter(one.refusal for one in plan.refused)
        self._tell_unread(looked, plan)
        direct = [one for one in plan.actions if _is_direct_offload(one)]
        parts.rates.follow(direct, now_ms)
        parts.background.replace(direct, _sizes(looked, direct))
        seen = Seen.of(looked.survey, looked.journal, now_ms, noted_ms)
        quick = [part for one in plan.actions if (part := _part(one, reads=False)) is not None]
        for action in sorted(quick, key=_place):
            self._require_going()
            if _place(action) > _DELETIONS:
                # A set of ours, too, is a change of a list by which deletions were decided.
                self._complete()
            if _is_direct_offload(action):
                continue
            if action.via is Via.BROKER and action.kind in {ActionKind.OFFLOAD, ActionKind.TRIM}:
                if parts.by_brokers is not None:
                    parts.by_brokers.begin(action)
                continue
            self._tell(action, parts.hands.carry_out(action, seen))
        reading = [part for one in plan.actions if (part := _part(one, reads=True)) is not None]
        self._take_turns(reading, seen, once=once)
        self._require_going()
        self._passes += 1
        self._write_status(looked, plan, direct)

    def _take_turns(self, actions: list[Action], seen: Seen, *, once: bool) -> None:
        """Have deletions that read much take turns, those first that had theirs longest ago; ``once``: until nothing of them is left.

        Otherwise the next pass goes on with what is left after a time: nothing else of the cluster is to wait for it.
        """
        names = {one.managed_ledger for one in actions}
        self._had_turn = {name: when for name, when in self._had_turn.items() if name in names}
        left = deque(sorted(actions, key=lambda one: self._had_turn.get(one.managed_ledger, -math.inf)))
        until = math.inf if once else time.monotonic() + _DELETIONS_S
        while left:
            self._require_going()
            self._complete()
            action = left.popleft()
            done = self._parts.hands.carry_out(action, seen)
            self._had_turn[action.managed_ledger] = time.monotonic()
            self._tell(action, done)
            rest = _only(action, done.later)
            if rest is not None:
                left.append(rest)
            if time.monotonic() >= until:
                return

    def _require_going(self) -> None:
        if self._stopping.is_set():
            raise StoppedError("the service is ending")

    def _until_stopped(self, progress: "Progress") -> "Progress":
        """Return what is told of a look, and ends it once the service is to end: it only reads, and may take minutes."""

        def update(what: str, done: int, total: int | None) -> None:
            self._require_going()
            progress(what, done, total)

        return update

    def _until_next_pass(self) -> None:
        until = time.monotonic() + self._parts.looking.file.service.every_ms / 1000
        while not self._stopping.is_set() and time.monotonic() < until:
            self._complete()
            time.sleep(min(_SLICE_S, max(0.0, until - time.monotonic())))

    def _finish(self) -> None:
        """Wait until all that was begun is done, or it is stopped."""
        parts = self._parts
        while not self._stopping.is_set():
            self._complete(everything=parts.background.has_begun_all)
            if parts.background.has_begun_all and (parts.by_brokers is None or parts.by_brokers.is_idle):
                self._complete_or_give_up()
                return
            parts.background.wait(_STEP_S)

    def _complete(self, *, everything: bool = False) -> None:
        try:
            self._parts.background.complete(everything=everything)
        except LedgerfsError as error:
            if self._parts.lock.is_lost:
                raise
            self._parts.events.trouble(f"copied ledgers are completed later: {error}")

    def _complete_or_give_up(self) -> None:
        """Complete all that is copied, in a bounded number of tries: what cannot be completed must not keep the service from its end."""
        background = self._parts.background
        for left in reversed(range(_TRIES)):
            self._complete(everything=True)
            if background.is_idle:
                return
            if left:
                time.sleep(_STEP_S)
        background.give_up()

    # Telling.

    def _tell_unread(self, looked: "Looked", plan: Plan) -> None:
        """Tell what could not be read: work that may be due there is not done."""
        unread = [f"{one.subject}: {one.why}" for one in plan.refused if one.refusal is Refusal.UNREADABLE]
        unread += [f"owners not known: {one}" for one in looked.survey.owners.not_told]
        # A node of which much is refused is told once.
        told = list(dict.fromkeys(unread))
        for text in told[:_MOST_UNREAD]:
            self._parts.events.trouble(text)
        if len(told) > _MOST_UNREAD:
            self._parts.events.trouble(f"{len(told) - _MOST_UNREAD:,} more could not be read")

    def _tell(self, action: Action, done: "Done") -> None:
        events = self._parts.events
        events.did(_DONE[action.kind], action.managed_ledger, done.ledger_ids, done.size or action.size)
        for ledger_id, why in done.postponed.items():
            events.trouble(f"{action.kind.value} {action.managed_ledger or ''}, ledger {ledger_id}: not now: {why}")
        for remark in done.remarks:
            events.trouble(remark)

    def _write_status(self, looked: "Looked", plan: Plan, direct: list[Action]) -> None:
        parts = self._parts
        due = [one.since_ms for one in direct if one.since_ms is not None]
        status = Status(
            self._began_ms,
            parts.clock.now_ms(),
            self._passes,
            sum(len(one.ledger_ids) for one in direct),
            sum(one.size for one in direct),
            min(due, default=0),
            parts.rates.rate,
            parts.events.counts(),
            dict(Counter(one.kind.value for one in plan.waiting)),
            dict(Counter(one.refusal.value for one in plan.refused)),
            {state.value: sum(one.state is state for one in looked.journal.lines) for state in TrashState},
            parts.events.troubles(),
        )
        # What tells of the work never ends it, so neither of the two: the disk of the gauges may be full, the node not ours to set.
        self._told("the status is not written", lambda: self._put_status(status))
        self._told("the gauges are not written", lambda: parts.on_status(status))

    def _put_status(self, status: Status) -> None:
        parts = self._parts
        sent_ns = time.monotonic_ns()
        written_ms = write_status(parts.lock, status)
        if written_ms is not None:
            parts.clock.compare(written_ms, sent_ns)

    def _told(self, failure: str, tell: Callable[[], None]) -> None:
        """Tell something; an error is a trouble, unless nothing can be done any more."""
        try:
            tell()
        except LedgerfsError as error:
            if self._parts.lock.is_lost:
                raise
            self._parts.events.trouble(f"{failure}: {error}")


def _sizes(looked: "Looked", due: list[Action]) -> dict[int, int]:
    """Return {ledger: its bytes} of what is due."""
    ids = np.array(sorted({one for action in due for one in action.ledger_ids}), np.int64)
    listed = looked.survey.listed
    rows = listed[np.isin(listed["ledger_id"], ids)]
    return dict(zip(rows["ledger_id"].tolist(), rows["size"].tolist(), strict=True))


def _place(action: Action) -> int:
    """Return where in its pass an action comes: a line that does not hold any more goes before another one of the same ledger comes."""
    return _ORDER.get(action.kind, _DELETIONS + 1)


def _part(action: Action, *, reads: bool) -> Action | None:
    """Return the part of an action for which ledgers are read, or more than one topic's nodes, or the other part; None if it has none."""
    if action.kind is not ActionKind.DELETE:
        return None if reads else action
    return _with_lines(action, [one for one in action.lines if (one.kind is not TrashKind.TRIMMED) is reads])


def _only(action: Action, ledger_ids: list[int]) -> Action | None:
    """Return what is left of an action with lines: those of some ledgers."""
    return _with_lines(action, [one for one in action.lines if one.ledger_id in set(ledger_ids)])


def _with_lines(action: Action, lines: list[TrashLine]) -> Action | None:
    ids = tuple(one.ledger_id for one in lines)
    return replace(action, lines=tuple(lines), ledger_ids=ids, size=sum(one.size for one in lines)) if lines else None


def _is_direct_offload(action: Action) -> bool:
    return action.kind is ActionKind.OFFLOAD and action.via is Via.DIRECT
