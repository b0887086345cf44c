"""Which lines of a new file are those of an old one, in the same order: by digests, so that a million lines are some tens of megabytes."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ledgerfs.formats.array_types import Int64

Digests = npt.NDArray[np.uint64]
"""A digest of 128 bits for each line; shape (lines, 2)."""

_BYTES = 16


def digests_of(lines: Iterable[bytes]) -> Digests:
    """Return the digest of each line."""
    found = bytearray()
    for line in lines:
        found += blake2b(line, digest_size=_BYTES).digest()
    return np.frombuffer(found, np.uint64).reshape(-1, 2)


def places_in(old: Digests, new: Digests) -> Int64:
    """Return for each new line where it is among the old ones, -1 where it is not, or not in its order; shape (new lines,).

    The places ascend, and as many lines as possible have one.
    """
    places = np.full(len(new), -1, np.int64)
    if not len(old) or not len(new):
        return places
    order = np.argsort(old[:, 0], kind="stable")
    nearest = np.searchsorted(old[order, 0], new[:, 0])
    candidates = order[np.minimum(nearest, len(old) - 1)]
    rows = np.flatnonzero((old[candidates] == new).all(axis=1))
    kept = rows[_ascending(candidates[rows])]
    places[kept] = candidates[kept]
    return places


def _ascending(values: Int64) -> Int64:
    """Return the indices of a longest part of some values that ascends."""
    lowest_ends: list[int] = []
    """The lowest value that a part of each length ends with, and below its index."""
    at = array("q")
    before = array("q", bytes(8 * len(values)))
    for index, value in enumerate(values.tolist()):
        length = bisect_left(lowest_ends, value)
        before[index] = at[length - 1] if length else -1
        if length == len(lowest_ends):
            lowest_ends.append(value)
            at.append(index)
        else:
            lowest_ends[length] = value
            at[length] = index
    found = np.empty(len(at), np.int64)
    index = at[-1] if at else -1
    for place in range(len(at) - 1, -1, -1):
        found[place] = index
        index = before[index]
    return found
