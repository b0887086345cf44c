"""What the service has done and met, for its log and its status."""

import logging
import time
from collections import Counter
from dataclasses import dataclass
from threading import Lock

from ledgerfs_cluster.offload.outcomes import Outcome, Status

_log = logging.getLogger("ledgerfs.lifecycle")
_MOST_TROUBLES = 50
"""Of the status."""
_MOST_KNOWN = 10_000
"""Troubles that are not logged again; more than the status has, since a pass may meet more."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that went wrong, or that somebody has to know: when last, ms since 1970 UTC, and how often."""

    when_ms: int
    text: str
    times: int = 1


class Events:
    """Counts what is done, and keeps the latest troubles. For all threads."""

    __slots__ = ("_counts", "_lock", "_offloaded", "_troubles")

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._offloaded: set[int] = set()
        # The latest last.
        self._troubles: dict[tuple[str, str], Trouble] = {}

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
            if len(self._troubles) > _MOST_KNOWN:
                del self._troubles[next(iter(self._troubles))]
        if before is None:
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
            return list(self._troubles.values())[-_MOST_TROUBLES:]
