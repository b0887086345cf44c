"""A second look at a cluster: what was suspected, then all that may own it, read anew.

In this order a ledger that is gone by then was trimmed, or is lost if its list still names it; and one that is there by then and is not
named afterwards is an orphan, since whoever made it has had the time between the looks to name it.
"""

import time

from ledgerfs.clusters.answered_nodes import answered
from ledgerfs.clusters.answers import BookieReads
from ledgerfs.clusters.ownership import COMPACTION
from ledgerfs.clusters.questions import Questions
from ledgerfs.clusters.survey import Survey
from ledgerfs.clusters.survey_builder import SurveyBuilder
from ledgerfs.clusters.surveying import EVERY, Progress
from ledgerfs.clusters.walk import BOOKIES, SCHEMAS_PART, TOPICS, Walk
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.bookkeeper.ledger_nodes import ledger_path
from ledgerfs.storage.zookeeper.living_cluster import LivingCluster


def look_again(
    cluster: LivingCluster,
    ledger_ids: Int64,
    bookies: BookieReads | None,
    progress: Progress,
    *,
    skips_denied: bool = False,
) -> Survey:
    """Return a survey of some ledgers alone, with all topics, subscriptions, schemas, and bookies; policies and owners of bundles are left.

    ``skips_denied`` and what is raised is as of `ledgerfs.clusters.surveying.survey_cluster`.
    """
    # Of a server that is behind, all that the second look shows may be as old as what the first one has shown.
    cluster.nodes.catch_up()
    path, began_ms = cluster.reading.ledgers_path, time.time_ns() // 1_000_000
    builder = SurveyBuilder(path)
    paths = (ledger_path(one, path) for one in ledger_ids.tolist())
    on_denied = builder.take_denied if skips_denied else None
    for _, node in answered(cluster.nodes.get_many, paths, on_denied):
        builder.take(node)
    walk = Walk(cluster.nodes, path, on_denied=on_denied)
    for part in (TOPICS, SCHEMAS_PART, BOOKIES):
        done = 0
        for done, node in enumerate(walk.part(part), 1):
            builder.take(node)
            if done % EVERY == 0:
                progress(f"reading {part} again", done, None)
        progress(f"reading {part} again", done, done)
    for answer in Questions(builder, cluster.nodes, bookies, path).cursors(COMPACTION):
        builder.answer(answer)
    return builder.survey(cluster.url, time.time_ns() // 1_000_000, began_ms)
