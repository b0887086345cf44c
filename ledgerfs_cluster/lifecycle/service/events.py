"""What the service has done and met, for its log and its status."""

import logging
import time
from collections import Counter
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache

from ledgerfs_cluster.offload.outcomes import Outcome, Status

_log = logging.getLogger("ledgerfs.lifecycle")
_MOST_TROUBLES = 50
_MOST_LOGGED = 10_000
"""Troubles that are not logged again; more than are kept, since a pass may meet more."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that went wrong, or that somebody has to know: when last, ms since 1970 UTC, and how often."""

    when_ms: int
    text: str
    times: int = 1


class Events:
    """Counts what is done, and keeps the latest troubles. For all threads."""

    __slots__ = ("_counts", "_forgotten", "_lock", "_logged", "_offloaded", "_troubles")

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._offloaded: set[int] = set()
        self._troubles: dict[tuple[str, str], Trouble] = {}
        self._logged: LRUCache[tuple[str, str], bool] = LRUCache(_MOST_LOGGED)
        self._forgotten = 0

    @property
    def forgotten(self) -> int:
        """How many troubles were more than are kept; each was logged."""
        return self._forgotten

    def note(self, outcome: Outcome) -> None:
        """Count what was done, or log what was not; one of the same code and subject as before is counted, and not logged again."""
        if outcome.status is not Status.OK:
            self._trouble((outcome.code, outcome.subject), outcome.message)
        elif outcome.ledger_ids:
            with self._lock:
                self._counts[f"{outcome.code}_ledgers"] += len(outcome.ledger_ids)
                self._counts[f"{outcome.code}_bytes"] += outcome.size
                if outcome.code == "offloaded":
                    self._offloaded.update(outcome.ledger_ids)
            ids = ", ".join(map(str, outcome.ledger_ids))
            _log.info("%s: %s: ledgers %s (%s bytes)", outcome.code, outcome.subject, ids, f"{outcome.size:,}")

    def _trouble(self, about: tuple[str, str], text: str) -> None:
        with self._lock:
            before = self._troubles.pop(about, None)
            times = 1 if before is None else before.times + 1
            self._troubles[about] = Trouble(time.time_ns() // 1_000_000, text, times)
            while len(self._troubles) > _MOST_TROUBLES:
                del self._troubles[next(iter(self._troubles))]
                self._forgotten += 1
            is_logged = self._logged.get(about, False)
            self._logged[about] = True
        if not is_logged:
            _log.warning("%s", text)

    def forget_offloaded(self, ids: set[int]) -> None:
        """Forget that these were offloaded: a plan that was made since goes by lists that have them so."""
        with self._lock:
            self._offloaded -= ids

    def offloaded(self) -> set[int]:
        """Return the ledgers that were offloaded, and are not forgotten."""
        with self._lock:
            return set(self._offloaded)

    def counts(self) -> dict[str, int]:
        """Return how many ledgers and bytes of each kind were done since the service began."""
        with self._lock:
            return dict(self._counts)

    def troubles(self) -> list[Trouble]:
        """Return the latest troubles, the oldest first."""
        with self._lock:
            return list(self._troubles.values())
