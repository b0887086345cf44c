"""Offloads and trims by brokers, in separate threads, which wait for each; one of each kind for a topic."""

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerfsError
from ledgerfs_cluster.lifecycle.planning.actions import ActionKind
from ledgerfs_cluster.offload.outcomes import Status, failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs_cluster.lifecycle.planning.actions import Action
    from ledgerfs_cluster.lifecycle.service.events import Events
    from ledgerfs_cluster.offload.outcomes import Outcome

_AT_ONCE = 4
"""Topics that are offloaded together; brokers offload a topic's ledgers one by one. As many trims run, without waiting for offloads."""
_KINDS = (ActionKind.OFFLOAD, ActionKind.TRIM)
_NOT_AGAIN_S = 600.0
"""A topic whose broker left due ledgers is not loaded again for so many seconds."""
_About = tuple[ActionKind, str]


class BrokerWork:
    """Offloads and trims by brokers. Thread-safe.

    Parameters
    ----------
    carry_out
        Has a broker carry out an action, and waits for it.
    is_stopping
        Whether no more brokers may be asked.

    """

    __slots__ = ("_carry_out", "_events", "_is_stopping", "_left_s", "_lock", "_threads", "_work")

    def __init__(
        self, carry_out: "Callable[[Action], list[Outcome]]", events: "Events", is_stopping: "Callable[[], bool]"
    ) -> None:
        self._carry_out = carry_out
        self._events = events
        self._is_stopping = is_stopping
        self._lock = Lock()
        self._work: dict[_About, Action] = {}
        # {topic: when its broker was asked to trim, and left due ledgers}
        self._left_s: dict[str, float] = {}
        self._threads = {
            one: ThreadPoolExecutor(_AT_ONCE, thread_name_prefix=f"ledgerfs-lifecycle-broker-{one.value}")
            for one in _KINDS
        }

    @property
    def is_idle(self) -> bool:
        """Whether no broker is at work, and none is queued."""
        with self._lock:
            return not self._work

    def begin(self, action: "Action") -> None:
        """Queue an action for a broker, unless one works on this topic; a queued action is replaced by the latest one."""
        about = action.kind, action.managed_ledger or ""
        with self._lock:
            now_s = time.monotonic()
            self._left_s = {name: since_s for name, since_s in self._left_s.items() if now_s - since_s < _NOT_AGAIN_S}
            if action.kind is ActionKind.TRIM and about[1] in self._left_s:
                return
            waits = about in self._work
            self._work[about] = action
        if not waits:
            self._threads[action.kind].submit(self._run, about)

    def stop(self) -> None:
        """Begin nothing more; brokers finish their current work."""
        for one in self._threads.values():
            one.shutdown(wait=False, cancel_futures=True)

    def _run(self, about: _About) -> None:
        kind, name = about
        what = kind.value
        with self._lock:
            action = self._work[about]
        try:
            if self._is_stopping():
                return
            outcomes = self._carry_out(action)
        except LedgerfsError as error:
            code = f"broker {what} {type(error).__name__}"
            self._events.note(failed(code, name, f"{what} of {name} by its broker failed: {error}", error))
        except Exception as error:
            # Errors in a pool's thread are not seen: report them here.
            code = f"broker {what} {type(error).__name__}"
            self._events.note(failed(code, name, f"{what} of {name} by its broker failed: {error!r}"))
            raise
        else:
            for one in outcomes:
                self._events.note(one)
            if kind is ActionKind.TRIM and any(one.status is Status.SKIPPED for one in outcomes):
                with self._lock:
                    self._left_s[name] = time.monotonic()
        finally:
            with self._lock:
                del self._work[about]
