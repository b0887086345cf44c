"""Waiting for what other threads and processes are about to do."""

import time
from collections.abc import Callable


def wait_until(
    is_so: Callable[[], bool], seconds: float = 300, tell: Callable[[], object] = lambda: "it took too long"
) -> None:
    """Wait until something is so; fails when it takes too long, with what there is to ``tell`` by then."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, tell()
        time.sleep(0.01)
