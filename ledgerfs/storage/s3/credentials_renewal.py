"""Credentials that end while a process runs: before a refusal is final, they are resolved once more.

A session token lasts for hours, a mount or a stream for weeks. What issues the next token (a rewritten file, a web identity, a
`credential_process`) is asked when a new session of the client is made.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from ledgerfs.storage.failures import may_be_credentials

Result = TypeVar("Result")

_SECONDS_BETWEEN = 5.0
"""Many requests are refused at a time: of these one renews, and if the new credentials are refused, too, the refusal is final."""


class CredentialsRenewal:
    """Tries refused requests once more with new credentials. For tasks of one event loop.

    Parameters
    ----------
    renew
        Has all clients of the store resolve their credentials again.

    """

    __slots__ = ("_clock", "_count", "_last", "_locks", "_renew")

    def __init__(self, renew: Callable[[], Awaitable[None]], clock: Callable[[], float] = time.monotonic) -> None:
        self._renew = renew
        self._clock = clock
        # A forked child has another loop, and must not wait for its parent.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._count = 0
        self._last: float | None = None

    async def tried(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Return what ``attempt`` does; call it again if its credentials were refused and there may be newer ones."""
        count = self._count
        try:
            return await attempt()
        except Exception as error:
            if not (may_be_credentials(error) and await self._is_renewed_since(count)):
                raise
        return await attempt()

    async def _is_renewed_since(self, count: int) -> bool:
        """Renew, unless another request has done so since ``count``; return whether the credentials are newer ones."""
        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if self._count != count:
                return True
            if self._last is not None and self._clock() - self._last < _SECONDS_BETWEEN:
                return False
            self._last = self._clock()
            await self._renew()
            self._count += 1
            return True
