"""Copy due ledgers in the background, with fair scheduling of topics, and complete copied ledgers topic by topic.

A topic's list is set at most once a minute: if a broker has taken the topic, each set makes its clients wait.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Condition

from ledgerfs.errors import LedgerfsError, RefusedLedgerError, StoreUnreachableError
from ledgerfs_cluster.errors import ListFullError, LockLostError, StoppedError
from ledgerfs_cluster.lifecycle.planning.actions import Action
from ledgerfs_cluster.lifecycle.policy.topic_rules import TopicRule
from ledgerfs_cluster.lifecycle.service.events import Events
from ledgerfs_cluster.offload.candidates import not_offloaded
from ledgerfs_cluster.offload.one_step import BETWEEN_SETS_S, CopiedLedger, OneStep
from ledgerfs_cluster.offload.outcomes import Outcome, Status, failed

WORKERS = 3
"""Ledgers that are copied in parallel."""
_NOT_AGAIN_S = 600.0
"""A ledger whose copy failed is not retried for so many seconds."""
_LEAST_BYTES = 1 << 20
"""Least size of a ledger for its topic's share: requests and sets of lists have a cost, too."""


@dataclass(frozen=True, slots=True)
class Due:
    """A ledger to copy, its bytes, and its topic's rule."""

    topic: str
    ledger_id: int
    size: int
    rule: TopicRule | None = None


class FairTurns:
    """Due ledgers, scheduled fairly: the next one is the oldest of the topic with the fewest bytes so far. For one thread at a time.

    This is start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM 1996). A ledger counts with all its bytes when it is taken. A topic that
    is new, or was idle, begins at the level of the last taken one: it has saved nothing for later.
    """

    __slots__ = ("_due", "_had", "_level", "_waiting")

    def __init__(self) -> None:
        # (bytes that its topic will have had before, the topic's place in the plan, the ledger), the next one last
        self._due: list[tuple[int, int, Due]] = []
        self._had: dict[str, int] = {}
        self._waiting: Counter[str] = Counter()
        self._level = 0

    def __len__(self) -> int:
        return len(self._due)

    def has(self, topic: str) -> bool:
        """Return whether a ledger of a topic waits."""
        return self._waiting[topic] > 0

    def replace(self, due: Mapping[str, Iterable[Due]]) -> None:
        """Replace the waiting ledgers; among topics with equal bytes, the first one here is first."""
        self._had = {name: had for name in due if (had := self._had.get(name, 0)) > self._level}
        self._due, self._waiting = [], Counter()
        for number, (name, ledgers) in enumerate(due.items()):
            had = self._had.get(name, self._level)
            for one in ledgers:
                self._due.append((had, number, one))
                self._waiting[name] += 1
                had += max(_LEAST_BYTES, one.size)
        self._due.sort(key=lambda one: one[:2], reverse=True)

    def take(self) -> Due | None:
        """Remove and return the next ledger; None if none waits."""
        if not self._due:
            return None
        self._level, _, due = self._due.pop()
        self._had[due.topic] = self._level + max(_LEAST_BYTES, due.size)
        self._waiting[due.topic] -= 1
        return due


class BackgroundOffloads:
    """Copies in separate threads. `complete` is for one thread; all else for any.

    Parameters
    ----------
    is_stopping
        Whether no more work may begin.

    """

    __slots__ = (
        "_active", "_changed", "_copied", "_events", "_failed_s", "_failure", "_is_stopping", "_last_set_s", "_step", "_threads", "_turns",
        "_under_way", "_workers", "has_given_up",
    )  # fmt: skip

    def __init__(
        self, step: OneStep, events: Events, is_stopping: Callable[[], bool] = lambda: False, workers: int = WORKERS
    ) -> None:
        self._step = step
        self._events = events
        self._is_stopping = is_stopping
        self._workers = workers
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="ledgerfs-lifecycle")
        self._changed = Condition()
        self._turns = FairTurns()
        self._active = 0
        self._under_way: set[tuple[str, int]] = set()
        # {topic: (when its first copy was done, the copies)}
        self._copied: dict[str, tuple[float, list[CopiedLedger]]] = {}
        self._last_set_s: dict[str, float] = {}
        self._failed_s: dict[tuple[str, int], float] = {}
        self._failure: BaseException | None = None
        self.has_given_up = False
        """Whether any copied ledger was given up."""

    def replace(self, actions: Sequence[Action], sizes: Mapping[int, int]) -> None:
        """Copy the due ledgers of a new plan, instead of those that have not begun; ``sizes`` are bytes of ledgers by id."""
        now_s = time.monotonic()
        with self._changed:
            self._failed_s = {one: when for one, when in self._failed_s.items() if now_s - when < _NOT_AGAIN_S}
            left_out = {*self._failed_s, *self._under_way}
            left_out.update((name, one.ledger_id) for name, (_, some) in self._copied.items() for one in some)
            due = {
                name: [
                    Due(name, ledger_id, sizes.get(ledger_id, 0), one.rule)
                    for ledger_id in one.ledger_ids
                    if (name, ledger_id) not in left_out
                ]
                for one in actions
                if (name := one.managed_ledger or "")
            }
            self._turns.replace(due)
            new = self._workers - self._active
            self._active += new
        for _ in range(new):
            self._threads.submit(self._work)

    def complete(self, *, everything: bool = False) -> None:
        """Complete the copied ledgers of each topic whose minute is over, or of all topics.

        An error of one topic is noted; the topic keeps its copies for a retry, and the other topics continue. Raises `LockLostError`,
        `StoppedError`, and `StoreUnreachableError`, which concerns all topics; then retry later.
        """
        if self._failure is not None:
            raise self._failure
        for name in list(self._copied):
            with self._changed:
                if not everything and not self._is_due(name):
                    continue
                since_s, copies = self._copied.pop(name)
            self._complete(name, since_s, copies)

    def give_up(self) -> None:
        """Forget copied ledgers that are not completed: the records of their attempts stay, and the next service cleans up by them."""
        with self._changed:
            left, self._copied = self._copied, {}
        for name, (_, copies) in left.items():
            self.has_given_up = True
            ids = ", ".join(str(one.ledger_id) for one in copies)
            text = f"offload {name}: canceled, ledgers {ids} were copied but not completed; the next run cleans up"
            self._events.note(failed("offload given up", name, text))

    @property
    def is_idle(self) -> bool:
        """Whether no ledger is due, being copied, or copied and not completed."""
        with self._changed:
            return self._has_begun_all and not self._copied

    @property
    def has_begun_all(self) -> bool:
        """Whether no ledger is due, or being copied; copied ones may wait to be completed."""
        with self._changed:
            return self._has_begun_all

    def wait(self, seconds: float) -> None:
        """Wait until a ledger is copied, for at most so many seconds."""
        with self._changed:
            self._changed.wait(seconds)

    def stop(self) -> None:
        """Begin nothing more, and wait for the threads: the caller's pacing has to stop their work."""
        with self._changed:
            self._turns.replace({})
        self._threads.shutdown()

    def _complete(self, name: str, since_s: float, copies: list[CopiedLedger]) -> None:
        outcomes: list[Outcome] = []
        try:
            self._step.complete(name, copies, outcomes)
        except LedgerfsError as error:
            in_flight = self._step.in_flight
            with self._changed:
                # Copies that are neither completed nor given up; put them after those of all other topics.
                _, later = self._copied.pop(name, (since_s, []))
                kept = [*(one for one in copies if one.attempt.key.uuid in in_flight), *later]
                if kept:
                    self._copied[name] = since_s, kept
            if isinstance(error, LockLostError | StoppedError | StoreUnreachableError):
                raise
            text = f"offload {name}: copied ledgers cannot be completed yet: {error}"
            self._events.note(failed(f"offload not completed {type(error).__name__}", name, text, error))
        finally:
            self._last_set_s[name] = time.monotonic()
            for one in outcomes:
                if one.status is Status.OK or not one.ledger_ids:
                    self._events.note(one)
                else:
                    self._failed(one)

    # In the threads.

    def _work(self) -> None:
        try:
            while (due := self._next()) is not None:
                try:
                    self._copy(due)
                finally:
                    with self._changed:
                        self._under_way.discard((due.topic, due.ledger_id))
                        self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001  (raised again by who completes)
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _next(self) -> Due | None:
        with self._changed:
            due = None if self._is_stopping() else self._turns.take()
            if due is None:
                self._active -= 1
            else:
                self._under_way.add((due.topic, due.ledger_id))
            return due

    def _copy(self, due: Due) -> None:
        try:
            if due.rule is None or due.rule.bucket is None:
                raise RefusedLedgerError(
                    "the bucket to offload to is unknown: set bucket for the topic in the policy file", key=due.topic
                )
            self._step.require_free(due.topic)
            found = self._step.copy(due.topic, due.ledger_id, due.rule.bucket)
        except LedgerfsError as error:
            found = not_offloaded(due.topic, due.ledger_id, str(error), error)
        if isinstance(found, CopiedLedger):
            with self._changed:
                self._copied.setdefault(due.topic, (time.monotonic(), []))[1].append(found)
        elif found.status is not Status.OK and not isinstance(found.error, StoppedError):
            self._failed(found)

    def _failed(self, found: Outcome) -> None:
        name, (ledger_id,) = found.subject, found.ledger_ids
        with self._changed:
            self._failed_s[name, ledger_id] = time.monotonic()
        # An error of all ledgers of a topic counts once.
        which = name if isinstance(found.error, ListFullError) else f"{name}, ledger {ledger_id}"
        code = f"offload {type(found.error).__name__}" if found.error is not None else found.code
        self._events.note(failed(code, which, f"offload {which}: {found.message}", found.error))

    # Under the lock.

    @property
    def _has_begun_all(self) -> bool:
        return not self._turns and not self._under_way

    def _is_due(self, name: str) -> bool:
        """Return whether to complete a topic's copies: when no more come soon, or after a minute; at most once a minute."""
        now = time.monotonic()
        if now - self._last_set_s.get(name, -BETWEEN_SETS_S) < BETWEEN_SETS_S:
            return False
        is_more_coming = self._turns.has(name) or any(topic == name for topic, _ in self._under_way)
        return not is_more_coming or now - self._copied[name][0] >= BETWEEN_SETS_S
