"""Subscriptions: their backlog, last activity, and the ledgers that they keep from being trimmed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs_cluster.rules.retention import keeps_its_last, retention_of, trim_of
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.policies import BrokerDefaults
from ledgerfs_cluster.snapshot.survey import Survey, TopicLedgers, is_system_topic

Slowest = tuple[int, int] | None
"""The least position of a topic's subscriptions; None without any."""


@dataclass(frozen=True, slots=True)
class CursorState:
    """A subscription.

    Attributes
    ----------
    managed_ledger, name
        Managed ledger of its topic, and its own name.
    position
        Mark-delete position: ledger and entry; -1 if unknown.
    holes
        Number of acknowledged ranges after the position.
    backlog
        Entries that are not acknowledged, without the unknown part of the last ledger.
    backlog_size
        Bytes after the position, including acknowledged ranges; in the position's ledger estimated by its average entry size.
    last_active_ms
        Time of its last activity, ms since 1970 UTC: None if the node does not contain it; ``changed_ms`` is the node's last change.
    held_size, held_ledgers
        Bytes and number of ledgers beyond retention that would be trimmed without any subscription.
    is_stale
        Whether it may be further: the ledger with its state could not be read.
    may_have_own_policies
        Whether its topic may have its own policies that could not be read: then the held amount may differ.

    """

    managed_ledger: str
    name: str
    position: tuple[int, int]
    holes: int
    backlog: int
    backlog_size: int
    last_active_ms: int | None
    changed_ms: int
    held_size: int
    held_ledgers: int
    is_stale: bool
    may_have_own_policies: bool

    @property
    def active_ms(self) -> int:
        """Upper bound of its last activity, as far as known."""
        return self.changed_ms if self.last_active_ms is None else self.last_active_ms


def cursors(survey: Survey, defaults: BrokerDefaults, now_ms: int) -> Iterator[CursorState]:
    """Yield every subscription, in the snapshot's order of topics."""
    not_read = survey.namespaces_not_read()
    for topic in np.unique(survey.cursors["topic"]).tolist():
        name, ledgers, rows = survey.topics[topic], survey.ledgers_of(topic), survey.cursors_of(topic)
        going = _going_of(survey, topic, ledgers, defaults, now_ms)
        all_going = going(None)
        for row in rows:
            mark = int(row["mark_ledger"]), int(row["mark_entry"])
            backlog, size = backlog_of(ledgers, mark)
            held = sorted(all_going - going(mark))
            yield CursorState(
                name,
                survey.cursor_names[int(row["name"])],
                mark,
                int(row["holes"]),
                max(0, backlog - int(row["hole_entries"])),
                size,
                int(row["last_active_ms"]) or None,
                int(row["changed_ms"]),
                int(ledgers.sizes[held].sum()),
                len(held),
                bool(row["is_stale"]),
                namespace_of(name) in not_read and not is_system_topic(name),
            )


def backlog_of(ledgers: TopicLedgers, mark: tuple[int, int]) -> tuple[int, int]:
    """Return the number and bytes of a topic's entries after a position."""
    ledger_id, entry = mark
    at = int(np.searchsorted(ledgers.ids, ledger_id))
    after = at
    entries = size = 0
    if at < ledgers.ids.size and ledgers.ids[at] == ledger_id:
        of_ledger, after = int(ledgers.entries[at]), at + 1
        entries = max(0, of_ledger - entry - 1)
        size = int(ledgers.sizes[at]) * entries // of_ledger if of_ledger else 0
    return entries + int(ledgers.entries[after:].sum()), size + int(ledgers.sizes[after:].sum())


def _going_of(
    survey: Survey, topic: int, ledgers: TopicLedgers, defaults: BrokerDefaults, now_ms: int
) -> Callable[[Slowest], set[int]]:
    """Return a function from a position of all subscriptions to the rows of the ledgers that are trimmed then."""
    name = survey.topics[topic]
    rule, _ = retention_of(name, survey.policies.get(namespace_of(name)), defaults, survey.own_policies(name))
    is_terminated = survey.is_terminated(topic)
    has_current = keeps_its_last(survey.owners.of(name), ledgers.last_end, is_terminated=is_terminated)

    def going(slowest: Slowest) -> set[int]:
        return set(trim_of(ledgers, slowest, rule, now_ms, has_current=has_current).going if ledgers.ids.size else ())

    return going
