"""What a broker tells of its offload of a topic (``GET …/offload``); it forgets that when it unloads the topic."""

from dataclasses import dataclass
from enum import Enum

from ledgerfs.display import printable
from ledgerfs.storage.admin_api.answer import Answer

_MOST_ERROR = 500


class OffloadState(Enum):
    """Pulsar's ``LongRunningProcessStatus.Status``."""

    NOT_RUN = "NOT_RUN"
    """None since the topic was loaded: an earlier one may have been done."""
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class OffloadStatus:
    """The last offload of a topic.

    Attributes
    ----------
    last_error
        What the broker says went wrong; empty where nothing did.

    """

    state: OffloadState
    last_error: str = ""


def offload_status_in(answer: Answer) -> OffloadStatus:
    """Return the status of an answer; raises `AdminApiError` for what is none."""
    told = answer.require_ok().json()
    state = told.get("status") if isinstance(told, dict) else None
    if state not in {one.value for one in OffloadState}:
        raise answer.unexpected("no status of an offload")
    return OffloadStatus(OffloadState(state), _text(told.get("lastError")))


def _text(error: object) -> str:
    return printable(error[:_MOST_ERROR]) if isinstance(error, str) else ""
