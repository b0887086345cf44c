"""A time-out for a try that hangs, before the store's answer or in the middle of a body."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ledgerfs.errors import StoreTimeoutError
from ledgerfs.storage.retries import Tries
from ledgerfs.storage.sent_requests import Asked


class Silence:
    """A time-out that restarts whenever the store sends something."""

    __slots__ = ("_heard", "_loop", "_patience", "_timeout")

    def __init__(self, timeout: asyncio.Timeout, patience: float) -> None:
        self._timeout = timeout
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()

    def broken(self) -> None:
        """Restart the time-out, since the store sent something."""
        now = self._loop.time()
        # A body arrives in hundreds of pieces; moving the time-out for each costs too much.
        if now - self._heard > self._patience / 4:
            self._timeout.reschedule(now + self._patience)
            self._heard = now

    def end(self) -> None:
        """End the time-out, since a client with its own begins to read."""
        self._timeout.reschedule(None)


@asynccontextmanager
async def bounded(tries: Tries, asked: Asked) -> AsyncIterator[Silence]:
    """Bound one try by the idle timeout (`Tries.patience`) and by the time left for the request."""
    patience = tries.patience
    whole, quiet = asyncio.timeout(tries.rest), asyncio.timeout(patience)
    try:
        async with whole, quiet:
            yield Silence(quiet, patience)
    except TimeoutError as error:
        if quiet.expired():
            reason = f"the store sent nothing for {patience:.1f} s"
        elif whole.expired():
            reason = "the store did not send all bytes in time"
        else:
            raise
        raise StoreTimeoutError(reason, key=asked.key, offset=asked.offset) from error
