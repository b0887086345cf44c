"""What a broker would trim of each topic now, from metadata alone, also where no broker has loaded the topic; and why not more.

The rules are those of a broker's trim, compared with it in runs. A broker that loads a topic first forgets ledgers without entries, closes
the last one, and begins another; then ledgers that all subscriptions have passed go from the oldest on, while one is past the retention by
time or by size, up to the first that stays.

Entries are those of the list, also where BookKeeper has others: a broker asks BookKeeper of the last ledger alone, and deletes there what
its list calls empty.

Subscriptions are where they are: what a time to live expires is acknowledged only once a broker has the topic loaded for a while.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ledgerfs.formats.array_types import Int64
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import Owner, namespace_of
from ledgerfs_cluster.snapshot.policies import NOTHING_SET, BrokerDefaults, NamespacePolicies, Retention
from ledgerfs_cluster.snapshot.survey import Survey, TopicLedgers, is_system_topic
from ledgerfs_cluster.snapshot.tables import Table

_NEVER = np.iinfo(np.int64).max


class Stays(Enum):
    """Why the first ledger that stays is not trimmed."""

    NOTHING = "nothing stays"
    CURRENT = "the current ledger"
    CURSOR = "a cursor"
    RETENTION = "retention"
    FOREVER = "retention without end"


@dataclass(frozen=True, slots=True)
class Trim:
    """What of a topic's ledgers goes, by rows.

    Attributes
    ----------
    dropped
        Rows of ledgers without entries, which loading the topic forgets; no retention is needed for that.
    going
        Rows of ledgers that are trimmed.
    since_ms
        From when on the first of them was past its retention, whatever subscriptions did, ms since 1970 UTC; None if none goes, or if it is
        not known.
    first_staying
        The row of the oldest ledger that stays; None for none.
    stays, bytes_left, ms_left
        Why, and how many bytes more, or ms more, would end that; -1 where that is no limit.

    """

    dropped: tuple[int, ...]
    going: tuple[int, ...]
    since_ms: int | None
    first_staying: int | None
    stays: Stays
    bytes_left: int = -1
    ms_left: int = -1


@dataclass(frozen=True, slots=True)
class TopicRetention:
    """A topic, and what of it would be trimmed.

    Attributes
    ----------
    row, managed_ledger
        Of the survey, and its name.
    policy
        Whose retention holds for it: ``topic``, ``system``, ``namespace`` or ``broker``.
    may_have_own_policies
        Whether topics of this namespace may have policies of their own that could not be read: the rest may be wrong for this topic.
    owner
        Whether a broker may have it loaded; without one nobody trims it.
    trim
        What goes and what stays, rows of ``ledgers``.

    """

    row: int
    managed_ledger: str
    policy: str
    may_have_own_policies: bool
    owner: Owner
    ledgers: TopicLedgers
    trim: Trim

    @property
    def ledger_ids(self) -> list[int]:
        """The ledgers that would be trimmed."""
        return [int(self.ledgers.ids[row]) for row in self.trim.going]

    @property
    def size(self) -> int:
        """Bytes of the ledgers that would be trimmed."""
        return int(self.ledgers.sizes[list(self.trim.going)].sum())


def retention(survey: Survey, defaults: BrokerDefaults, now_ms: int) -> Iterator[TopicRetention]:
    """Yield every topic that has ledgers, in the order of the survey."""
    not_read = survey.namespaces_not_read()
    for row, name in enumerate(survey.topics):
        ledgers = survey.ledgers_of(row)
        if not ledgers.ids.size:
            continue
        namespace, owner = namespace_of(name), survey.owners.of(name)
        rule, policy = retention_of(name, survey.policies.get(namespace), defaults, survey.own_policies(name))
        has_current = keeps_its_last(owner, ledgers.last_end, is_terminated=survey.is_terminated(row))
        trim = trim_of(ledgers, slowest_of(survey.cursors_of(row)), rule, now_ms, has_current=has_current)
        has_own = namespace in not_read and not is_system_topic(name)
        yield TopicRetention(row, name, policy, has_own, owner, ledgers, trim)


def retention_of(
    managed_ledger: str,
    policies: NamespacePolicies | None,
    defaults: BrokerDefaults,
    own: NamespacePolicies = NOTHING_SET,
) -> tuple[Retention, str]:
    """Return what holds for a topic, and whose that is: ``own`` policies come first, and are all that system topics have."""
    if own.retention is not None:
        return own.retention, "topic"
    if is_system_topic(managed_ledger):
        return Retention(), "system"
    told = (policies or NOTHING_SET).retention
    return (told, "namespace") if told is not None else (defaults.retention, "broker")


def keeps_its_last(owner: Owner, last_end: LastEnd, *, is_terminated: bool) -> bool:
    """Whether the last ledger of a topic stays its current one, as in a broker that has the topic loaded; else loading it makes another.

    Loading a terminated topic changes nothing. What is not known of a last ledger is never said to go.
    """
    return is_terminated or last_end is LastEnd.UNKNOWN or (owner is not Owner.NONE and last_end is LastEnd.OPEN)


def slowest_of(cursors: Table) -> tuple[int, int] | None:
    """Return the least position of the cursors of a topic; None without any."""
    if not cursors.size:
        return None
    first = cursors[np.lexsort((cursors["mark_entry"], cursors["mark_ledger"]))[0]]
    return int(first["mark_ledger"]), int(first["mark_entry"])


def trim_of(
    ledgers: TopicLedgers, slowest: tuple[int, int] | None, rule: Retention, now_ms: int, *, has_current: bool
) -> Trim:
    """Return what a broker would trim of a topic whose subscriptions have all come to ``slowest``; None if it has none.

    With ``has_current`` the last ledger is the current one, and stays; otherwise the topic is loaded first.
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
    going = tuple(rows[:count].tolist())
    since = _past_since(closed_ms, sizes, rule) if going else None
    if count == rows.size:
        return Trim(dropped, going, since, None, Stays.NOTHING)
    first = int(rows[count])
    if count < behind:
        why = Stays.FOREVER if rule.keeps_all else Stays.RETENTION
        bytes_left = -1 if rule.size < 0 else rule.size - int(left[count])
        ms_left = -1 if rule.time_ms < 0 else rule.time_ms - (now_ms - int(closed_ms[count])) + 1
        return Trim(dropped, going, since, first, why, bytes_left, ms_left)
    return Trim(dropped, going, since, first, Stays.CURRENT if count == up_to else Stays.CURSOR)


def _first_needed(ledgers: TopicLedgers, slowest: tuple[int, int] | None, *, has_current: bool) -> int:
    """Return the id of the first ledger that a subscription still needs."""
    if slowest is None:
        return _NEVER
    ledger_id, entry = slowest
    at = int(np.searchsorted(ledgers.ids, ledger_id))
    if at == ledgers.ids.size or ledgers.ids[at] != ledger_id or (has_current and at == ledgers.ids.size - 1):
        return ledger_id
    return ledger_id + (entry + 1 == int(ledgers.entries[at]))


def _past_since(closed_ms: Int64, sizes: Int64, rule: Retention) -> int | None:
    """Return when the oldest ledger was past its retention: by its age, or when enough was closed after it; None if that is not known."""
    times: list[int] = []
    if rule.time_ms >= 0 and closed_ms[0]:
        times.append(int(closed_ms[0]) + rule.time_ms)
    if rule.size >= 0:
        # In the ledger that filled the size its end is the earliest time that is known.
        enough = int(np.searchsorted(np.cumsum(sizes) - sizes[0], rule.size))
        if enough < closed_ms.size and closed_ms[enough]:
            times.append(int(closed_ms[enough]))
    return min(times, default=None)
