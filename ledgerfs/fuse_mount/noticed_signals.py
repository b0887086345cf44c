"""Wait for signals in the main thread.

The interpreter's own handler writes signals into a pipe. A main thread that waits on a lock or a queue would miss a signal that arrives
just before it sleeps: the handler that should wake it runs in that same thread, later.
"""

import os
import select
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class NoticedSignals:
    """A queue of numbers: signals, and numbers that other threads `put`."""

    def __init__(self) -> None:
        self._end, self._beginning = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._end, select.POLLIN)

    @contextmanager
    def noticing(self, numbers: Iterable[int]) -> Iterator[None]:
        """Queue these signals instead of calling their handlers. Only in the main thread."""
        before = {number: signal.signal(number, _nothing) for number in numbers}
        wakeup = signal.set_wakeup_fd(self._beginning, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)

    def put(self, number: int) -> None:
        """Add a number below 256, from any thread."""
        with suppress(BlockingIOError):  # full of unread signals: one more does not matter
            os.write(self._beginning, bytes([number]))

    def next(self, seconds: float | None = None) -> int | None:
        """Wait for the next number and return it; None after ``seconds`` without one."""
        if not self._poll.poll(None if seconds is None else seconds * 1000):
            return None
        return os.read(self._end, 1)[0]


def _nothing(_: int, __: FrameType | None) -> None:
    """Do nothing. The interpreter writes into the pipe only for signals with a handler."""
