"""Waiting for what comes about by itself."""

import time
from collections.abc import Callable


def wait_until(is_so: Callable[[], object], what: str, seconds: float = 300) -> None:
    """Wait until something is so; raises `TimeoutError`, which names it."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.2)
