"""Having a broker offload, trim and unload topics (``PUT …/offload``, ``POST …/trim``, ``PUT …/unload``).

The broker that is asked leads to the one that has the topic. Each of these loads the topic where no broker has it, and so does asking how
an offload goes; asking for a topic's bundle does not. What a broker reports is not what counts: `outcomes.py` looks
at the list of ledgers afterwards.
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
"""Pulsar's ``LongRunningProcessStatus.Status``; where none was run since the topic was loaded, an earlier one may have been done."""


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

        Raises
        ------
        BrokerOffloadError
            It failed; with the broker's own error. Or it was refused because of another one, again and again, and by the broker's own word
            there is none.
        OffloadRunningError
            It goes on, or an earlier one, but is not waited for: it took longer than ``longest_s``, or `is_stopping`.

        """
        until, pause = self._clock() + longest_s, _FIRST_LOOK_S
        is_ours, is_running, refused = False, False, 0
        while True:
            if not (is_ours or is_running):
                is_ours = self.begin_offload(managed_ledger, up_to)
            # How an earlier one ended is the matter of whoever asked for it.
            state, error = self.offload_status(managed_ledger)
            is_running = state == "RUNNING"
            if is_ours and not is_running:
                break
            refused = 0 if is_running else refused + 1
            if refused > _MOST_REFUSED:
                reason = "its broker refuses because of another offload, and says that there is none"
                raise BrokerOffloadError(reason, key=topic_of(managed_ledger))
            self._require_patience(managed_ledger, until)
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK_S)
        if state == "ERROR":
            raise BrokerOffloadError(
                f"the broker's offload failed: {error or 'it gives no reason'}", key=topic_of(managed_ledger)
            )

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

    def offload_status(self, managed_ledger: str) -> tuple[str, str]:
        """Return the state of the topic's last offload, and what the broker says went wrong; empty where nothing did. Loads the topic.

        A broker forgets it with the topic. Raises `AdminApiError` for what is no status.
        """
        answer = self._requests.get(f"{topic_path(managed_ledger)}/offload").require_ok()
        told = answer.json()
        state = told.get("status") if isinstance(told, dict) else None
        if state not in _STATES:
            raise answer.unexpected("no status of an offload")
        return str(state), _text(told.get("lastError"))

    def trim(self, managed_ledger: str) -> None:
        """Have deleted what is past retention, and copies of BookKeeper's past their lag; brokers refuse it of topics with V1 names."""
        # A second trim finds nothing left.
        self._requests.change("POST", f"{topic_path(managed_ledger)}/trim", is_repeatable=True).require_ok()

    def unload(self, managed_ledger: str) -> None:
        """Have a topic closed, so that its broker reads the list again; its clients wait meanwhile."""
        # Twice in a row is worse than once: it is never sent again by itself.
        self._requests.change("PUT", f"{topic_path(managed_ledger)}/unload", is_repeatable=False).require_ok()

    def _require_patience(self, managed_ledger: str, until: float) -> None:
        """Raise `OffloadRunningError` once a broker is not to be waited for any longer."""
        if self._is_stopping():
            raise OffloadRunningError(
                "the broker goes on with its offload, if it has one", key=topic_of(managed_ledger)
            )
        if self._clock() >= until:
            reason = "the broker's offload is not done yet, and was not waited for any longer; it goes on"
            raise OffloadRunningError(reason, key=topic_of(managed_ledger))


def _text(error: object) -> str:
    return printable(error[:_MOST_ERROR]) if isinstance(error, str) else ""


def topic_path(managed_ledger: str) -> str:
    """Return the path of a topic, ``/admin/v2/persistent/…``; a partition is a topic. Raises `InvalidNameError` for what is no topic's.

    Names with a cluster in them (V1) are known to the first version of the API alone.
    """
    name = parse_managed_ledger_name(managed_ledger)
    if name is None:
        raise InvalidNameError("not the managed ledger of a topic, so no broker has it", key=managed_ledger)
    namespace = name.namespace if name.cluster is None else f"{name.cluster}/{name.namespace}"
    version = "/admin/v2" if name.cluster is None else "/admin"
    return f"{version}/persistent/{name.tenant}/{namespace}/{quote(decode_topic(name.encoded_topic), safe='')}"
