"""Whose bytes the entry logs of one ledger directory hold, as columns: what a collector decides by, before anything is known to be dead."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Int64, Mask

Int8 = npt.NDArray[np.int8]


class CountedBy(IntEnum):
    """Where the numbers of a log come from."""

    MAP = 0
    """Its ledgers map."""
    SCAN = 1
    """All its records: it has no ledgers map, or no sound one. A bookie scans it as well, once after each start."""
    NOTHING = 2
    """It could not be read: nothing is said of it, and it is never said to go."""


@dataclass(frozen=True, slots=True)
class LogUse:
    """The entry logs of a ledger directory, and the ledgers in each. `log_use` makes it.

    Attributes
    ----------
    log_ids, file_sizes
        Ascending ids, and bytes of each file, its header and map included; shape (logs,).
    are_current
        Which are being written; shape (logs,). A bookie goes on with none of them when it starts again: those are collected then.
    counted_by
        `CountedBy` of each; shape (logs,).
    firsts
        The rows of a log are those from its value here to the next one's; shape (logs + 1,).
    ledger_ids, sizes
        Of each ledger of each log, by ascending ids, the bytes of its entries there, each with its size field; shape (rows,).
    entries
        How many those are, -1 if that is not known, as from a ledgers map; shape (rows,).

    """

    log_ids: Int64
    file_sizes: Int64
    are_current: Mask
    counted_by: Int8
    firsts: Int64
    ledger_ids: Int64
    sizes: Int64
    entries: Int64

    def log_rows(self) -> Int64:
        """Return which log each row is of; shape (rows,)."""
        return np.repeat(np.arange(self.log_ids.size), np.diff(self.firsts))

    def sums(self, values: Int64 | Mask) -> Int64:
        """Return the sum of a column of rows for each log; shape (logs,)."""
        # Not reduceat, which has a value for a log without rows, and not weights of bincount, which are floats.
        until = np.concatenate([np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)])
        added: Int64 = until[self.firsts[1:]] - until[self.firsts[:-1]]
        return added

    def entry_sums(self, chosen: Mask) -> Int64:
        """Return the entries of some rows for each log, -1 if those of any of them are not known; shape (logs,)."""
        unknown = self.sums(chosen & (self.entries < 0))
        return np.where(unknown > 0, -1, self.sums(np.where(chosen, self.entries, 0)))


def log_use(
    log_ids: Int64,
    file_sizes: Int64,
    are_current: Mask,
    counted_by: npt.ArrayLike,
    triples: tuple[Int64, Int64, Int64],
    *,
    entries: Int64 | None = None,
) -> LogUse:
    """Make columns of logs and of (log id, ledger id, bytes), both in any order; what is told twice of a ledger in a log is added up.

    ``entries`` are those of each triple, -1 for one of which that is not known. Raises `InvalidOptionError` if columns are not of one
    length, a log has two rows, a triple is of no log or of one that was not read, or ids or bytes are below 0.
    """
    by = np.broadcast_to(np.asarray(counted_by, np.int8), log_ids.shape)
    told_entries = np.full(triples[0].size, -1, np.int64) if entries is None else entries
    _check_lengths(log_ids, (file_sizes, are_current))
    _check_lengths(triples[0], (*triples, told_entries))
    order = np.argsort(log_ids, kind="stable")
    sorted_ids = log_ids[order]
    if sorted_ids.size and np.any(np.diff(sorted_ids) == 0):
        raise InvalidOptionError("a log that is told twice", key=str(sorted_ids[:-1][np.diff(sorted_ids) == 0][0]))
    if any(column.size and column.min() < 0 for column in (log_ids, file_sizes, *triples)):
        raise InvalidOptionError("ids and sizes of logs and ledgers are not below 0", key="logs")
    logs = _places(triples[0], sorted_ids)
    is_unread = by[order][logs] == CountedBy.NOTHING
    if np.any(is_unread):
        raise InvalidOptionError("ledgers of a log that was not read", key=str(triples[0][is_unread][0]))
    logs, ledgers, sizes, told_entries = _added_up(logs, triples[1], triples[2], told_entries)
    firsts = np.searchsorted(logs, np.arange(sorted_ids.size + 1))
    return LogUse(sorted_ids, file_sizes[order], are_current[order], by[order], firsts, ledgers, sizes, told_entries)


def is_in(ids: Int64, sorted_ids: Int64) -> Mask:
    """Return which ids are among sorted ones; shape (ids,)."""
    if not sorted_ids.size:
        return np.zeros(ids.size, np.bool_)
    places = np.minimum(np.searchsorted(sorted_ids, ids), sorted_ids.size - 1)
    found: Mask = sorted_ids[places] == ids
    return found


def _check_lengths(column: Int64, others: tuple[npt.NDArray[np.generic], ...]) -> None:
    for other in others:
        if other.shape != column.shape:
            raise InvalidOptionError("columns of one table have one length", key=f"{column.shape}, {other.shape}")


def _places(log_ids: Int64, sorted_ids: Int64) -> Int64:
    """Return the row of each id among sorted ones; raises `InvalidOptionError` if one is not there."""
    is_known = is_in(log_ids, sorted_ids)
    if not np.all(is_known):
        raise InvalidOptionError("ledgers of a log that is not among the logs", key=str(log_ids[~is_known][0]))
    return np.searchsorted(sorted_ids, log_ids)


def _added_up(logs: Int64, ledgers: Int64, sizes: Int64, entries: Int64) -> tuple[Int64, Int64, Int64, Int64]:
    """Return the rows by log and ledger, one of each pair."""
    order = np.lexsort((ledgers, logs))
    logs, ledgers, sizes, entries = logs[order], ledgers[order], sizes[order], entries[order]
    if not logs.size:
        return logs, ledgers, sizes, entries
    is_first = np.ones(logs.size, np.bool_)
    is_first[1:] = (np.diff(logs) != 0) | (np.diff(ledgers) != 0)
    starts = np.flatnonzero(is_first)
    if starts.size == logs.size:
        return logs, ledgers, sizes, entries
    least = np.minimum.reduceat(entries, starts)
    added = np.where(least < 0, -1, np.add.reduceat(entries, starts))
    return logs[starts], ledgers[starts], np.add.reduceat(sizes, starts), added
