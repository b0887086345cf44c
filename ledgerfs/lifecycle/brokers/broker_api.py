"""Having a broker offload, trim and unload topics (``PUT …/offload``, ``POST …/trim``, ``PUT …/unload``).

The broker that is asked leads to the one that has the topic. Each of these loads the topic where no broker has it, and so does asking how
an offload goes; asking for a topic's bundle does not. What a broker reports is not what counts: `ledgerfs.lifecycle.brokers.outcomes` looks
at the list of ledgers afterwards.
"""

import time
from collections.abc import Callable
from typing import Any, Protocol

from ledgerfs.errors import (
    AccessDeniedError,
    AdminApiUnreachableError,
    BrokerOffloadError,
    InvalidNameError,
    NotFoundError,
    OffloadRunningError,
    UnsupportedWriteError,
)
from ledgerfs.formats.managed_ledgers.managed_ledger_info import Position
from ledgerfs.formats.topic_names import topic_of
from ledgerfs.lifecycle.brokers.offload_status import OffloadState, OffloadStatus, offload_status_in
from ledgerfs.lifecycle.brokers.topic_pace import MINUTE_S, TopicPace
from ledgerfs.lifecycle.brokers.topic_paths import is_legacy, topic_path
from ledgerfs.storage.admin_api.answer import Answer

OnStatus = Callable[[OffloadStatus], None]
"""Called each time that a broker told how its offload goes."""

_ONE_RUNS = 409
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.1, 5.0
_LONGEST_OFFLOAD_S = 6 * 3600.0
_NOT_DONE = (AdminApiUnreachableError, AccessDeniedError, NotFoundError, InvalidNameError)


class Requests(Protocol):
    """Requests to one broker, which leads to the others (`ledgerfs.storage.admin_api.admin_requests.AdminRequests`)."""

    def get(self, path: str) -> Answer:
        """Return the answer to a GET."""

    def told(self, path: str) -> Any:  # noqa: ANN401  (JSON)
        """Return the value that a GET is answered with."""

    def change(self, method: str, path: str, value: object = None, *, is_repeatable: bool) -> Answer:
        """Have something done."""


class BrokerApi:
    """Asks brokers by one of them; safe in threads.

    All methods raise `UncertainRequestError` where it is not known whether the broker did it, `AdminApiError` and its other kinds,
    `AuthenticationError`, `AccessDeniedError`, `NotFoundError` (no such topic) and `InvalidNameError`.

    Parameters
    ----------
    requests
        To any broker of the cluster.
    clock, sleep
        Seconds that only grow, and what waits for some.
    is_stopping
        Whether offloads are to be waited for no longer; brokers go on with them.

    """

    __slots__ = ("_clock", "_is_stopping", "_requests", "_sleep", "_unloads")

    def __init__(
        self,
        requests: Requests,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._sleep = sleep
        self._is_stopping = is_stopping
        self._unloads = TopicPace(MINUTE_S, clock)

    def offload(
        self,
        managed_ledger: str,
        up_to: Position,
        *,
        longest_s: float = _LONGEST_OFFLOAD_S,
        on_status: OnStatus | None = None,
    ) -> None:
        """Have all ledgers before that of a position offloaded, and wait until the broker says that it is done.

        One that runs already is waited for, and then it is asked again, since that one may have been asked for less. A broker that has
        forgotten the offload, as the topic was unloaded or has another owner, ends the waiting, too: the list tells what was done.

        Parameters
        ----------
        managed_ledger
            Of the topic, or of one partition.
        up_to
            In the ledger before which all are offloaded; with that of the greatest id, all that can be.
        longest_s
            How many seconds are waited at most.
        on_status
            Told what the broker tells.

        Raises
        ------
        BrokerOffloadError
            It failed; with the broker's own error. Or it was refused because of another one, again and again, and by the broker's own word
            there is none.
        OffloadRunningError
            It goes on, or an earlier one, but is not waited for: it took longer than ``longest_s``, or `is_stopping`.

        """
        until, pause = self._clock() + longest_s, _FIRST_LOOK_S
        while not self.begin_offload(managed_ledger, up_to):
            # How the earlier one ended is the matter of whoever asked for it.
            _, has_waited = self._ended(managed_ledger, until, on_status)
            if has_waited:
                pause = _FIRST_LOOK_S
                continue
            self._require_patience(managed_ledger, until)
            if pause > _LONGEST_LOOK_S:
                reason = "its broker refuses because of another offload, and says that there is none"
                raise BrokerOffloadError(reason, key=topic_of(managed_ledger))
            self._sleep(pause)
            self._require_patience(managed_ledger, until)
            pause *= 2
        status, _ = self._ended(managed_ledger, until, on_status)
        if status.state is OffloadState.ERROR:
            reason = status.last_error or "it gives no reason"
            raise BrokerOffloadError(f"the broker's offload failed: {reason}", key=topic_of(managed_ledger))

    def begin_offload(self, managed_ledger: str, up_to: Position) -> bool:
        """Have a broker begin to offload all ledgers before that of a position; return False if it is at one of this topic already."""
        position = {"ledgerId": up_to.ledger_id, "entryId": 0, "partitionIndex": -1}
        # What is offloaded is not offloaded again, and there is one offload of a topic at a time.
        answer = self._requests.change("PUT", f"{topic_path(managed_ledger)}/offload", position, is_repeatable=True)
        if answer.status == _ONE_RUNS:
            # It may be the one that was asked for by a request whose answer was lost.
            return answer.is_repeated
        answer.require_ok()
        return True

    def offload_status(self, managed_ledger: str) -> OffloadStatus:
        """Return what the topic's broker tells of its last offload; loads the topic."""
        return offload_status_in(self._requests.get(f"{topic_path(managed_ledger)}/offload"))

    def trim(self, managed_ledger: str) -> None:
        """Have deleted what is past retention, and copies of BookKeeper's past their lag.

        Raises `UnsupportedWriteError` for topics with V1 names, which brokers do not trim on request.
        """
        if is_legacy(managed_ledger):
            raise UnsupportedWriteError(
                "brokers trim no topic of a V1 name on request, but by themselves while it is used",
                key=topic_of(managed_ledger),
            )
        # A second trim finds nothing left.
        self._requests.change("POST", f"{topic_path(managed_ledger)}/trim", is_repeatable=True).require_ok()

    def unload(self, managed_ledger: str) -> None:
        """Have a topic closed, so that its broker reads the list again; at most once a minute, since its clients wait each time.

        Raises `TooSoonError` within a minute of the last one, also if it is not known whether that was done.
        """
        path = f"{topic_path(managed_ledger)}/unload"
        self._unloads.take(managed_ledger)
        try:
            # Twice in a row is worse than once: it is never sent again by itself.
            self._requests.change("PUT", path, is_repeatable=False).require_ok()
        except _NOT_DONE:
            self._unloads.give_back(managed_ledger)
            raise

    def _ended(self, managed_ledger: str, until: float, on_status: OnStatus | None) -> tuple[OffloadStatus, bool]:
        """Wait until a topic's broker is at no offload; return what it told last, and whether it was at one."""
        pause, has_waited = _FIRST_LOOK_S, False
        while True:
            status = self.offload_status(managed_ledger)
            if on_status is not None:
                on_status(status)
            if status.state is not OffloadState.RUNNING:
                return status, has_waited
            has_waited = True
            self._require_patience(managed_ledger, until)
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_S)

    def _require_patience(self, managed_ledger: str, until: float) -> None:
        """Raise `OffloadRunningError` once a broker is not to be waited for any longer."""
        if self._is_stopping():
            raise OffloadRunningError(
                "the broker goes on with its offload, if it has one", key=topic_of(managed_ledger)
            )
        if self._clock() >= until:
            reason = "the broker's offload is not done yet, and was not waited for any longer; it goes on"
            raise OffloadRunningError(reason, key=topic_of(managed_ledger))
