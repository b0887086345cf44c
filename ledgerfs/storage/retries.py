"""Retry failed requests, within a time limit.

The time is bounded, not the number of tries: many tries if the store refuses quickly, few if it hangs, and an error in bounded time. The
clock is monotonic, so a change of the time of day has no effect.
"""

import asyncio
import math
import os
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ledgerfs.errors import LedgerfsError, StoreTimeoutError, WrongBodyError
from ledgerfs.storage.failures import BROKEN_BODY, BUSY, TIMEOUT, UNREACHABLE, answer_of, code_of, names_of, status_of

Result = TypeVar("Result")
OnRetry = Callable[[Exception, int, float, float], None]
"""Called with the error, the number of the try, seconds since the first one, and seconds until the next."""

TIMEOUT_VARIABLE = "LEDGERFS_STORE_TIMEOUT"
_TIMEOUT_SECONDS = 60.0
# A store that never answered is probably missing, not restarting; report a wrong endpoint soon.
_FIRST_CONTACT_SECONDS = 5.0
_SECONDS_PER_BYTE = 4 / (1 << 20)
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 5.0
_STEP_SECONDS = 0.05
_TRANSIENT_STATUS = frozenset({429, 500, 502, 503, 504})
_TRANSIENT_CODES = frozenset(
    {
        "InternalError",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
        "XAmzContentSHA256Mismatch",
    }
)
_UNPARSED = frozenset({"ResponseParserError"})  # answer of a proxy in front of an overloaded store


def store_timeout() -> float:
    """Return the time limit of one request in seconds: ``LEDGERFS_STORE_TIMEOUT``, default 60."""
    try:
        seconds = float(os.environ.get(TIMEOUT_VARIABLE, ""))
    except ValueError:
        return _TIMEOUT_SECONDS
    return seconds if 0 < seconds < math.inf else _TIMEOUT_SECONDS


class Tries:
    """The tries of one request for ``size`` bytes.

    Each MiB adds four seconds to the time limit, so that large reads over a slow connection succeed.
    """

    __slots__ = ("_began", "_bound", "_clock", "_first_contact", "_timeout", "number")

    def __init__(
        self, size: int = 0, *, is_first_contact: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._began = clock()
        self._timeout = store_timeout()
        self._bound = self._timeout + size * _SECONDS_PER_BYTE
        self._first_contact = min(self._bound, _FIRST_CONTACT_SECONDS) if is_first_contact else self._bound
        self.number = 1

    @property
    def seconds(self) -> float:
        """Seconds since the first try began."""
        return self._clock() - self._began

    @property
    def patience(self) -> float:
        """Idle timeout of a try in seconds: a quarter of the time limit, to leave time for other tries."""
        return max(0.0, min(self._timeout / 4, self._bound - self.seconds))

    @property
    def rest(self) -> float:
        """Seconds left for the request."""
        return max(0.0, self._bound - self.seconds)

    def delay_after(self, error: Exception) -> float | None:
        """Count the next try and return the seconds to wait before it; None if there is no further try."""
        if not is_transient(error):
            return None
        bound = self._first_contact if _is_unconnected(error) else self._bound
        # Jitter spreads the tries of many readers; a bounded exponent suffices to reach the longest delay.
        delay = min(_LONGEST_DELAY, _FIRST_DELAY * 2.0 ** min(self.number - 1, 16)) * random.uniform(0.5, 1.0)  # noqa: S311
        delay = max(delay, min(_retry_after(error), self._timeout / 4))
        # A try without enough time would only replace the error with a less helpful time-out.
        if self.seconds + delay + min(self._timeout, bound) / 4 >= bound:
            return None
        self.number += 1
        return delay

    def given_up(self, last: Exception, error: LedgerfsError) -> LedgerfsError:
        """Return ``error`` with the number of tries, if there were several."""
        if self.number == 1 or not is_transient(last):
            return error
        reason = f"{error.reason}; tried {self.number} times in {self.seconds:.0f} s"
        return type(error)(reason, key=error.key, offset=error.offset)


def retry(
    attempt: Callable[[], Result],
    tries: Tries,
    on_retry: OnRetry,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Call ``attempt`` until it succeeds; raises its last error when no try is left."""
    while True:
        number = tries.number
        try:
            return attempt()
        except Exception as error:
            delay = tries.delay_after(error)
            if delay is None:
                raise
            on_retry(error, number, tries.seconds, delay)
        sleep(delay)


async def retry_async(
    attempt: Callable[[], Awaitable[Result]],
    tries: Tries,
    on_retry: OnRetry,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Result:
    """Do the same in an event loop, while ``is_wanted`` holds."""
    while True:
        number = tries.number
        try:
            return await attempt()
        except Exception as error:
            delay = tries.delay_after(error) if is_wanted() else None
            if delay is None:
                raise
            on_retry(error, number, tries.seconds, delay)
            while delay > 0 and is_wanted():
                await sleep(min(delay, _STEP_SECONDS))
                delay -= _STEP_SECONDS
            if not is_wanted():
                raise


def is_transient(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, LedgerfsError):
        return isinstance(error, WrongBodyError | StoreTimeoutError)
    if isinstance(error, FileNotFoundError | PermissionError):
        return False
    if status_of(error) in _TRANSIENT_STATUS or code_of(error) in _TRANSIENT_CODES:
        return True
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    if names_of(error) & (TIMEOUT | UNREACHABLE | BROKEN_BODY | _UNPARSED):
        return True
    return isinstance(error, OSError) and error.errno in BUSY


def _is_unconnected(error: BaseException) -> bool:
    """Return whether no connection was made; botocore's class also covers broken connections, so this checks the cause."""
    inner = getattr(error, "kwargs", None)
    cause = inner.get("error") if isinstance(inner, dict) else None
    names = names_of(error) | (names_of(cause) if isinstance(cause, BaseException) else frozenset())
    return isinstance(error, ConnectionRefusedError) or bool(
        names & {"ClientConnectorError", "gaierror", "ConnectTimeoutError"}
    )


def _retry_after(error: BaseException) -> float:
    """Return the seconds of the store's ``Retry-After``; ignores a time of day, since clocks differ and jump."""
    headers = answer_of(error).get("ResponseMetadata", {}).get("HTTPHeaders", {})
    try:
        return max(0.0, float(headers.get("retry-after", 0)))
    except ValueError:
        return 0.0
