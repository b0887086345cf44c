"""Renew credentials that expire while a process runs, once before a refusal is final.

A session token lasts for hours, a mount or a stream for weeks. A new session of the client gets the next token from its source (a
rewritten file, a web identity, a `credential_process`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from ledgerfs.storage.failures import may_be_credentials

Result = TypeVar("Result")

_SECONDS_BETWEEN = 5.0
"""Least time between renewals: one of many refused requests renews; if the store refuses the new credentials too, that is final."""


class CredentialsRenewal:
    """Retry refused requests once with new credentials. For tasks of one event loop.

    Parameters
    ----------
    renew
        Makes all clients of the store resolve their credentials again.

    """

    __slots__ = ("_clock", "_count", "_last", "_locks", "_renew")

    def __init__(self, renew: Callable[[], Awaitable[None]], clock: Callable[[], float] = time.monotonic) -> None:
        self._renew = renew
        self._clock = clock
        # A forked child has its own loop, and must not wait for its parent.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._count = 0
        self._last: float | None = None

    async def tried(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of ``attempt``; call it again if the store refused its credentials and newer ones may exist."""
        count = self._count
        try:
            return await attempt()
        except Exception as error:
            if not (may_be_credentials(error) and await self._is_renewed_since(count)):
                raise
        return await attempt()

    async def _is_renewed_since(self, count: int) -> bool:
        """Renew, unless another request has done so since ``count``; return whether the credentials are newer."""
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._count != count:
                return True
            if self._last is not None and self._clock() - self._last < _SECONDS_BETWEEN:
                return False
            self._last = self._clock()
            await self._renew()
            self._count += 1
            return True
