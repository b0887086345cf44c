"""Every request to a store, counted when it is sent and told on the logger ``ledgerfs.store`` when it is done.

Keys, errors and the bucket's URL are all that is told; credentials are in none of them. Ranges are as in `ReadRequest`, without their end.
"""

import logging
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from ledgerfs.storage.failures import translate
from ledgerfs.storage.objects import ReadRequest
from ledgerfs.storage.traffic import Traffic

logger = logging.getLogger("ledgerfs.store")

# After this long somebody wonders why nothing happens.
_WARN_AFTER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What a store is asked for: ``GET``, ``HEAD``, ``LIST``, ``PUT``, ``POST``, ``DELETE``, of which object, of which bytes."""

    operation: str
    key: str
    start: int = 0
    end: int = 0

    @classmethod
    def to_read(cls, request: ReadRequest) -> "Asked":
        """Return the GET of some bytes."""
        return cls("GET", request.key, request.start, request.end)

    def __str__(self) -> str:
        return f"{self.operation} {self.key} {self.start}-{self.end}" if self.size else f"{self.operation} {self.key}"

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start

    @property
    def offset(self) -> int | None:
        """Where in the object an error of this request is; None when it is about the whole of it."""
        return self.start if self.operation == "GET" else None

    def tell_retry(self, error: Exception, number: int, seconds: float, delay: float) -> None:
        """Say that try ``number`` failed, ``seconds`` after the first one began, and when the next one follows."""
        level = logging.INFO if seconds < _WARN_AFTER_SECONDS else logging.WARNING
        if logger.isEnabledFor(level):
            reason = _outcome(error, self.key)
            logger.log(level, "%s: try %d failed (%s), again in %.2f s", self, number, reason, delay)


class Sent:
    """One request under way, for ``with``. Whoever receives bytes sets ``received``, as they come."""

    __slots__ = ("_asked", "_began", "_number", "_traffic", "received")

    def __init__(self, asked: Asked, traffic: Traffic, number: int = 1) -> None:
        self._asked = asked
        self._traffic = traffic
        self._number = number
        self._began = 0.0
        self.received = 0

    def __enter__(self) -> Self:
        way = "bytes_sent" if self._asked.operation == "PUT" else "bytes_asked"
        self._traffic.count(requests=1, retries=int(self._number > 1), **{way: self._asked.size})
        self._began = time.monotonic()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.received:
            self._traffic.count(bytes_received=self.received)
        if logger.isEnabledFor(logging.DEBUG):
            milliseconds = (time.monotonic() - self._began) * 1000
            outcome = _outcome(error, self._asked.key)
            text = "%s: %d bytes in %.1f ms, try %d: %s"
            logger.debug(text, self._asked, self.received, milliseconds, self._number, outcome)


def _outcome(error: BaseException | None, key: str) -> str:
    if error is None:
        return "ok"
    return translate(error, key).reason if isinstance(error, Exception) else "cancelled"
