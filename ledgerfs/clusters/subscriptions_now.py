"""Where the subscriptions of one topic are at this moment, read anew: right before something is deleted that they may need.

A broker may set one back, or make one, without a change of the topic's list. Once no broker has the topic none moves any more, before a
broker that loads it has changed the list.
"""

import time
from dataclasses import dataclass

from ledgerfs.clusters.answers import BookieReads
from ledgerfs.clusters.questions import Questions
from ledgerfs.clusters.retention import slowest_of
from ledgerfs.clusters.survey_builder import SurveyBuilder
from ledgerfs.errors import LedgerfsError, ObjectNotFoundError
from ledgerfs.formats.managed_ledgers.names import managed_ledger_path
from ledgerfs.storage.zookeeper.nodes import NodeReader


@dataclass(frozen=True, slots=True)
class SubscriptionsNow:
    """The subscriptions of a topic.

    Attributes
    ----------
    slowest
        The least position up to which one of them has acknowledged all; None without any.
    unknown
        Why a place is not known; None if all are.

    """

    slowest: tuple[int, int] | None
    unknown: str | None = None

    def has_passed(self, ledger_id: int, entries: int) -> bool:
        """Whether all of them have acknowledged a whole ledger, which has so many entries, as `ledgerfs.clusters.retention` decides it."""
        if self.unknown is not None or self.slowest is None:
            return self.unknown is None
        at, entry = self.slowest
        return ledger_id < at or (ledger_id == at and entry + 1 == entries)


def subscriptions_now(
    nodes: NodeReader, ledgers_path: str, bookies: BookieReads | None, managed_ledger: str
) -> SubscriptionsNow:
    """Read the subscriptions of a topic; ``bookies`` None leaves unknown where those in use are. Raises the errors of ZooKeeper."""
    path, began_ms = managed_ledger_path(managed_ledger), time.time_ns() // 1_000_000
    builder = SurveyBuilder(ledgers_path)
    builder.take(nodes.get(path))
    for node in nodes.get_many(f"{path}/{name}" for name in nodes.children(path)):
        if isinstance(node, ObjectNotFoundError):
            # Whoever takes a subscription away has the topic.
            return SubscriptionsNow(None, f"subscriptions of {managed_ledger} change")
        if isinstance(node, LedgerfsError):
            raise node
        builder.take(node)
    for answer in Questions(builder, nodes, bookies, ledgers_path).cursors():
        builder.answer(answer)
    survey = builder.survey("", time.time_ns() // 1_000_000, began_ms)
    damaged = [one.path for one in survey.damaged if one.path != path]
    if damaged:
        return SubscriptionsNow(None, f"{damaged[0]} could not be read")
    stale = survey.cursors[survey.cursors["is_stale"]]
    if stale.size:
        return SubscriptionsNow(
            None, f"no bookie told where subscription {survey.cursor_names[int(stale['name'][0])]} is"
        )
    return SubscriptionsNow(slowest_of(survey.cursors))
