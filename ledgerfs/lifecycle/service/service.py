"""The service: pass after pass it looks at the cluster, plans, and does what is planned.

All that changes a cluster is done under its lock. Whoever has lost it ends: the next service, or this one started again, goes on from what
is noted in the cluster.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ledgerfs.errors import LedgerfsError, PolicyChangedError, StoppedError
from ledgerfs.lifecycle.planning.actions import Action, ActionKind, Plan, Refusal, Situation
from ledgerfs.lifecycle.planning.planning import plan_of
from ledgerfs.lifecycle.policy.policy_file import Via
from ledgerfs.lifecycle.service.status import Status, read_status, write_status
from ledgerfs.offload.journal import Journal, RecordKind, read_journal
from ledgerfs.offload.outcomes import failed

if TYPE_CHECKING:
    from ledgerfs.clusters.surveying import Progress
    from ledgerfs.lifecycle.acting.acting import Acting
    from ledgerfs.lifecycle.service.background import BackgroundOffloads
    from ledgerfs.lifecycle.service.broker_work import BrokerWork
    from ledgerfs.lifecycle.service.events import Events
    from ledgerfs.lifecycle.service.looking import Looked, Looking
    from ledgerfs.lifecycle.service.rates import Rates, Stopping
    from ledgerfs.storage.zookeeper.changes import ClusterLock
    from ledgerfs.storage.zookeeper.cluster_clock import ClusterClock

_STEP_S = 1.0
_ORDER = (ActionKind.CLEAN, ActionKind.DELETE, ActionKind.OFFLOAD, ActionKind.TRIM, ActionKind.MARK)
"""A record that does not hold any more goes before another one comes. Brokers that are asked change lists that deletions go by."""
_SLICE_S = 0.25
"""After how long who waits looks whether it is to end: a signal ends no sleep."""
_MOST_UNREAD = 20
_TRIES = 5
"""How often it is tried to complete what is copied before the service ends."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a service is made of.

    Attributes
    ----------
    looking, acting
        How it looks, and what carries actions out.
    background, by_brokers
        Offloads by this program, and by brokers; None if no broker can be asked.
    stopping
        Told once the service is to end; all else asks it.
    on_status
        Is told the status after each pass.
    why_other_policy
        Returns why the policy is not the one that was read any more; None if it is.

    """

    lock: "ClusterLock"
    looking: "Looking"
    acting: "Acting"
    background: "BackgroundOffloads"
    by_brokers: "BrokerWork | None"
    rates: "Rates"
    clock: "ClusterClock"
    events: "Events"
    stopping: "Stopping"
    on_status: Callable[[Status], None]
    why_other_policy: Callable[[], str | None] = lambda: None


class Service:
    """For one thread; `stop` is for any, and for handlers of signals."""

    __slots__ = (
        "_began_ms",
        "_by_brokers_then",
        "_other_policy",
        "_parts",
        "_passes",
        "_refused",
        "_stopping",
        "_written",
    )

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stopping = parts.stopping
        self._began_ms = parts.clock.now_ms()
        self._passes = 0
        self._refused: Counter[str] = Counter()
        self._written: Status | None = None
        self._by_brokers_then = 0, 0
        self._other_policy: str | None = None

    def stop(self) -> None:
        """Have it end soon, with nothing half done, and nothing begun any more."""
        self._stopping.set()

    def run(self, progress: "Progress", *, once: bool = False) -> None:
        """Make passes until it is stopped; ``once``: one, and wait for the offloads that it began.

        Raises `LockLostError`, after which nothing more is done, and `PolicyChangedError`. What ZooKeeper and stores refuse is noted, and
        tried again with the next pass, but with ``once`` it is raised.
        """
        try:
            while not self._stopping.is_set():
                self._pass_or_trouble(progress, once=once)
                if once:
                    self._finish()
                    break
                self._until_next_pass()
        finally:
            self._stopping.set()
            self._parts.background.stop()
            if not self._parts.lock.is_lost:
                self._complete_or_give_up()
                self._write_end()
        if self._other_policy is not None:
            raise PolicyChangedError(self._other_policy)

    @property
    def refused(self) -> Mapping[str, int]:
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
            if self._parts.lock.is_lost:
                raise
            if not has_stopped:
                code = f"pass {type(error).__name__}"
                self._parts.events.note(failed(code, error.key or "", f"this pass ended early: {error}", error))
                self._write_failure()
            if once and not has_stopped:
                raise

    def _pass(self, progress: "Progress", *, once: bool) -> None:
        parts = self._parts
        # A service that has lost its lock is not to find that out by its first deletion.
        parts.lock.commit([])
        looked = parts.looking.look(self._until_stopped(progress))
        self._require_same_policy()
        now_ms, noted_ms = parts.clock.now_ms(), parts.clock.later_ms()
        has_admin = parts.by_brokers is not None
        situation = Situation(parts.looking.file, now_ms, noted_ms, has_admin, looked.journal, looked.orphans)
        plan = plan_of(looked.survey, situation)
        self._refused = Counter(one.code for one in plan.refused)
        self._tell_unread(looked, plan)
        direct = [one for one in plan.actions if _is_direct_offload(one)]
        if once:
            parts.rates.take_all()
        else:
            parts.rates.follow(direct)
        parts.background.replace(direct, _sizes(looked, direct))
        for action in sorted(plan.actions, key=lambda one: _ORDER.index(one.kind)):
            self._require_same_policy()
            self._complete()
            if _is_direct_offload(action):
                continue
            if action.kind in {ActionKind.OFFLOAD, ActionKind.TRIM}:
                if parts.by_brokers is not None:
                    parts.by_brokers.begin(action)
                continue
            for one in parts.acting.carry_out(action, looked.survey, situation):
                parts.events.note(one)
        self._require_same_policy()
        self._passes += 1
        self._write_status(looked, plan, direct)

    def _require_same_policy(self) -> None:
        """Raise `StoppedError` if the service is to end, also by another policy file: what that keeps must not be deleted."""
        self._look_at_policy()
        self._require_going()

    def _look_at_policy(self) -> None:
        if not self._stopping.is_set():
            self._other_policy = self._parts.why_other_policy()
            if self._other_policy is not None:
                self._stopping.set()

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
            self._look_at_policy()
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
            text = f"copied ledgers are completed later: {error}"
            self._parts.events.note(failed(f"complete {type(error).__name__}", "", text, error))

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
        unread = [
            failed("unreadable", one.subject, f"{one.subject}: {one.message}")
            for one in plan.refused
            if one.code == Refusal.UNREADABLE.value
        ]
        unread += [failed("unknown-owner", one, f"owners not known: {one}") for one in looked.survey.owners.not_told]
        # A node of which much is refused is told once.
        told = list(dict.fromkeys(unread))
        for one in told[:_MOST_UNREAD]:
            self._parts.events.note(one)
        if len(told) > _MOST_UNREAD:
            text = f"{len(told) - _MOST_UNREAD:,} more could not be read"
            self._parts.events.note(failed("more-unreadable", "", text))

    def _write_status(self, looked: "Looked", plan: Plan, direct: list[Action]) -> None:
        parts = self._parts
        by_brokers = [one for one in plan.actions if one.kind is ActionKind.OFFLOAD and one.via is Via.BROKER]
        status = Status(
            self._began_ms,
            parts.clock.now_ms(),
            self._passes,
            sum(len(one.ledger_ids) for one in direct),
            sum(one.size for one in direct),
            _oldest(direct),
            parts.rates.rate,
            parts.events.counts(),
            dict(Counter(one.action for one in plan.waiting)),
            dict(self._refused),
            _kinds(looked.journal),
            parts.events.troubles(),
            broker_backlog_ledgers=sum(len(one.ledger_ids) for one in by_brokers),
            broker_backlog_bytes=sum(one.size for one in by_brokers),
            broker_oldest_due_ms=_oldest(by_brokers),
            by_brokers={} if parts.by_brokers is None else parts.by_brokers.counts(),
            brokers_waiting_since_ms=0 if parts.by_brokers is None else parts.by_brokers.waiting_since_ms(),
        )
        self._publish(status)
        self._by_brokers_then = self._by_brokers()

    def _by_brokers(self) -> tuple[int, int]:
        by_brokers = self._parts.by_brokers
        return (0, 0) if by_brokers is None else by_brokers.offloaded()

    def _write_failure(self) -> None:
        """Write that a pass ended early, beside what is known of the last whole one: the status shows that work stands still."""
        parts = self._parts
        self._told("the status is not read", self._read_written)
        before = self._written or Status(self._began_ms, 0, 0)
        status = replace(
            before,
            done=parts.events.counts(),
            troubles=parts.events.troubles(),
            failed_passes=before.failed_passes + 1,
            failing_since_ms=before.failing_since_ms or parts.clock.now_ms(),
        )
        self._publish(status)

    def _count_journal(self) -> None:
        """Count the records that are there by now: a pass has those that it began with."""
        if self._written is not None:
            nodes = self._parts.looking.cluster.nodes
            nodes.catch_up()
            self._written = replace(self._written, journal=_kinds(read_journal(nodes)))

    def _write_end(self) -> None:
        """Write what was offloaded since the last pass, which only began that, what is in the journal now, and what went wrong."""
        self._told("the journal is not counted", self._count_journal)
        before, parts = self._written, self._parts
        if before is None:
            return
        done = parts.events.counts()
        theirs, theirs_before = self._by_brokers(), self._by_brokers_then
        brokers = [now - then for now, then in zip(theirs, theirs_before, strict=True)]
        names = ("offloaded_ledgers", "offloaded_bytes")
        ours = [done.get(name, 0) - before.done.get(name, 0) - one for name, one in zip(names, brokers, strict=True)]
        left, theirs_left = max(0, before.backlog_ledgers - ours[0]), max(0, before.broker_backlog_ledgers - brokers[0])
        status = replace(
            before,
            done=done,
            troubles=parts.events.troubles(),
            backlog_ledgers=left,
            backlog_bytes=max(0, before.backlog_bytes - ours[1]) if left else 0,
            oldest_due_ms=before.oldest_due_ms if left else 0,
            broker_backlog_ledgers=theirs_left,
            broker_backlog_bytes=max(0, before.broker_backlog_bytes - brokers[1]) if theirs_left else 0,
            broker_oldest_due_ms=before.broker_oldest_due_ms if theirs_left else 0,
            by_brokers={} if parts.by_brokers is None else parts.by_brokers.counts(),
        )
        self._publish(status)

    def _publish(self, status: Status) -> None:
        """Write the status and the gauges; an error of either never ends the work: the disk may be full, the node not ours to set."""
        self._written = status
        self._told("the status is not written", lambda: self._put_status(status))
        self._told("the gauges are not written", lambda: self._parts.on_status(status))

    def _read_written(self) -> None:
        """Take from the service before when it ended its last whole pass, if this one has not ended any yet."""
        if self._written is None and (before := read_status(self._parts.lock.newest())) is not None:
            self._written = Status(self._began_ms, before.passed_ms, 0)

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
            self._parts.events.note(failed(f"{failure}: {type(error).__name__}", "", f"{failure}: {error}", error))


def _kinds(journal: Journal) -> dict[str, int]:
    """Return {kind: how many records}."""
    counts = Counter(one.kind.value for one in journal.records)
    return {kind.value: counts[kind.value] for kind in RecordKind}


def _sizes(looked: "Looked", due: list[Action]) -> dict[int, int]:
    """Return {ledger: its bytes} of what is due."""
    ids = np.array(sorted({one for action in due for one in action.ledger_ids}), np.int64)
    listed = looked.survey.listed
    rows = listed[np.isin(listed["ledger_id"], ids)]
    return dict(zip(rows["ledger_id"].tolist(), rows["size"].tolist(), strict=True))


def _oldest(due: list[Action]) -> int:
    """Return since when the oldest of it has been due, ms since 1970 UTC; 0 if that is not known of any."""
    return min((one.since_ms for one in due if one.since_ms is not None), default=0)


def _is_direct_offload(action: Action) -> bool:
    return action.kind is ActionKind.OFFLOAD and action.via is Via.DIRECT
