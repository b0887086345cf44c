"""A row of things cut into portions of bounded size."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt


def spans(sizes: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Cut a row of things into spans of at most ``most`` bytes each, or of one thing that has more."""
    behind = np.cumsum(sizes)
    start = 0
    while start < sizes.size:
        before = int(behind[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(behind, before + most, "right")))
        yield start, stop
        start = stop
