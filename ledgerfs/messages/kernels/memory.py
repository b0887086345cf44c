"""Memory for tables and columns, from Arrow's pool.

The pool gives pages back to the next window that were used for the last one. Fresh pages cost more than what is written to them: a page
fault each, which on virtual machines makes a copy of 7 GB/s one of 1 GB/s.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def empty(size: int, dtype: Any) -> "npt.NDArray[Any]":  # noqa: ANN401  (whatever numpy takes for a type)
    """Return an array of ``size`` items, whose bytes mean nothing yet."""
    kind = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(size * kind.itemsize), kind)


def empty_table(columns: int, rows: int) -> npt.NDArray[np.int64]:
    """Return an array of shape (columns, rows), whose numbers mean nothing yet."""
    # A row more or less than a multiple of the page would let all columns compete for the same lines of the CPU's cache.
    stride = -(-rows // 512) * 512 + 8
    return empty(columns * stride, np.int64).reshape(columns, stride)[:, :rows]
