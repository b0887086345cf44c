"""Columns that repeat one value: topic, ledger, and every field that no message sets.

Arrow's arrays are immutable, so a shorter one is a slice of a longer one that was made before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ledgerfs.messages.kernels.gather import require_countable

_SMALLEST = 1 << 12


@dataclass(slots=True)
class ConstantColumns:
    """Arrays of one value, by the name of their column, kept for the next batch."""

    _arrays: dict[str, tuple[object, pa.Array]] = field(default_factory=dict)

    def repeat(self, name: str, value: object, kind: pa.DataType, length: int) -> pa.Array:
        """Return ``length`` times ``value`` as a column of this name and type."""
        return self.array(name, value, length, lambda size: _repeated(value, kind, size))

    def array(self, name: str, value: object, length: int, make: Callable[[int], pa.Array]) -> pa.Array:
        """Return ``length`` items of a column of this name that repeats ``value``; ``make`` builds the array if none is kept."""
        known, kept = self._arrays.get(name, (None, None))
        if kept is None or len(kept) < length or known != value:
            kept = make(max(_SMALLEST, length))
            self._arrays[name] = value, kept
        return kept.slice(0, length)


def _repeated(value: object, kind: pa.DataType, size: int) -> pa.Array:
    if not isinstance(value, str | bytes):
        return pa.repeat(pa.scalar(value, kind), size)
    # Arrow's own repeat takes half a microsecond for each text.
    one = value.encode() if isinstance(value, str) else value
    require_countable(size * len(one))
    offsets = np.arange(size + 1, dtype=np.int32) * np.int32(len(one))
    return pa.Array.from_buffers(kind, size, [None, pa.py_buffer(offsets), pa.py_buffer(one * size)])
