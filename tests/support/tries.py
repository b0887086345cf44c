"""Requests that are tried again at once, until their time is over on a clock of the test's own."""

from collections.abc import Callable
from contextvars import ContextVar

import pytest

from ledgerfs.storage.retries import TIMEOUT_VARIABLE, Tries, retry, retry_async


class PausesOnly:
    """A clock on which only pauses take time; each thread, and each task of an event loop, has its own."""

    def __init__(self) -> None:
        self._now = ContextVar("now", default=1000.0)

    def __call__(self) -> float:
        return self._now.get()

    def sleep(self, seconds: float) -> None:
        self._now.set(self._now.get() + seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


def without_pauses(monkeypatch: pytest.MonkeyPatch, *, bound_s: float = 2, patience_s: float = 240) -> PausesOnly:
    """Have failed requests sent again at once, until the pauses between their tries would have taken ``bound_s``.

    So it is the number of tries that ends a request, four or five, and not how busy the machine is. Each try may take ``patience_s`` of
    real time, which is short only where none is answered.
    """
    clock = PausesOnly()
    monkeypatch.setenv(TIMEOUT_VARIABLE, str(bound_s))
    monkeypatch.setattr(retry, "__defaults__", (clock.sleep,))
    monkeypatch.setattr(retry_async, "__defaults__", (clock.sleep_async, *(retry_async.__defaults__ or ())[1:]))
    tries_on(clock, monkeypatch)
    monkeypatch.setattr(Tries, "patience", patience_s)
    monkeypatch.setattr(Tries, "rest", patience_s)
    monkeypatch.setattr("ledgerfs.storage.s3.obstore_client.store_timeout", lambda: 4 * patience_s)
    return clock


def tries_on(clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the time of all requests measured by a clock."""
    monkeypatch.setattr(Tries.__init__, "__kwdefaults__", {**Tries.__init__.__kwdefaults__, "clock": clock})
