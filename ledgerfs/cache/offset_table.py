"""Learned offsets of many objects, as the two arrays that the file holds.

An object is identified by the digest of its key, and its offsets hold for one version only. Digests of 64 bits are enough, since the bytes
at an offset are checked whenever it is used.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ledgerfs.cache.learned_offsets import LearnedOffsets, Pairs

GROUP = np.dtype([("key", "<u8"), ("version", "<u8"), ("count", "<u4")])
"""One object: digests of its key and its version, and the number of its pairs."""

_PAIR_BYTES = 16


class ObjectDigests(NamedTuple):
    """Digests of an object's key and of its version."""

    key: int
    version: int


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """The pairs of all objects.

    Attributes
    ----------
    groups
        Rows of `GROUP`, no key twice; the most recently learned ones are the last.
    pairs
        Their pairs, one after another.

    """

    groups: npt.NDArray[np.void]
    pairs: Pairs
    _starts: npt.NDArray[np.int64]
    _order: npt.NDArray[np.int64]
    _sorted_keys: npt.NDArray[np.uint64]

    @classmethod
    def of(cls, groups: npt.NDArray[np.void], pairs: Pairs) -> "OffsetTable":
        """Return the table of the arrays; raises `ValueError` if they do not belong together."""
        starts = np.concatenate([[0], np.cumsum(groups["count"], dtype=np.int64)])
        if starts[-1] != len(pairs):
            raise ValueError("counts and pairs differ")
        order = np.argsort(groups["key"], kind="stable")
        return cls(groups, pairs, starts, order, groups["key"][order])

    @classmethod
    def empty(cls) -> "OffsetTable":
        """Return the empty table."""
        return cls.of(np.empty(0, GROUP), np.empty((0, 2), np.int64))

    def offsets_of(self, origin: ObjectDigests) -> LearnedOffsets:
        """Return the offsets of this version of an object."""
        row = self._row_of(origin.key)
        if row is None or int(self.groups["version"][row]) != origin.version:
            return LearnedOffsets()
        return LearnedOffsets.of_array(self.pairs[self._starts[row] : self._starts[row + 1]])

    def merged(
        self, learned: Mapping[ObjectDigests, LearnedOffsets], max_bytes: int, disproved: Container[ObjectDigests] = ()
    ) -> "OffsetTable":
        """Return this table with new offsets; if that would take more than ``max_bytes``, the oldest ones are left out.

        Offsets of another version of the same object are dropped, and this table's offsets of objects that are ``disproved``.
        """
        news = {
            origin: offsets.to_array() if origin in disproved else _union(self.offsets_of(origin), offsets)
            for origin, offsets in learned.items()
        }
        is_old = ~np.isin(self.groups["key"], np.array([origin.key for origin in news], np.uint64))
        rows = [(*origin, len(pairs)) for origin, pairs in news.items() if len(pairs)]
        groups = np.concatenate([self.groups[is_old], np.array(rows, GROUP)])
        pairs = np.concatenate([self.pairs[np.repeat(is_old, self.groups["count"])], *news.values()])
        sizes = GROUP.itemsize + groups["count"].astype(np.int64) * _PAIR_BYTES
        fits = np.cumsum(sizes[::-1])[::-1] <= max_bytes
        return OffsetTable.of(groups[fits], pairs[np.repeat(fits, groups["count"])])

    def _row_of(self, key: int) -> int | None:
        at = int(np.searchsorted(self._sorted_keys, np.uint64(key)))
        is_there = at < len(self._order) and int(self._sorted_keys[at]) == key
        return int(self._order[at]) if is_there else None


def _union(left: LearnedOffsets, right: LearnedOffsets) -> Pairs:
    pairs = np.concatenate([left.to_array(), right.to_array()])
    return LearnedOffsets.of_array(pairs[np.argsort(pairs[:, 0], kind="stable")]).to_array()
