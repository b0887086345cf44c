"""Have a broker offload, trim and unload topics (``PUT …/offload``, ``POST …/trim``, ``PUT …/unload``).

Any broker redirects to the owner of the topic. Each of these requests loads the topic if no broker has it, and so does the status of an
offload; the request for a topic's bundle does not. Do not rely on a broker's report: `outcomes.py` checks the ledger list afterwards.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from ledgerfs.display import printable
from ledgerfs.errors import InvalidNameError
from ledgerfs.formats.topic_names import decode_topic, parse_managed_ledger_name, topic_of
from ledgerfs_cluster.errors import BrokerOffloadError, OffloadRunningError
from ledgerfs_cluster.formats.managed_ledgers.managed_ledger_info import Position

if TYPE_CHECKING:
    from ledgerfs_cluster.pulsar_admin.admin_requests import AdminRequests

_ONE_RUNS = 409
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.1, 5.0
_MOST_REFUSED = 6
_LONGEST_OFFLOAD_S = 6 * 3600.0
_MOST_ERROR = 500


_STATES = frozenset({"NOT_RUN", "RUNNING", "SUCCESS", "ERROR"})
"""Pulsar's ``LongRunningProcessStatus.Status``; NOT_RUN only counts since the topic was loaded, and forgets earlier runs."""


class BrokerApi:
    """Sends requests to brokers through one of them; thread-safe.

    All methods raise `UncertainRequestError` if the broker may or may not have done it, `AdminApiError` and its other kinds,
    `AuthenticationError`, `AccessDeniedError`, `NotFoundError` (no such topic) and `InvalidNameError`.

    Parameters
    ----------
    requests
        To any broker of the cluster.
    clock, sleep
        Monotonic seconds, and the function that waits for some.
    is_stopping
        Whether to stop waiting for offloads; brokers continue with them.

    """

    __slots__ = ("_clock", "_is_stopping", "_requests", "_sleep")

    def __init__(
        self,
        requests: "AdminRequests",
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._sleep = sleep
        self._is_stopping = is_stopping

    def offload(self, managed_ledger: str, up_to: Position, *, longest_s: float = _LONGEST_OFFLOAD_S) -> None:
        """Have all ledgers before that of a position offloaded, and wait until the broker reports the end.

        Waits for a running offload, then asks again, since that one may cover less. Waiting also ends when a broker has forgotten the
        offload, because the topic was unloaded or has another owner: check the ledger list for the result.

        Parameters
        ----------
        managed_ledger
            Of the topic, or of one partition.
        up_to
            A position in the ledger before which all are offloaded; with the greatest id, all that can be.
        longest_s
            Most seconds to wait.

        Raises
        ------
        BrokerOffloadError
            It failed; with the broker's own error. Or the broker kept refusing it because of another offload, while it reported that none
            runs.
        OffloadRunningError
            This offload or an earlier one still runs after ``longest_s``, or `is_stopping`.

        """
        until, pause = self._clock() + longest_s, _FIRST_LOOK_S
        is_ours, is_running, refused = False, False, 0
        while True:
            if not (is_ours or is_running):
                is_ours = self.begin_offload(managed_ledger, up_to)
            # The result of an earlier offload does not matter here.
            state, error = self.offload_status(managed_ledger)
            is_running = state == "RUNNING"
            if is_ours and not is_running:
                break
            refused = 0 if is_running else refused + 1
            if refused > _MOST_REFUSED:
                reason = (
                    "its broker refuses with the reason that another offload is running, but reports no running offload"
                )
                raise BrokerOffloadError(reason, key=topic_of(managed_ledger))
            self._require_patience(managed_ledger, until)
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_S)
        if state == "ERROR":
            raise BrokerOffloadError(
                f"the broker's offload failed: {error or 'the broker reports no reason'}", key=topic_of(managed_ledger)
            )

    def begin_offload(self, managed_ledger: str, up_to: Position) -> bool:
        """Have a broker start to offload all ledgers before a position; return False if it is already offloading this topic."""
        position = {"ledgerId": up_to.ledger_id, "entryId": 0, "partitionIndex": -1}
        # Offloaded ledgers are skipped, and a topic has one offload at a time.
        answer = self._requests.change("PUT", f"{topic_path(managed_ledger)}/offload", position, is_repeatable=True)
        if answer.status == _ONE_RUNS:
            # It may be the offload of an earlier request whose answer was lost.
            return answer.is_repeated
        answer.require_ok()
        return True

    def offload_status(self, managed_ledger: str) -> tuple[str, str]:
        """Return the state of the topic's last offload, and the broker's error; empty without one. Loads the topic.

        A broker forgets it with the topic. Raises `AdminApiError` for any other answer.
        """
        answer = self._requests.get(f"{topic_path(managed_ledger)}/offload").require_ok()
        reported = answer.json()
        state = reported.get("status") if isinstance(reported, dict) else None
        if state not in _STATES:
            raise answer.unexpected("no status of an offload")
        return str(state), _text(reported.get("lastError"))

    def trim(self, managed_ledger: str) -> None:
        """Have ledgers past retention deleted, and BookKeeper's copies past their lag; brokers refuse it for topics with V1 names."""
        # A second trim does nothing.
        self._requests.change("POST", f"{topic_path(managed_ledger)}/trim", is_repeatable=True).require_ok()

    def unload(self, managed_ledger: str) -> None:
        """Have a topic closed, so that its broker reads the list again; its clients wait meanwhile."""
        # Each unload interrupts clients: never repeat it automatically.
        self._requests.change("PUT", f"{topic_path(managed_ledger)}/unload", is_repeatable=False).require_ok()

    def _require_patience(self, managed_ledger: str, until: float) -> None:
        """Raise `OffloadRunningError` once waiting for the broker has to end."""
        if self._is_stopping():
            raise OffloadRunningError(
                "ledgerfs stops waiting for the broker's offload; if one is running, it continues",
                key=topic_of(managed_ledger),
            )
        if self._clock() >= until:
            reason = "the broker's offload takes longer than the time limit; it continues, but ledgerfs no longer waits for it"
            raise OffloadRunningError(reason, key=topic_of(managed_ledger))


def _text(error: object) -> str:
    return printable(error[:_MOST_ERROR]) if isinstance(error, str) else ""


def topic_path(managed_ledger: str) -> str:
    """Return the path of a topic, ``/admin/v2/persistent/…``; a partition is a topic. Raises `InvalidNameError` for any other name.

    Only the first version of the API accepts names with a cluster in them (V1).
    """
    name = parse_managed_ledger_name(managed_ledger)
    if name is None:
        raise InvalidNameError("not the managed ledger of a topic", key=managed_ledger)
    namespace = name.namespace if name.cluster is None else f"{name.cluster}/{name.namespace}"
    version = "/admin/v2" if name.cluster is None else "/admin"
    return f"{version}/persistent/{name.tenant}/{namespace}/{quote(decode_topic(name.encoded_topic), safe='')}"
