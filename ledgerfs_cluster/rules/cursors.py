"""Subscriptions: what they have not acknowledged, when they were active, and what of their topics they keep from being trimmed."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ledgerfs_cluster.rules.retention import keeps_its_last, retention_of, slowest_of, trim_of
from ledgerfs_cluster.snapshot.answers import LastEnd
from ledgerfs_cluster.snapshot.bundles import Owner, namespace_of
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
    held_size, held_ids
        Of ledgers that retention lets go, and that go if no subscription of the topic needs them: bytes, and which these are.
    freed_size
        The same if only this subscription is deleted.
    is_in_use
        Whether its state is in a ledger: a broker uses it, or died with it.
    is_stale
        Whether it may be further: the ledger that has its state could not be read.
    may_have_own_policies
        As in `ledgerfs_cluster.rules.retention.TopicRetention`: what is held may be another amount.
    last_end
        What is known of the topic's last ledger.

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
    held_ids: tuple[int, ...]
    freed_size: int
    is_in_use: bool
    is_stale: bool
    may_have_own_policies: bool
    owner: Owner
    last_end: LastEnd

    @property
    def held_ledgers(self) -> int:
        """How many ledgers it holds back."""
        return len(self.held_ids)

    @property
    def active_ms(self) -> int:
        """When it was active at the latest, as far as is known."""
        return self.changed_ms if self.last_active_ms is None else self.last_active_ms


def cursors(survey: Survey, defaults: BrokerDefaults, now_ms: int) -> Iterator[CursorState]:
    """Yield every subscription, in the order of its topics in the survey."""
    not_read = survey.namespaces_not_read()
    for topic in np.unique(survey.cursors["topic"]).tolist():
        name, ledgers, rows = survey.topics[topic], survey.ledgers_of(topic), survey.cursors_of(topic)
        namespace, owner = namespace_of(name), survey.owners.of(name)
        going = _going_of(survey, topic, ledgers, defaults, now_ms)
        all_going, trimmed = going(None), going(slowest_of(rows))
        for at, row in enumerate(rows):
            mark = int(row["mark_ledger"]), int(row["mark_entry"])
            backlog, size = backlog_of(ledgers, mark)
            passed, freed = going(mark), going(slowest_of(np.delete(rows, at)))
            held = [one for one in all_going if one not in passed]
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
                tuple(ledgers.ids[held].tolist()),
                int(ledgers.sizes[[one for one in freed if one not in trimmed]].sum()),
                bool(row["cursors_ledger"] >= 0),
                bool(row["is_stale"]),
                namespace in not_read and not is_system_topic(name),
                owner,
                ledgers.last_end,
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
) -> Callable[[Slowest], dict[int, None]]:
    """Return what tells which rows of ledgers go, in their order, if all subscriptions have come to a position."""
    name = survey.topics[topic]
    rule, _ = retention_of(name, survey.policies.get(namespace_of(name)), defaults, survey.own_policies(name))
    is_terminated = survey.is_terminated(topic)
    has_current = keeps_its_last(survey.owners.of(name), ledgers.last_end, is_terminated=is_terminated)

    def going(slowest: Slowest) -> dict[int, None]:
        found = trim_of(ledgers, slowest, rule, now_ms, has_current=has_current).going if ledgers.ids.size else ()
        return dict.fromkeys(found)

    return going
