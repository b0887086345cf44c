"""Ledgers that a broker would trim now, from metadata alone, also for topics that no broker has loaded.

The rules are those of a broker's trim, and were compared with it in runs. A broker that loads a topic first drops ledgers without entries,
closes the last one, and begins another; then it trims ledgers that all subscriptions have passed, oldest first, while they exceed the
retention by time or by size, up to the first that stays.

Entries are counted by the list, also if BookKeeper differs: a broker checks only the last ledger in BookKeeper, and deletes ledgers there
that its list shows as empty.

Subscriptions keep their positions: messages past their time to live are acknowledged only after the topic has been loaded for a while.
"""

from typing import NamedTuple

import numpy as np

from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import Owner
from ledgerfs_cluster.snapshot.policies import NOTHING_SET, BrokerDefaults, NamespacePolicies, Retention
from ledgerfs_cluster.snapshot.survey import TopicLedgers, is_system_topic
from ledgerfs_cluster.snapshot.tables import Table

_NEVER = np.iinfo(np.int64).max


class Trim(NamedTuple):
    """Rows of a topic's ledgers: ``dropped`` have no entries, and loading the topic removes them; ``going`` are trimmed."""

    dropped: tuple[int, ...]
    going: tuple[int, ...]


def retention_of(
    managed_ledger: str,
    policies: NamespacePolicies | None,
    defaults: BrokerDefaults,
    own: NamespacePolicies = NOTHING_SET,
) -> tuple[Retention, str]:
    """Return a topic's retention and its source: ``own`` policies take precedence, and are the only ones of system topics."""
    if own.retention is not None:
        return own.retention, "topic"
    if is_system_topic(managed_ledger):
        return Retention(), "system"
    reported = (policies or NOTHING_SET).retention
    return (reported, "namespace") if reported is not None else (defaults.retention, "broker")


def keeps_its_last(owner: Owner, last_end: LastEnd, *, is_terminated: bool) -> bool:
    """Return whether a topic's last ledger stays current, as in a broker that has the topic loaded; else loading creates another.

    Loading a terminated topic changes nothing. A last ledger with an unknown end is never reported as trimmed.
    """
    return is_terminated or last_end is LastEnd.UNKNOWN or (owner is not Owner.NONE and last_end is LastEnd.OPEN)


def slowest_of(cursors: Table) -> tuple[int, int] | None:
    """Return the least position of a topic's cursors; None without any."""
    if not cursors.size:
        return None
    first = cursors[np.lexsort((cursors["mark_entry"], cursors["mark_ledger"]))[0]]
    return int(first["mark_ledger"]), int(first["mark_entry"])


def trim_of(
    ledgers: TopicLedgers, slowest: tuple[int, int] | None, rule: Retention, now_ms: int, *, has_current: bool
) -> Trim:
    """Return the ledgers that a broker would trim if all subscriptions are at ``slowest`` (None without any).

    ``has_current``: the last ledger is the current one, and stays; otherwise the topic is loaded first.
    """
    rows = np.arange(ledgers.ids.size)
    closed_ms = ledgers.closed_ms
    is_dropped = np.zeros(rows.size, np.bool_)
    if not has_current:
        is_dropped = ledgers.entries == 0
        closed_ms = closed_ms.copy()
        closed_ms[-1] = now_ms
    rows = rows[~is_dropped]
    dropped = tuple(np.flatnonzero(is_dropped).tolist())
    ids, sizes, closed_ms = ledgers.ids[rows], ledgers.sizes[rows], closed_ms[rows]
    up_to = rows.size - 1 if has_current else rows.size
    behind = min(up_to, int(np.searchsorted(ids, _first_needed(ledgers, slowest, has_current=has_current))))
    left = sizes.sum() - np.cumsum(sizes)
    is_past = np.zeros(rows.size, np.bool_)
    if rule.time_ms >= 0:
        is_past |= now_ms - closed_ms > rule.time_ms
    if rule.size >= 0:
        is_past |= left >= rule.size
    stopping = np.flatnonzero(~is_past[:behind])
    count = int(stopping[0]) if stopping.size else behind
    return Trim(dropped, tuple(rows[:count].tolist()))


def _first_needed(ledgers: TopicLedgers, slowest: tuple[int, int] | None, *, has_current: bool) -> int:
    """Return the id of the first ledger that a subscription still needs."""
    if slowest is None:
        return _NEVER
    ledger_id, entry = slowest
    at = int(np.searchsorted(ledgers.ids, ledger_id))
    if at == ledgers.ids.size or ledgers.ids[at] != ledger_id or (has_current and at == ledgers.ids.size - 1):
        return ledger_id
    return ledger_id + (entry + 1 == int(ledgers.entries[at]))
