"""How long each stage of the run took, for the table at its end."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_taken: dict[str, float] = {}


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Measure what is done inside."""
    begin = time.monotonic()
    try:
        yield
    finally:
        took(name, time.monotonic() - begin)


def took(name: str, seconds: float) -> None:
    """Have the table say how long something took whose name tells more than was known before."""
    _taken[name] = _taken.get(name, 0) + seconds


def taken() -> dict[str, float]:
    """Return the seconds of each stage in this process."""
    return dict(_taken)


def table(*processes: Mapping[str, float]) -> list[str]:
    """Return a line a stage, those of several processes one after the other."""
    return [f"{seconds:7.1f} s  {name}" for stages in processes for name, seconds in stages.items()]
