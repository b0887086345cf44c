"""Copying due ledgers in the background, in fair turns of their topics, and completing what is copied, topic by topic.

A topic's list is set at most once a minute: with a broker that has taken the topic, each set makes its clients wait.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread

from ledgerfs.errors import LedgerfsError, StoreUnreachableError
from ledgerfs_cluster.errors import ListFullError, LockLostError, StoppedError
from ledgerfs_cluster.lifecycle.planning.actions import Action
from ledgerfs_cluster.lifecycle.policy.topic_rules import TopicRule
from ledgerfs_cluster.lifecycle.service.events import Events
from ledgerfs_cluster.lifecycle.service.fair_queue import FairQueue, Work
from ledgerfs_cluster.offload.candidates import not_offloaded
from ledgerfs_cluster.offload.copied_ledger import CopiedLedger
from ledgerfs_cluster.offload.one_step import BETWEEN_SETS_S, OneStep
from ledgerfs_cluster.offload.outcomes import Outcome, Status, failed

WORKERS = 3
"""Ledgers that are copied at once."""
_IDLE_S = 0.2
_NOT_AGAIN_S = 600.0
"""A ledger whose copy failed is left alone for so long."""


@dataclass(slots=True)
class _Topic:
    """What is copied of a topic and not completed."""

    copies: list[CopiedLedger] = field(default_factory=list)
    since_s: float = 0.0


_Place = tuple[str, OneStep]
"""A topic and what offloads it: policies may name another bucket while copies in the first one wait to be completed."""


class BackgroundOffloads:
    """Copies in threads of its own. `complete` is for one thread; all else for any.

    Parameters
    ----------
    step_of
        Returns what offloads topics with a rule.
    is_stopping
        Whether nothing is to be begun any more.

    """

    __slots__ = (
        "_changed",
        "_copied",
        "_events",
        "_failed_s",
        "_failure",
        "_has_given_up",
        "_is_stopping",
        "_last_set_s",
        "_queue",
        "_rules",
        "_step_of",
        "_stopping",
        "_threads",
    )

    def __init__(
        self,
        step_of: Callable[[TopicRule], OneStep],
        events: Events,
        is_stopping: Callable[[], bool] = lambda: False,
        workers: int = WORKERS,
    ) -> None:
        self._queue = FairQueue()
        self._step_of = step_of
        self._events = events
        self._is_stopping = is_stopping
        self._changed = Condition()
        self._rules: dict[str, TopicRule] = {}
        self._copied: dict[_Place, _Topic] = {}
        self._last_set_s: dict[str, float] = {}
        self._failed_s: dict[tuple[str, int], float] = {}
        self._failure: BaseException | None = None
        self._has_given_up = False
        self._stopping = False
        self._threads = [
            Thread(target=self._run, name=f"ledgerfs-lifecycle-{number}", daemon=True) for number in range(workers)
        ]
        for one in self._threads:
            one.start()

    def replace(self, actions: Sequence[Action], sizes: Mapping[int, int]) -> None:
        """Have what is due by a new plan copied, in place of all that was due and has not begun; ``sizes`` are bytes of ledgers by id."""
        work: dict[str, list[Work]] = {}
        with self._changed:
            self._failed_s = {
                one: when for one, when in self._failed_s.items() if time.monotonic() - when < _NOT_AGAIN_S
            }
            self._rules = {one.managed_ledger: one.rule for one in actions if one.managed_ledger and one.rule}
            for action in actions:
                name = action.managed_ledger or ""
                busy = self._busy(name)
                work[name] = [
                    Work(name, ledger_id, sizes.get(ledger_id, 0))
                    for ledger_id in action.ledger_ids
                    if ledger_id not in busy and (name, ledger_id) not in self._failed_s
                ]
            self._queue.replace(work)
            self._changed.notify_all()

    def complete(self, *, everything: bool = False) -> None:
        """Complete what is copied of each topic that is not waiting for its minute, or of all topics.

        A topic that cannot be completed is a trouble, keeps its copies, is tried again later, and keeps no other from its turn. Raises
        `LockLostError`, `StoppedError`, and `StoreUnreachableError`, which meets all topics alike; it may be tried again then.
        """
        if self._failure is not None:
            raise self._failure
        for place in list(self._copied):
            with self._changed:
                topic = self._copied[place]
                if not everything and not self._is_due(place[0], topic):
                    continue
                copies, topic.copies = topic.copies, []
                if not copies:
                    del self._copied[place]
                    continue
            self._complete(place, topic, copies)

    def give_up(self) -> None:
        """Forget what is copied and not completed: the notes of its attempts stay, and the next service cleans up by them."""
        with self._changed:
            left = [(name, topic.copies) for (name, _), topic in self._copied.items() if topic.copies]
            self._copied = {}
        for name, copies in left:
            self._has_given_up = True
            ids = ", ".join(str(one.attempt.ledger_id) for one in copies)
            text = f"offload {name}: given up, ledgers {ids} were copied and not completed; the next run cleans up"
            self._events.note(failed("offload given up", name, text))

    @property
    def has_given_up(self) -> bool:
        """Whether anything that was copied was given up."""
        return self._has_given_up

    @property
    def is_idle(self) -> bool:
        """Whether nothing is due, being copied, or copied and not completed."""
        with self._changed:
            return self._queue.is_idle and not any(one.copies for one in self._copied.values())

    @property
    def has_begun_all(self) -> bool:
        """Whether nothing is due, or being copied; what is copied may wait to be completed."""
        with self._changed:
            return self._queue.is_idle

    def wait(self, seconds: float) -> None:
        """Wait until something is copied, or for so long."""
        with self._changed:
            self._changed.wait(seconds)

    def stop(self) -> None:
        """Begin nothing more, and wait for the threads: whoever paces them has to end what they are at."""
        with self._changed:
            self._stopping = True
            self._queue.replace({})
            self._changed.notify_all()
        for one in self._threads:
            one.join()

    def _complete(self, place: _Place, topic: _Topic, copies: list[CopiedLedger]) -> None:
        name, step = place
        outcomes: list[Outcome] = []
        try:
            step.complete(name, copies, outcomes)
        except LedgerfsError as error:
            self._keep(place, topic, copies)
            if isinstance(error, LockLostError | StoppedError | StoreUnreachableError):
                raise
            text = f"offload {name}: copied ledgers are not completed yet: {error}"
            self._events.note(failed(f"offload not completed {type(error).__name__}", name, text, error))
        finally:
            self._last_set_s[name] = time.monotonic()
            self._tell(outcomes)

    def _keep(self, place: _Place, topic: _Topic, copies: list[CopiedLedger]) -> None:
        """Keep what is neither completed nor given up, behind the copies of all other topics."""
        with self._changed:
            in_flight = place[1].in_flight
            topic.copies = [*(one for one in copies if one.attempt.key.uuid in in_flight), *topic.copies]
            self._copied[place] = self._copied.pop(place, topic)

    # In the threads.

    def _run(self) -> None:
        try:
            self._work_on()
        except BaseException as error:  # noqa: BLE001  (raised again by who completes)
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _work_on(self) -> None:
        while True:
            with self._changed:
                work = None if self._stopping or self._is_stopping() else self._queue.take()
                if work is None:
                    if self._stopping:
                        return
                    self._changed.wait(_IDLE_S)
                    continue
                rule = self._rules[work.topic]
            try:
                self._copy(work, rule)
            finally:
                with self._changed:
                    self._queue.done(work)
                    self._changed.notify_all()

    def _copy(self, work: Work, rule: TopicRule) -> None:
        try:
            step = self._step_of(rule)
            step.require_free(work.topic)
            found = step.copy(work.topic, work.ledger_id)
        except LedgerfsError as error:
            found = not_offloaded(work.topic, work.ledger_id, str(error), error)
        if isinstance(found, CopiedLedger):
            with self._changed:
                topic = self._copied.setdefault((work.topic, step), _Topic(since_s=time.monotonic()))
                topic.copies.append(found)
        elif found.status is not Status.OK and not isinstance(found.error, StoppedError):
            self._failed(found)

    def _failed(self, found: Outcome) -> None:
        name, (ledger_id,) = found.subject, found.ledger_ids
        with self._changed:
            self._failed_s[name, ledger_id] = time.monotonic()
        # What is so for all ledgers of a topic is one trouble.
        which = name if isinstance(found.error, ListFullError) else f"{name}, ledger {ledger_id}"
        code = f"offload {type(found.error).__name__}" if found.error is not None else found.code
        self._events.note(failed(code, which, f"offload {which}: {found.message}", found.error))

    # With the lock.

    def _busy(self, name: str) -> set[int]:
        """Return the ledgers of a topic that are being copied, or are copied and not completed."""
        copied = [one for (topic, _), each in self._copied.items() if topic == name for one in each.copies]
        work = self._queue.under_way(name)
        return {one.attempt.ledger_id for one in copied} | (set() if work is None else {work.ledger_id})

    def _is_due(self, name: str, topic: _Topic) -> bool:
        """Whether a topic's copies are to be completed: when no more come soon, or after a minute; not twice in one."""
        now = time.monotonic()
        if now - self._last_set_s.get(name, -BETWEEN_SETS_S) < BETWEEN_SETS_S:
            return False
        return not self._queue.has(name) or now - topic.since_s >= BETWEEN_SETS_S

    def _tell(self, outcomes: list[Outcome]) -> None:
        for one in outcomes:
            if one.status is Status.OK or not one.ledger_ids:
                self._events.note(one)
            else:
                self._failed(one)
