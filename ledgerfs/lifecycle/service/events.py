"""What the service has done and met, for its log and its status."""

import logging
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from cachetools import LRUCache

from ledgerfs.offload.remarks import Remark

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

    __slots__ = ("_counts", "_forgotten", "_lock", "_logged", "_troubles")

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._troubles: dict[tuple[str, str], Trouble] = {}
        self._logged: LRUCache[tuple[str, str], bool] = LRUCache(_MOST_LOGGED)
        self._forgotten = 0

    @property
    def forgotten(self) -> int:
        """How many troubles were more than are kept; each was logged."""
        return self._forgotten

    def did(self, what: str, topic: str | None, ledger_ids: Iterable[int], size: int) -> None:
        """Note that something was done to ledgers of a topic, and to how many bytes."""
        ids = list(ledger_ids)
        if not ids:
            return
        with self._lock:
            self._counts[f"{what}_ledgers"] += len(ids)
            self._counts[f"{what}_bytes"] += size
        _log.info("%s: %s: ledgers %s (%s bytes)", what, topic or "-", ", ".join(map(str, ids)), f"{size:,}")

    def trouble(self, remark: Remark) -> None:
        """Note something that went wrong; one of the same code and subject as before is counted, and not logged again."""
        about, text = remark.about, str(remark)
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

    def counts(self) -> dict[str, int]:
        """Return how many ledgers and bytes of each kind were done since the service began."""
        with self._lock:
            return dict(self._counts)

    def troubles(self) -> list[Trouble]:
        """Return the latest troubles, the oldest first."""
        with self._lock:
            return list(self._troubles.values())
