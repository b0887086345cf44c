"""How long each stage of the run took, for the table at its end."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

_taken: dict[str, float] = {}


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Measure what is done inside."""
    begin = time.monotonic()
    try:
        yield
    finally:
        _taken[name] = _taken.get(name, 0) + time.monotonic() - begin


def table() -> list[str]:
    """Return a line a stage."""
    return [f"{seconds:7.1f} s  {name}" for name, seconds in _taken.items()]
