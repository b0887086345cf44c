"""What the slowest subscription of each topic has not acknowledged, by the rule of `ledgerfs.clusters.cursors`."""

from typing import NamedTuple

from ledgerfs.clusters.answers import LastEnd
from ledgerfs.clusters.cursors import backlog_of
from ledgerfs.clusters.survey import Survey, TopicLedgers
from ledgerfs.formats.managed_ledgers.names import cursor_of


class Backlog(NamedTuple):
    """The durable subscriptions of a topic, and the most entries that one of them has not acknowledged; None if that is not known."""

    subscriptions: int
    entries: int | None


def backlogs(survey: Survey) -> dict[str, Backlog]:
    """Return {managed ledger: its backlog} of all topics that have subscriptions.

    It is not known if a subscription may be further than its node tells, or is at no position, if its node is damaged, or if nobody tells
    how many entries a ledger has.
    """
    damaged: dict[str, set[str]] = {}
    for one in survey.damaged:
        if (found := cursor_of(one.path)) is not None:
            damaged.setdefault(found[0], set()).add(found[1])
    made: dict[str, Backlog] = {}
    for topic, name in enumerate(survey.topics):
        rows = survey.cursors_of(topic)
        lost = damaged.get(name, set()) - {survey.cursor_names[one] for one in rows["name"].tolist()}
        subscriptions = rows.size + len(lost)
        if not subscriptions:
            continue
        ledgers = survey.ledgers_of(topic)
        if lost or rows["is_stale"].any() or (rows["mark_ledger"] < 0).any() or not _are_counted(ledgers):
            made[name] = Backlog(subscriptions, None)
            continue
        marks = zip(
            rows["mark_ledger"].tolist(), rows["mark_entry"].tolist(), rows["hole_entries"].tolist(), strict=True
        )
        left = (backlog_of(ledgers, (ledger, entry))[0] - holes for ledger, entry, holes in marks)
        made[name] = Backlog(subscriptions, max(0, *left))
    return made


def _are_counted(ledgers: TopicLedgers) -> bool:
    """Whether it is known how many entries each ledger has; brokers drop closed ones without any, so a line of 0 may be wrong."""
    is_end_known = not ledgers.ids.size or ledgers.last_end not in {LastEnd.UNKNOWN, LastEnd.GONE}
    return is_end_known and not (ledgers.entries[:-1] == 0).any()
