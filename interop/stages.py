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
        _taken[name] = _taken.get(name, 0) + time.monotonic() - begin


def taken() -> dict[str, float]:
    """Return the seconds of each stage in this process."""
    return dict(_taken)


def table(*processes: Mapping[str, float]) -> list[str]:
    """Return a line a stage, those of several processes one after the other."""
    return [f"{seconds:7.1f} s  {name}" for stages in processes for name, seconds in stages.items()]
