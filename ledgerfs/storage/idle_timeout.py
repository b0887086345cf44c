"""The end of a try that a store lets hang: before its answer, or in the middle of a body."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ledgerfs.errors import StoreTimeoutError
from ledgerfs.storage.retries import Tries
from ledgerfs.storage.sent_requests import Asked


class Silence:
    """A time-out that begins anew with every word of the store."""

    __slots__ = ("_heard", "_loop", "_patience", "_timeout")

    def __init__(self, timeout: asyncio.Timeout, patience: float) -> None:
        self._timeout = timeout
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()

    def broken(self) -> None:
        """Tell that something came."""
        now = self._loop.time()
        # A body comes in hundreds of pieces; moving the time-out for each would cost more than it is worth.
        if now - self._heard > self._patience / 4:
            self._timeout.reschedule(now + self._patience)
            self._heard = now


@asynccontextmanager
async def bounded(tries: Tries, asked: Asked) -> AsyncIterator[Silence]:
    """Bound one try: by the patience with a silent store, and by the time that is left in all."""
    patience = tries.patience
    whole, quiet = asyncio.timeout(tries.rest), asyncio.timeout(patience)
    try:
        async with whole, quiet:
            yield Silence(quiet, patience)
    except TimeoutError as error:
        if quiet.expired():
            reason = f"the store sent nothing for {patience:.1f} s"
        elif whole.expired():
            reason = "the store did not send all of it in time"
        else:
            raise
        raise StoreTimeoutError(reason, key=asked.key, offset=asked.offset) from error
