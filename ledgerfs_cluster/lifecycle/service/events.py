"""Finished work and errors of the service, for its log and its status."""

import logging
import time
from collections import Counter
from dataclasses import dataclass
from threading import Lock

from ledgerfs_cluster.offload.outcomes import Outcome, Status

_log = logging.getLogger("ledgerfs.lifecycle")
_MOST_TROUBLES = 50
"""Most errors in the status."""
_MOST_KNOWN = 10_000
"""Errors that are not logged again; more than in the status, since an iteration may have more."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """An error or a warning for the user: its last time, ms since 1970 UTC, and how often it occurred."""

    when_ms: int
    text: str
    times: int = 1


class Events:
    """Counts finished work, and keeps the latest errors. Thread-safe."""

    __slots__ = ("_counts", "_lock", "_offloaded", "_troubles")

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._offloaded: set[int] = set()
        # The latest last.
        self._troubles: dict[tuple[str, str], Trouble] = {}

    def note(self, outcome: Outcome) -> None:
        """Count finished work, or log an error; one with the same code and subject as before is only counted."""
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
        """Forget that these were offloaded: a newer plan has used lists that contain it."""
        with self._lock:
            self._offloaded -= ids

    def offloaded(self) -> set[int]:
        """Return the offloaded ledgers that are not forgotten."""
        with self._lock:
            return set(self._offloaded)

    def counts(self) -> dict[str, int]:
        """Return ledgers and bytes of each kind of work since the service started."""
        with self._lock:
            return dict(self._counts)

    def troubles(self) -> list[Trouble]:
        """Return the latest errors, the oldest first."""
        with self._lock:
            return list(self._troubles.values())[-_MOST_TROUBLES:]
