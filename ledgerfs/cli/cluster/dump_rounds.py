"""Doing something again and again until a signal ends it: what is under way then is dropped."""

import time
from collections.abc import Callable
from math import ceil
from typing import TypeVar

from ledgerfs.cli.output import say

Done = TypeVar("Done")


def repeat(seconds: float, once: Callable[[], Done], tell: Callable[[Done], object]) -> bool:
    """Do something at each of its times, and tell it, until SIGTERM, SIGHUP or Ctrl-C; return whether the last one that ended was done.

    A time that comes while the one before is under way is left out. What fails, as any `OSError`, is said, and tried at the next time.
    """
    is_done, next_s = True, time.monotonic()
    try:
        while True:
            try:
                done = once()
                # Before it is told: who reads that a dump is kept, and ends this, may expect that it counts.
                is_done = True
                tell(done)
            except OSError as error:
                is_done = False
                say(f"ledgerfs: no dump this time: {error}")
            now_s = time.monotonic()
            next_s += seconds * max(1, ceil((now_s - next_s) / seconds))
            time.sleep(max(0.0, next_s - now_s))
    except KeyboardInterrupt:
        say("ended: what is kept is whole")
        return is_done
