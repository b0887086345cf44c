"""Doing something again and again until a signal ends it: what is under way then is dropped."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING

from ledgerfs.cli.output import say

if TYPE_CHECKING:
    from types import FrameType


def repeat(seconds: float, once: Callable[[], object]) -> bool:
    """Do something at each of its times, until SIGTERM, SIGHUP or Ctrl-C; return whether the last one that came to its end was done.

    A time that comes while the one before is under way is left out. What fails, as any `OSError`, is said, and tried at the next time.
    """
    is_done, next_s = True, time.monotonic()
    try:
        while True:
            try:
                once()
                is_done = True
            except OSError as error:
                is_done = False
                say(f"ledgerfs: no dump this time: {error}")
            now_s = time.monotonic()
            next_s += seconds * max(1, ceil((now_s - next_s) / seconds))
            time.sleep(max(0.0, next_s - now_s))
    except KeyboardInterrupt:
        say("ended: what is kept is whole")
        return is_done


@contextmanager
def signals_as_interrupts() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end what is under way as Ctrl-C does, so that nothing of it stays; a second one ends at once."""

    def interrupt(_: int, frame: "FrameType | None") -> None:  # noqa: ARG001  (as signals are told)
        for one, handler in before.items():
            signal.signal(one, handler)
        raise KeyboardInterrupt

    # What is started with nohup goes on without a terminal.
    ends = [one for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]
    before = {int(number): signal.signal(number, interrupt) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
