"""Requests to a store: counted when sent, logged by ``ledgerfs.store`` when done.

Logs contain only keys, errors and the bucket's URL, without credentials. Ranges exclude their end, as in `ReadRequest`.
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

# From here on users should see why they wait.
_WARN_AFTER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to a store: ``GET``, ``HEAD``, ``LIST``, ``PUT``, ``POST`` or ``DELETE``, the object, and the bytes."""

    operation: str
    key: str
    start: int = 0
    end: int = 0

    @classmethod
    def to_read(cls, request: ReadRequest) -> "Asked":
        """Return the GET for a read."""
        return cls("GET", request.key, request.start, request.end)

    def __str__(self) -> str:
        return f"{self.operation} {self.key} {self.start}-{self.end}" if self.size else f"{self.operation} {self.key}"

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.start

    @property
    def offset(self) -> int | None:
        """Byte offset for errors of this request; None if it concerns the whole object."""
        return self.start if self.operation == "GET" else None

    def tell_retry(self, error: Exception, number: int, seconds: float, delay: float) -> None:
        """Log that try ``number`` failed, ``seconds`` after the first one began, and that the next one starts in ``delay`` seconds."""
        level = logging.INFO if seconds < _WARN_AFTER_SECONDS else logging.WARNING
        if logger.isEnabledFor(level):
            reason = _outcome(error, self.key)
            logger.log(level, "%s: try %d failed (%s), again in %.2f s", self, number, reason, delay)


class Sent:
    """One request under way, for ``with``. The reader of the bytes counts them in ``received``.

    ``failed`` is the error of a request that was made elsewhere.
    """

    __slots__ = ("_asked", "_began", "_number", "_traffic", "failed", "received")

    def __init__(self, asked: Asked, traffic: Traffic, number: int = 1) -> None:
        self._asked = asked
        self._traffic = traffic
        self._number = number
        self._began = 0.0
        self.failed: Exception | None = None
        self.received = 0

    def __enter__(self) -> Self:
        return self if self._began else self.begin()

    def begin(self) -> Self:
        """Count the request."""
        size, retries = self._asked.size, int(self._number > 1)
        if self._asked.operation == "PUT":
            self._traffic.count(requests=1, retries=retries, bytes_sent=size)
        else:
            self._traffic.count(requests=1, retries=retries, bytes_asked=size)
        self._began = time.monotonic()
        return self

    def take_failure(self) -> Exception | None:
        """Return ``failed`` once."""
        failed, self.failed = self.failed, None
        return failed

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(error)

    def end(self, error: BaseException | None = None) -> None:
        """Count and log the answer."""
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
