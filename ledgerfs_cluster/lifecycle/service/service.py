"""The service: in each iteration it takes a snapshot of the cluster, plans, and carries out the plan.

All changes of a cluster are made under its lock. A service that loses the lock stops: the next one, or this one started again, continues
from the records in the cluster.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.errors import PolicyChangedError, StoppedError
from ledgerfs_cluster.lifecycle.planning.actions import Action, ActionKind, Plan, Refusal, Situation
from ledgerfs_cluster.lifecycle.planning.planning import plan_of
from ledgerfs_cluster.lifecycle.policy.policy_file import Via
from ledgerfs_cluster.lifecycle.service.status import Status, read_status, write_status
from ledgerfs_cluster.offload.outcomes import failed

if TYPE_CHECKING:
    from ledgerfs_cluster.lifecycle.acting.acting import Acting
    from ledgerfs_cluster.lifecycle.service.background import BackgroundOffloads
    from ledgerfs_cluster.lifecycle.service.broker_work import BrokerWork
    from ledgerfs_cluster.lifecycle.service.events import Events
    from ledgerfs_cluster.lifecycle.service.looking import Looked, Looking
    from ledgerfs_cluster.snapshot.survey import Survey
    from ledgerfs_cluster.snapshot.surveying import Progress
    from ledgerfs_cluster.zookeeper.changes import ClusterLock
    from ledgerfs_cluster.zookeeper.cluster_clock import ClusterClock

_STEP_S = 1.0
_ORDER = (ActionKind.CLEAN, ActionKind.DELETE, ActionKind.OFFLOAD, ActionKind.TRIM, ActionKind.MARK)
"""Drop invalid records before new ones are written. Brokers change lists, so delete before they are asked."""
_SLICE_S = 0.25
"""Interval of checks for a stop while waiting, s: a signal does not end a sleep."""
_TRIES = 5
"""Attempts to complete copied ledgers before the service stops."""


class Stopping:
    """A flag that any thread, or the handler of a signal, sets once.

    It has no lock, unlike `threading.Event`: a handler interrupts the main thread anywhere, also while that holds the lock, and would wait
    for ever.
    """

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Request that no more work begins."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether no more work may begin."""
        return self._is_set

    def require_going(self) -> None:
        """Raise `StoppedError` once no more work may begin."""
        if self._is_set:
            raise StoppedError("the service is stopping: no more work is started")


@dataclass(slots=True)
class Service:
    """The service, for one thread; `stop` is for any thread, and for handlers of signals.

    Attributes
    ----------
    looking, acting
        The source of snapshots, and the factory that returns an `Acting` for the snapshot and the situation of an iteration.
    background, by_brokers
        Offloads by this program, and by brokers; None if no broker can be asked.
    events
        Its finished work and its errors.
    stopping
        Set once the service has to stop; all parts read it.
    other_policy
        Returns how the policy differs from the one that was read; None if it is the same.
    reopen
        Returns the current policy for another service; raises `LedgerfsError` for one that cannot be used. None for a service that makes
        one iteration with one policy.
    reopened
        The result of ``reopen`` for an edited policy, for which the service has stopped; None without one.

    """

    lock: "ClusterLock"
    looking: "Looking"
    acting: Callable[["Survey", Situation], "Acting"]
    background: "BackgroundOffloads"
    by_brokers: "BrokerWork | None"
    clock: "ClusterClock"
    events: "Events"
    stopping: Stopping
    other_policy: Callable[[], str | None]
    reopen: Callable[[], object] | None
    reopened: object = field(default=None, init=False)
    _other_policy: str | None = field(default=None, init=False)
    _status: Status = field(init=False)
    # The last plan, and the bytes of its due ledgers.
    _plan: Plan = field(default_factory=lambda: Plan(0), init=False)
    _sizes: dict[int, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._status = Status(self.clock.now_ms(), 0, 0)

    def stop(self) -> None:
        """Request a stop soon, without half-done work."""
        self.stopping.set()

    def run(self, progress: "Progress", *, once: bool = False) -> None:
        """Iterate until stopped; with ``once``: one iteration, and wait for its offloads.

        Raises `LockLostError`, after which no more changes are made, and `PolicyChangedError`. Notes other errors of ZooKeeper and stores,
        and retries in the next iteration; with ``once`` it raises them.
        """
        try:
            while not self.stopping.is_set():
                self._pass_or_trouble(progress, once=once)
                if once:
                    self._finish()
                    break
                self._until_next_pass()
        finally:
            self.stopping.set()
            self.background.stop()
            if not self.lock.is_lost:
                self._complete_or_give_up()
                if self._status.passes or self._status.failed_passes:
                    self._write_status()
        if self._other_policy is not None and self.reopen is None:
            raise PolicyChangedError(self._other_policy)

    @property
    def refused(self) -> Mapping[str, int]:
        """Number of refused actions in the last plan, by reason."""
        return Counter(one.code for one in self._plan.refused)

    @property
    def has_given_up(self) -> bool:
        """Whether copied ledgers could not be completed before it stopped."""
        return self.background.has_given_up

    # Iterations.

    def _pass_or_trouble(self, progress: "Progress", *, once: bool) -> None:
        try:
            self._pass(progress)
        except LedgerfsError as error:
            has_stopped = isinstance(error, StoppedError)
            if self.lock.is_lost:
                raise
            if not has_stopped:
                code = f"pass {type(error).__name__}"
                self.events.note(failed(code, error.key or "", f"this pass failed: {error}", error))
                self._write_status(failed_passes=self._status.failed_passes + 1)
            if once and not has_stopped:
                raise

    def _pass(self, progress: "Progress") -> None:
        # Detect a lost lock now, not at the first deletion.
        self.lock.commit([])
        offloaded_before = self.events.offloaded()
        looked = self.looking.look(self._until_stopped(progress))
        self._look_at_policy()
        now_ms, noted_ms = self.clock.now_ms(), self.clock.later_ms()
        has_admin = self.by_brokers is not None
        situation = Situation(self.looking.file, now_ms, noted_ms, has_admin, looked.journal, looked.orphans)
        plan = plan_of(looked.survey, situation)
        self._plan, self._sizes = plan, _sizes(looked, plan)
        self.events.forget_offloaded(offloaded_before)
        for one in plan.refused:
            # Due work there may be left undone.
            if one.code == Refusal.UNREADABLE.value:
                self.events.note(failed("unreadable", one.subject, f"{one.subject}: {one.message}"))
        self.background.replace([one for one in plan.actions if _is_direct_offload(one)], self._sizes)
        acting = self.acting(looked.survey, situation)
        for action in sorted(plan.actions, key=lambda one: _ORDER.index(one.kind)):
            self._look_at_policy()
            self._complete()
            self._begin(action, acting)
        self._look_at_policy()
        self._write_status(passes=self._status.passes + 1, passed_ms=self.clock.now_ms(), failed_passes=0)

    def _begin(self, action: Action, acting: "Acting") -> None:
        """Carry out an action outside the background; with an edited policy delete and trim nothing."""
        if _is_direct_offload(action) or (self._other_policy and action.kind is not ActionKind.OFFLOAD):
            return
        if action.kind not in {ActionKind.OFFLOAD, ActionKind.TRIM}:
            for one in acting.carry_out(action):
                self.events.note(one)
        elif self.by_brokers is not None:
            self.by_brokers.begin(action)

    def _look_at_policy(self) -> None:
        """Stop the service if the policy was edited, and can be used; raise `StoppedError` if the service has to stop."""
        if not self.stopping.is_set():
            self._other_policy = self.other_policy()
            if self._other_policy is not None and self._can_reopen():
                self.stopping.set()
        self.stopping.require_going()

    def _can_reopen(self) -> bool:
        """Return whether another service can use the current policy, or none has to."""
        try:
            self.reopened = None if self.reopen is None else self.reopen()
        except LedgerfsError as error:
            text = (
                f"the edited policy file cannot be used; until it is corrected, nothing is deleted or trimmed: {error}"
            )
            self.events.note(failed("policy", error.key or "", text, error))
            return False
        return True

    def _until_stopped(self, progress: "Progress") -> "Progress":
        """Return a progress callback that also ends a snapshot once the service has to stop: it only reads, and may take minutes."""

        def update(what: str, done: int, total: int | None) -> None:
            self.stopping.require_going()
            progress(what, done, total)

        return update

    def _until_next_pass(self) -> None:
        until = time.monotonic() + self.looking.file.service.every_ms / 1000
        while not self.stopping.is_set() and time.monotonic() < until:
            self._complete()
            with suppress(StoppedError):
                self._look_at_policy()
            time.sleep(min(_SLICE_S, max(0.0, until - time.monotonic())))

    def _finish(self) -> None:
        """Wait until all begun work is done, or the service is stopped."""
        while not self.stopping.is_set():
            self._complete(everything=self.background.has_begun_all)
            if self.background.has_begun_all and (self.by_brokers is None or self.by_brokers.is_idle):
                self._complete_or_give_up()
                return
            self.background.wait(_STEP_S)

    def _complete(self, *, everything: bool = False) -> None:
        try:
            self.background.complete(everything=everything)
        except LedgerfsError as error:
            if self.lock.is_lost:
                raise
            text = f"copied ledgers cannot be completed yet, the next pass tries again: {error}"
            self.events.note(failed(f"complete {type(error).__name__}", "", text, error))

    def _complete_or_give_up(self) -> None:
        """Complete all copied ledgers, in a bounded number of attempts: they must not keep the service from stopping."""
        for left in reversed(range(_TRIES)):
            self._complete(everything=True)
            if self.background.is_idle:
                return
            if left:
                time.sleep(_STEP_S)
        self.background.give_up()

    # Reports.

    def _write_status(self, **changes: int) -> None:
        """Write the status from the last plan and the work since; an error never stops the work: access to the node may be denied."""
        values: dict[str, Any] = {**self._backlog(), **changes}
        self._status = replace(
            self._status,
            done=self.events.counts(),
            waiting=dict(Counter(one.action for one in self._plan.waiting)),
            refused=dict(self.refused),
            troubles=self.events.troubles(),
            **values,
        )
        try:
            if not self._status.passed_ms and (before := read_status(self.lock.newest())) is not None:
                self._status = replace(self._status, passed_ms=before.passed_ms)
            sent_ns = time.monotonic_ns()
            written_ms = write_status(self.lock, self._status)
            if written_ms is not None:
                self.clock.compare(written_ms, sent_ns)
        except LedgerfsError as error:
            if self.lock.is_lost:
                raise
            text = f"the status cannot be written: {error}"
            self.events.note(failed(f"status {type(error).__name__}", "", text, error))

    def _backlog(self) -> dict[str, int]:
        """Return ledgers and bytes that are due to be offloaded, and the closing time of the oldest, 0 if unknown."""
        offloaded = self.events.offloaded()
        offloads = (one for one in self._plan.actions if one.kind is ActionKind.OFFLOAD)
        due = [(one, set(one.ledger_ids) - offloaded) for one in offloads]
        ids = [ledger_id for _, some in due for ledger_id in some]
        since = [action.since_ms for action, some in due if some and action.since_ms is not None]
        size = sum(self._sizes.get(one, 0) for one in ids)
        return {"backlog_ledgers": len(ids), "backlog_bytes": size, "oldest_due_ms": min(since, default=0)}


def _sizes(looked: "Looked", plan: Plan) -> dict[int, int]:
    """Return {ledger: its bytes} of ledgers that are due to be offloaded."""
    due = (one for action in plan.actions if action.kind is ActionKind.OFFLOAD for one in action.ledger_ids)
    listed = looked.survey.listed
    rows = listed[np.isin(listed["ledger_id"], np.array(sorted(set(due)), np.int64))]
    return dict(zip(rows["ledger_id"].tolist(), rows["size"].tolist(), strict=True))


def _is_direct_offload(action: Action) -> bool:
    return action.kind is ActionKind.OFFLOAD and action.via is Via.DIRECT
