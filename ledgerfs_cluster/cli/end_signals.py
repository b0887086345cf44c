"""Signals that stop a command: SIGTERM, SIGHUP and Ctrl-C."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


@contextmanager
def at_end_signals(end: Callable[[], object]) -> Iterator[None]:
    """Call ``end`` in the main thread at SIGTERM, SIGHUP and Ctrl-C; it may raise. The same signal again stops the process at once."""

    def handle(number: int, _: "FrameType | None") -> None:
        signal.signal(number, before[number])
        end()

    # A process started with nohup continues without a terminal.
    ends = [one for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {int(number): signal.getsignal(number) for number in ends}
    for number in ends:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
