"""Split a bucket into partitions of about the same size, at block boundaries (`ledgerfs.bucket.partitions`).

The plan consists of columns. Splits never change a row: a chunked message is in the partition of its last chunk, a transaction's message
in the partition of its entry.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np

from ledgerfs.bucket.partitions import Partition, Reported
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import Table
from ledgerfs.catalog.ledger_times import LedgerTimes, TimeRange
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Int64, Mask

DEFAULT_PARTITION_BYTES = 128 << 20

COST_OF_LEDGER = 1 << 20
"""Opening a ledger counts as so many bytes, which take about as long to read: so a partition never has thousands of small ledgers."""

_TO_THE_END = -1

_EARLIER, _LATER = 1, 2
"""Number of neighbours in a partition: a chunked message may begin before its ledgers, a transaction may end after them."""


_RUN = np.dtype(
    [
        ("name", "i8"),  # row of Catalog.names
        ("low", "i8"),  # rows of _Primary.table in its partition: first
        ("high", "i8"),  # and behind the last
        ("position", "i8"),
        ("before", "i8"),
        ("count", "i8"),
        ("first_cut", "i8"),
        ("stop_cut", "i8"),  # -1: the end
        ("topic_size", "i8"),
        ("last_ledger", "i8"),
    ]
)
"""A `Run` as a row."""


@dataclass(frozen=True, slots=True)
class PartitionPlan(Sequence[Partition]):
    """All partitions, each created on demand.

    Attributes
    ----------
    runs, starts
        Rows of `_RUN`; the first row of each partition, and at the end the number of rows.
    bytes
        Approximate bytes of all partitions.

    """

    names: Sequence[str | None]
    places: tuple[str, ...]
    table: Table
    runs: Table
    starts: Int64
    bytes: int

    def __len__(self) -> int:
        return self.starts.size - 1

    @overload
    def __getitem__(self, number: int) -> Partition: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Partition]: ...

    def __getitem__(self, number: int | slice) -> Partition | Sequence[Partition]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        return Partition.of(next(self._reported(self.starts[number : number + 2])))

    def __iter__(self) -> Iterator[Partition]:
        return map(Partition.of, self.reported())

    def reported(self) -> Iterator[Reported]:
        """Yield all partitions as plain values, for `Partition.of`."""
        return self._reported(self.starts)

    def _reported(self, starts: Int64) -> Iterator[Reported]:
        size, first = self.table.itemsize, int(starts[0])
        data = memoryview(np.ascontiguousarray(self.table).view(np.uint8).data)
        runs = [
            (self.names[name], self.places, data[low * size : high * size].tobytes(), *rest)
            for name, low, high, *rest in self.runs[first : int(starts[-1])].tolist()
        ]
        return (tuple(runs[low - first : high - first]) for low, high in pairwise(starts.tolist()))


@dataclass(frozen=True, slots=True)
class _Primary:
    """The ledgers to read, each once, in the catalog's order.

    Attributes
    ----------
    rows, table
        Their row numbers in the catalog, and the rows.
    topics, starts
        The number of each ledger's topic; the first row of each topic, and at the end the number of rows.

    """

    rows: Int64
    table: Table
    topics: Int64
    starts: Int64

    @classmethod
    def of(cls, table: Table) -> "_Primary":
        rows = np.flatnonzero(table["copy"] == 0)
        if rows.size < table.size:
            table = table[rows]
        names = table["name"]
        begins = np.flatnonzero(np.append(True, np.diff(names) != 0)) if rows.size else rows
        topics = np.repeat(np.arange(begins.size), np.diff(np.append(begins, rows.size)))
        return cls(rows, table, topics, np.append(begins, rows.size))


def within(catalog: Catalog, wanted: Mask, times: TimeRange) -> Mask:
    """Return the wanted ledgers that may have messages of a range of time, by the catalog alone.

    Reads prune further (`ledgerfs.scan.time_pruning`).
    """
    if not times.has_limits:
        return wanted
    primary = _Primary.of(catalog.ledgers)
    keep = LedgerTimes.of_table(primary.table, primary.topics).may_have(times)
    may_have = np.zeros(catalog.ledgers.size, bool)
    may_have[primary.rows[keep]] = True
    result: Mask = wanted & may_have
    return result


def plan_partitions(
    catalog: Catalog, wanted: Mask, partition_bytes: int = DEFAULT_PARTITION_BYTES, *, most: int | None = None
) -> PartitionPlan:
    """Split large ledgers at blocks, and join small ones, into partitions. The plan is deterministic for a catalog.

    Parameters
    ----------
    catalog, wanted
        The bucket's catalog, and a mask of the rows to read; further copies of a ledger are never read.
    partition_bytes
        Approximate bytes of data objects in a partition; never less than a block.
    most
        Largest number of partitions, which are larger if needed; None for any number.

    Raises
    ------
    InvalidOptionError
        ``partition_bytes`` is less than 1.

    """
    if partition_bytes < 1:
        raise InvalidOptionError("expected 1 byte or more", key=f"partition_bytes={partition_bytes}")
    primary = _Primary.of(catalog.ledgers)
    places = np.flatnonzero(wanted[primary.rows])
    plan = _cut(catalog, primary, places, partition_bytes)
    while most is not None and len(plan) > most:
        # Partitions are not completely full, so increase the size until they are few enough.
        partition_bytes = -(-partition_bytes * len(plan) // most)
        plan = _cut(catalog, primary, places, partition_bytes)
    return plan


def _cut(catalog: Catalog, primary: _Primary, places: Int64, partition_bytes: int) -> PartitionPlan:
    """Split the ledgers at ``places`` into partitions of about so many bytes."""
    cuts = np.maximum(primary.table["cuts"][places].astype(np.int64), 1)
    sizes = np.clip(primary.table["stored"][places], 0, None)
    pieces = np.clip(-(-sizes // partition_bytes), 1, cuts)
    of_ledger = np.repeat(np.arange(places.size), pieces)
    number = np.arange(of_ledger.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    first_cuts = number * cuts[of_ledger] // pieces[of_ledger]
    stop_cuts = (number + 1) * cuts[of_ledger] // pieces[of_ledger]
    piece_sizes = (sizes[of_ledger] / cuts[of_ledger] * (stop_cuts - first_cuts)).astype(np.int64)
    parts = _packed(piece_sizes, partition_bytes)
    stop_cuts[stop_cuts == cuts[of_ledger]] = _TO_THE_END
    begins = _begins_of_runs(primary, places[of_ledger], first_cuts, parts)
    runs = _runs(primary, places[of_ledger], first_cuts, stop_cuts, begins)
    numbers = np.searchsorted(begins, parts)
    return PartitionPlan(catalog.names, catalog.places, primary.table, runs, numbers, int(sizes.sum()))


def _begins_of_runs(primary: _Primary, places: Int64, first_cuts: Int64, parts: Int64) -> Int64:
    """Return which pieces begin a run: the first of each partition, and each that does not follow the previous one."""
    steps = np.diff(places)
    follows = (steps == 0) | ((steps == 1) & (np.diff(primary.topics[places]) == 0) & (first_cuts[1:] == 0))
    begins = np.append(True, ~follows) if places.size else np.zeros(0, bool)
    begins[parts[:-1]] = True
    return np.flatnonzero(begins)


def _runs(primary: _Primary, places: Int64, first_cuts: Int64, stop_cuts: Int64, begins: Int64) -> Table:
    """Join pieces into rows of `_RUN`; ``begins`` are the pieces that begin a run."""
    ends = np.append(begins[1:], places.size) - 1 if begins.size else begins
    first, last = places[begins], places[ends]
    topics = primary.topics[first]
    topic_start, topic_stop = primary.starts[topics], primary.starts[topics + 1]
    runs = np.empty(begins.size, _RUN)
    runs["name"] = primary.table["name"][first]
    runs["low"] = np.maximum(topic_start, first - _EARLIER)
    runs["high"] = np.minimum(topic_stop, last + 1 + _LATER)
    runs["position"] = runs["low"] - topic_start
    runs["before"] = first - runs["low"]
    runs["count"] = last - first + 1
    runs["first_cut"] = first_cuts[begins]
    runs["stop_cut"] = stop_cuts[ends]
    runs["topic_size"] = topic_stop - topic_start
    runs["last_ledger"] = primary.table["ledger_id"][topic_stop - 1]
    return runs


def _packed(sizes: Int64, limit: int) -> Int64:
    """Return the first piece of each partition if each has as many as fit, and at the end the number of pieces."""
    costs = np.maximum(sizes, min(COST_OF_LEDGER, limit))
    ends = np.cumsum(costs).tolist()
    starts, begin, before = [], 0, 0
    while begin < len(ends):
        starts.append(begin)
        begin = max(begin + 1, bisect_right(ends, before + limit, lo=begin))
        before = ends[begin - 1]
    return np.array([*starts, len(ends)], np.int64)
