"""Logs full of dead bytes that stay, or cost much to compact, because of small live ledgers; and whose ledgers those are.

Topics with little traffic have a few bytes in each of many logs, and hold all of them. If their ledgers go (rolled over and trimmed, or
offloaded and deleted), so do the logs: `ledgerfs.disks.collector.space.if_dead` says how much that is.
"""

from dataclasses import dataclass

import numpy as np

from ledgerfs.disks.collector.log_use import Int8, is_in
from ledgerfs.disks.collector.space import Fate, LogSpace
from ledgerfs.errors import InvalidOptionError
from ledgerfs.formats.array_types import Int64, Mask

SMALL_SHARE = 0.1
NO_NAME = -1
_FATES = (Fate.MAJOR, Fate.KEPT)


@dataclass(frozen=True, slots=True)
class Scattered:
    """Logs whose live ledgers are all small.

    Attributes
    ----------
    log_rows
        Rows of them in what they were found in; shape (logs,).
    hostage
        Bytes of each file that are of no live ledger; shape (logs,).
    firsts
        The ledgers of a log are those from its value here to the next one's; shape (logs + 1,).
    ledger_ids, sizes
        The live ledgers, of each log by ascending bytes; shape (ledgers,).

    """

    log_rows: Int64
    hostage: Int64
    firsts: Int64
    ledger_ids: Int64
    sizes: Int64

    def ledgers_of(self, row: int) -> Int64:
        """Return the live ledgers of one of the logs, by ascending bytes."""
        return self.ledger_ids[self.firsts[row] : self.firsts[row + 1]]


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds logs, most hostage bytes first; all of shape (holders,).

    Attributes
    ----------
    keys
        Ids of ledgers, or rows of names.
    logs, sizes
        In how many of the logs it has live bytes, and how many.
    hostage
        Bytes of those logs that are of no live ledger; a log of several holders counts for each of them.
    hostage_alone
        The same of logs that nobody else holds.

    """

    keys: Int64
    logs: Int64
    sizes: Int64
    hostage: Int64
    hostage_alone: Int64


@dataclass(frozen=True, slots=True)
class LedgerNames:
    """Which name, by its row, each ledger is of; ``ledger_ids`` are ascending, both of shape (ledgers,)."""

    ledger_ids: Int64
    name_rows: Int64

    def rows_of(self, ledger_ids: Int64) -> Int64:
        """Return the row of each ledger's name; `NO_NAME` for those without."""
        if not self.ledger_ids.size:
            return np.full(ledger_ids.size, NO_NAME, np.int64)
        places = np.minimum(np.searchsorted(self.ledger_ids, ledger_ids), self.ledger_ids.size - 1)
        return np.where(is_in(ledger_ids, self.ledger_ids), self.name_rows[places], NO_NAME)


def scattered(space: LogSpace, small_share: float = SMALL_SHARE, fates: tuple[Fate, ...] = _FATES) -> Scattered:
    """Return the logs of some fates that have dead bytes, and live ledgers that all have less than a share of the log's entries in bytes.

    Logs that minor compaction takes are left out unless they are asked for: that costs little. Raises `InvalidOptionError` if the share is
    not above 0 and up to 1.
    """
    if not 0 < small_share <= 1:
        raise InvalidOptionError("a share above 0, up to 1", key=str(small_share))
    use = space.use
    row_logs = use.log_rows()
    is_large = space.are_live & (use.sizes >= small_share * space.totals[row_logs])
    is_held = (space.live_ledgers > 0) & (use.sums(is_large) == 0) & (space.live_sizes < space.totals)
    is_held &= _is_of(space.fates, fates)
    log_rows = np.flatnonzero(is_held)
    rows = np.flatnonzero(space.are_live & is_held[row_logs])
    # Rows are by ascending ledger already, which so decides between equal sizes.
    rows = rows[np.lexsort((use.sizes[rows], row_logs[rows]))]
    firsts = np.concatenate([np.zeros(1, np.int64), np.cumsum(space.live_ledgers[log_rows])])
    hostage = use.file_sizes[log_rows] - space.live_sizes[log_rows]
    return Scattered(log_rows, hostage, firsts, use.ledger_ids[rows], use.sizes[rows])


def held_by_ledgers(logs: Scattered) -> Holders:
    """Return which ledgers hold them."""
    return _holders(logs, logs.ledger_ids)


def held_by_names(logs: Scattered, names: LedgerNames) -> Holders:
    """Return whose ledgers hold them: rows of names, such as those of topics; all ledgers without one are one holder, `NO_NAME`."""
    return _holders(logs, names.rows_of(logs.ledger_ids))


def _is_of(fates: Int8, some: tuple[Fate, ...]) -> Mask:
    return np.isin(fates, np.array(some, np.int8))


def _holders(logs: Scattered, keys: Int64) -> Holders:
    """Add up by keys of the ledgers; shape of ``keys``: (ledgers,)."""
    of_logs = np.repeat(np.arange(logs.log_rows.size), np.diff(logs.firsts))
    order = np.lexsort((of_logs, keys))
    keys, of_logs, sizes = keys[order], of_logs[order], logs.sizes[order]
    # One row of each holder and log, since a topic may have several ledgers in a log.
    is_pair = _is_new(keys) | _is_new(of_logs)
    pairs = np.flatnonzero(is_pair)
    pair_keys, pair_logs = keys[pairs], of_logs[pairs]
    hostage = logs.hostage[pair_logs]
    is_alone = np.bincount(pair_logs, minlength=logs.log_rows.size)[pair_logs] == 1
    firsts = np.flatnonzero(_is_new(pair_keys))
    found = Holders(
        pair_keys[firsts],
        np.diff(np.append(firsts, pairs.size)),
        _sums_from(sizes, pairs[firsts]),
        _sums_from(hostage, firsts),
        _sums_from(np.where(is_alone, hostage, 0), firsts),
    )
    by = np.argsort(-found.hostage, kind="stable")
    return Holders(found.keys[by], found.logs[by], found.sizes[by], found.hostage[by], found.hostage_alone[by])


def _is_new(values: Int64) -> Mask:
    """Return which values differ from the one before."""
    is_new = np.ones(values.size, np.bool_)
    is_new[1:] = values[1:] != values[:-1]
    return is_new


def _sums_from(values: Int64, firsts: Int64) -> Int64:
    """Return the sum from each row of ``firsts`` to the next one."""
    return np.add.reduceat(values, firsts) if firsts.size else np.zeros(0, np.int64)
