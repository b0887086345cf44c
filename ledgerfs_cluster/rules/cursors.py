"""Subscriptions: what they have not acknowledged, when they were active, and what of their topics they keep from being trimmed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs_cluster.rules.retention import keeps_its_last, retention_of, trim_of
from ledgerfs_cluster.snapshot.bundles import namespace_of
from ledgerfs_cluster.snapshot.policies import BrokerDefaults
from ledgerfs_cluster.snapshot.survey import Survey, TopicLedgers, is_system_topic

Slowest = tuple[int, int] | None
"""The position that all subscriptions of a topic have come to; None if it has none."""


@dataclass(frozen=True, slots=True)
class CursorState:
    """A subscription.

    Attributes
    ----------
    managed_ledger, name
        Of its topic, and its own.
    position
        Up to which all is acknowledged: ledger and entry; -1 if it is not known.
    holes
        How many ranges are acknowledged after that.
    backlog
        Entries that are not acknowledged, without what is not known of the last ledger.
    backlog_size
        Bytes after the position, with those of holes; in the ledger of the position by its average entry.
    last_active_ms
        When it was last active, ms since 1970 UTC: None if the node does not tell; ``changed_ms`` is when the node was last changed.
    held_size, held_ledgers
        Bytes, and number, of ledgers that retention lets go, and that go if no subscription of the topic needs them.
    is_stale
        Whether it may be further: the ledger that has its state could not be read.
    may_have_own_policies
        Whether its topic may have policies of its own that could not be read: what is held may be another amount.

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
        """When it was active at the latest, as far as is known."""
        return self.changed_ms if self.last_active_ms is None else self.last_active_ms


def cursors(survey: Survey, defaults: BrokerDefaults, now_ms: int) -> Iterator[CursorState]:
    """Yield every subscription, in the order of its topics in the survey."""
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
    """Return how many entries, and bytes, of a topic are after a position."""
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
    """Return what returns which rows of ledgers go if all subscriptions have come to a position."""
    name = survey.topics[topic]
    rule, _ = retention_of(name, survey.policies.get(namespace_of(name)), defaults, survey.own_policies(name))
    is_terminated = survey.is_terminated(topic)
    has_current = keeps_its_last(survey.owners.of(name), ledgers.last_end, is_terminated=is_terminated)

    def going(slowest: Slowest) -> set[int]:
        return set(trim_of(ledgers, slowest, rule, now_ms, has_current=has_current).going if ledgers.ids.size else ())

    return going
