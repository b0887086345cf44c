"""Reused memory for parts: the first touch of a fresh page costs more than filling it from a fast store.

A buffer returns by itself when no view and no array refers to it any more.
"""

import weakref

import numpy as np

from ledgerfs.forked import ForkLock

_SIZE = 8 << 20
_IDLE = 16
"""Most buffers that wait for the next reader; others are freed."""

_idle: list["np.ndarray[tuple[int], np.dtype[np.uint8]]"] = []
_lock = ForkLock()


def part_buffer(size: int) -> memoryview:
    """Return writable memory of ``size`` bytes, of any content."""
    if not _SIZE // 2 < size <= _SIZE:
        return np.empty(size, np.uint8).data
    with _lock:
        whole = _idle.pop() if _idle else np.empty(_SIZE, np.uint8)
    # Views of the view keep this array, and only this one, alive.
    lent = whole[:]
    weakref.finalize(lent, _take_back, whole).atexit = False
    return lent.data[:size]


def _take_back(whole: "np.ndarray[tuple[int], np.dtype[np.uint8]]") -> None:
    with _lock:
        if len(_idle) < _IDLE:
            _idle.append(whole)
