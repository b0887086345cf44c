"""What brokers are asked for, offloads and trims, in threads of their own, since each is waited for; one of each a topic."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerfsError
from ledgerfs.lifecycle.planning.actions import ActionKind
from ledgerfs.offload.outcomes import Status, failed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ledgerfs.lifecycle.planning.actions import Action
    from ledgerfs.lifecycle.service.events import Events
    from ledgerfs.offload.outcomes import Outcome

_AT_ONCE = 4
"""Brokers offload one ledger of a topic after the other; so many topics go on together. As many trims do, which wait for no offload."""
_KINDS = (ActionKind.OFFLOAD, ActionKind.TRIM)
_NOT_AGAIN_S = 600.0
"""A topic whose broker left what is due is not loaded again for that before."""
_About = tuple[ActionKind, str]


@dataclass(slots=True)
class _Work:
    """What a broker is to do, since when, ms since 1970 UTC, and whether it is at it."""

    action: "Action"
    since_ms: int
    goes_on: bool = False


class BrokerWork:
    """Offloads and trims by brokers. Safe in threads.

    Parameters
    ----------
    carry_out
        Has a broker do what an action tells, and waits for it.
    is_stopping
        Whether no broker is to be asked any more.
    now_ms
        Tells the time, ms since 1970 UTC.

    """

    __slots__ = (
        "_carry_out",
        "_events",
        "_is_stopping",
        "_left_s",
        "_lock",
        "_now_ms",
        "_offloaded",
        "_threads",
        "_work",
    )

    def __init__(
        self,
        carry_out: "Callable[[Action], list[Outcome]]",
        events: "Events",
        is_stopping: "Callable[[], bool]",
        now_ms: "Callable[[], int]",
    ) -> None:
        self._carry_out = carry_out
        self._events = events
        self._is_stopping = is_stopping
        self._now_ms = now_ms
        self._lock = Lock()
        self._work: dict[_About, _Work] = {}
        self._offloaded = 0, 0
        # {topic: when its broker was asked to trim, and left something}
        self._left_s: dict[str, float] = {}
        self._threads = {
            one: ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"ledgerfs-lifecycle-broker-{one.value}")
            for one in _KINDS
        }

    @property
    def is_idle(self) -> bool:
        """Whether no broker is at work, nor is to be."""
        with self._lock:
            return not self._work

    def counts(self) -> "Mapping[str, int]":
        """Return of how many topics ``offload_goes_on``, ``offload_waits``, ``trim_goes_on`` and ``trim_waits``."""
        with self._lock:
            goes = Counter((kind, one.goes_on) for (kind, _), one in self._work.items())
        names = ((kind, on, f"{kind.value}_{'goes_on' if on else 'waits'}") for kind in _KINDS for on in (True, False))
        return {name: goes[kind, on] for kind, on, name in names}

    def offloaded(self) -> tuple[int, int]:
        """Return how many ledgers and bytes brokers have offloaded since the service began."""
        with self._lock:
            return self._offloaded

    def waiting_since_ms(self) -> int:
        """Return since when the oldest of what waits for its turn has waited, ms since 1970 UTC; 0 if nothing does."""
        with self._lock:
            return min((one.since_ms for one in self._work.values() if not one.goes_on), default=0)

    def begin(self, action: "Action") -> None:
        """Have a broker do it in its turn, unless one is at this topic already; what waits for its turn is done as it was planned last."""
        about = action.kind, action.managed_ledger or ""
        with self._lock:
            now_s = time.monotonic()
            self._left_s = {name: since_s for name, since_s in self._left_s.items() if now_s - since_s < _NOT_AGAIN_S}
            if action.kind is ActionKind.TRIM and about[1] in self._left_s:
                return
            found = self._work.get(about)
            if found is not None:
                found.action = action
                return
            self._work[about] = _Work(action, self._now_ms())
        self._threads[action.kind].submit(self._run, about)

    def stop(self) -> None:
        """Begin nothing more; what brokers are at, they go on with."""
        for one in self._threads.values():
            one.shutdown(wait=False, cancel_futures=True)

    def _run(self, about: _About) -> None:
        kind, name = about
        what = kind.value
        with self._lock:
            self._work[about].goes_on = True
            action = self._work[about].action
        try:
            if self._is_stopping():
                return
            outcomes = self._carry_out(action)
        except LedgerfsError as error:
            code = f"broker {what} {type(error).__name__}"
            self._events.note(failed(code, name, f"{what} {name} by its broker: {error}", error))
        except Exception as error:
            # Nobody looks at what a thread of a pool raises: it would be left out without a word.
            code = f"broker {what} {type(error).__name__}"
            self._events.note(failed(code, name, f"{what} {name} by its broker: {error!r}"))
            raise
        else:
            for one in outcomes:
                self._events.note(one)
            done = [one for one in outcomes if one.status is Status.OK]
            with self._lock:
                if kind is ActionKind.OFFLOAD:
                    ledgers, size = self._offloaded
                    self._offloaded = (
                        ledgers + sum(len(one.ledger_ids) for one in done),
                        size + sum(one.size for one in done),
                    )
                elif any(one.status is Status.SKIPPED for one in outcomes):
                    self._left_s[name] = time.monotonic()
        finally:
            with self._lock:
                del self._work[about]
