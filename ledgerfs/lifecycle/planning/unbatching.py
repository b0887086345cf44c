"""Ledgers whose batches must not be split: somebody knows ids in them, as far as a survey tells.

What it does not tell (transactions, delayed messages, replicated subscriptions) is looked at before a ledger is copied, and again before
the copy is completed, by `ledgerfs.offload.known_positions`.
"""

from ledgerfs.clusters.answers import LastEnd
from ledgerfs.clusters.bundles import Owner
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.tables import Table
from ledgerfs.lifecycle.planning.actions import Reason, Refusal
from ledgerfs.lifecycle.planning.routes import Route, direct_route, route_of
from ledgerfs.lifecycle.planning.topic_views import ClusterView, TopicView
from ledgerfs.offload.known_positions import COMPACTION, is_of_broker

COST = (
    "batches are split: messages get other ids, at which nobody finds them who has kept the ones they have, and BookKeeper's copy goes "
    "after the trash grace"
)


def unbatching_route(cluster: ClusterView, topic: TopicView) -> Route:
    """Return who offloads a topic whose batches are to be split: this program, or nobody for now."""
    if topic.owner is Owner.SOME:
        return Reason(Refusal.OWNED, "a broker owns its bundle; batches are split once none does")
    # Only a change that loading the topic makes tells of a broker that comes.
    route = direct_route(cluster, topic, deletes=True)
    return route if isinstance(route, Reason) else route_of(cluster, topic, has_admin=False, deletes=True)


def why_not_split(cluster: ClusterView, topic: TopicView, ledger_id: int) -> str | None:
    """Return why a ledger's messages have to keep their ids; None if nothing in a survey tells that."""
    if topic.ledgers.last_end is not LastEnd.CLOSED:
        return f"its topic's last ledger, {topic.greatest}, is not closed: the broker that had it may come back"
    if topic.damaged_cursors:
        return f"the node of subscription {min(topic.damaged_cursors)} could not be read"
    for row in cluster.survey.cursors_of(topic.row):
        why = _why_known(cluster.survey, row, ledger_id)
        if why is not None:
            return why
    return None


def _why_known(survey: Survey, row: Table, ledger_id: int) -> str | None:
    """Return why a cursor, a row of `CURSOR`, knows ids of a ledger; None if it does not."""
    name, mark, why = survey.cursor_names[int(row["name"])], int(row["mark_ledger"]), None
    if name == COMPACTION:
        why = "its topic is compacted"
    elif row["cursors_ledger"] >= 0:
        why = f"subscription {name} is kept in ledger {row['cursors_ledger']}, to which a broker may still write"
    elif mark > ledger_id:
        why = None
    elif is_of_broker(name):
        why = f"{name}, which brokers keep, has not passed it"
    elif mark == ledger_id and row["mark_entry"] >= 0:
        why = f"subscription {name} is in it, or at its end: at {mark}:{row['mark_entry']}"
    elif row["hole_ranges"] >= 0 and (survey.holes[int(row["hole_ranges"])][:, 0] == ledger_id).any():
        why = f"subscription {name} has acknowledged some of its messages"
    return why
