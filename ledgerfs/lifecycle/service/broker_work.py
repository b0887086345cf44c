"""What brokers are asked for, offloads and trims, in threads of their own, since each is waited for; one a topic."""

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

from ledgerfs.errors import LedgerfsError
from ledgerfs.lifecycle.planning.actions import ActionKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ledgerfs.lifecycle.acting.outcomes import Done
    from ledgerfs.lifecycle.planning.actions import Action
    from ledgerfs.lifecycle.service.events import Events

_AT_ONCE = 4
"""Brokers offload one ledger of a topic after the other; so many topics go on together."""


_DONE = {ActionKind.OFFLOAD: "offloaded", ActionKind.TRIM: "trimmed"}


class BrokerWork:
    """Offloads and trims by brokers. Safe in threads.

    Parameters
    ----------
    carry_out
        Has a broker do what an action tells, and waits for it.
    is_stopping
        Whether no broker is to be asked any more.

    """

    __slots__ = ("_busy", "_carry_out", "_events", "_is_stopping", "_lock", "_threads")

    def __init__(
        self, carry_out: "Callable[[Action], Done]", events: "Events", is_stopping: "Callable[[], bool]"
    ) -> None:
        self._carry_out = carry_out
        self._events = events
        self._is_stopping = is_stopping
        self._lock = Lock()
        self._busy: set[tuple[ActionKind, str]] = set()
        self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="ledgerfs-lifecycle-broker")

    @property
    def is_idle(self) -> bool:
        """Whether no broker is at work."""
        with self._lock:
            return not self._busy

    def begin(self, action: "Action") -> None:
        """Have a broker do it, unless one is at this topic already."""
        about = action.kind, action.managed_ledger or ""
        with self._lock:
            if about in self._busy:
                return
            self._busy.add(about)
        self._threads.submit(self._run, action)

    def stop(self) -> None:
        """Begin nothing more; what brokers are at, they go on with."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, action: "Action") -> None:
        what, name = action.kind.value, action.managed_ledger or ""
        try:
            if self._is_stopping():
                return
            done = self._carry_out(action)
        except LedgerfsError as error:
            self._events.trouble(f"{what} {name} by its broker: {error}")
        except Exception as error:
            # Nobody looks at what a thread of a pool raises: it would be left out without a word.
            self._events.trouble(f"{what} {name} by its broker: {error!r}")
            raise
        else:
            self._events.did(_DONE[action.kind], name, done.ledger_ids, done.size)
            for ledger_id, why in done.postponed.items():
                self._events.trouble(f"{what} {name} by its broker, ledger {ledger_id}: {why}")
            for remark in done.remarks:
                self._events.trouble(remark)
        finally:
            with self._lock:
                self._busy.discard((action.kind, name))
