"""What hints at other Pulsar clusters on the same BookKeeper, whose ledgers look like orphans here: a pure function over a survey.

Ledgers name topics, and no cluster, so nothing tells for sure. A cluster whose metadata are on other servers of ZooKeeper leaves no trace
but its topics.
"""

import numpy as np

from ledgerfs.clusters.orphans import known_topics
from ledgerfs.clusters.ownership import MANAGED_LEDGER, Claims
from ledgerfs.clusters.survey import Survey
from ledgerfs.formats.bookkeeper.ledger_nodes import LedgerState

_OWN_PATH = "/ledgers"
"""Where BookKeeper keeps its metadata beside those of the one cluster that it was set up with."""


def signs_of_sharing(survey: Survey) -> list[str]:
    """Return a sentence for each sign; none is no proof that BookKeeper is this cluster's alone."""
    signs = []
    if survey.ledgers_path != _OWN_PATH:
        signs.append(f"BookKeeper keeps its metadata in {survey.ledgers_path}, as one that several clusters use may do")
    if survey.neighbours:
        signs.append(f"ZooKeeper has the metadata of other Pulsar clusters in {', '.join(survey.neighbours)}")
    strangers = _open_ledgers_of_others(survey)
    if strangers:
        signs.append(f"{strangers:,} ledgers that are not closed are of topics that this cluster does not have")
    return signs


def _open_ledgers_of_others(survey: Survey) -> int:
    """Return how many ledgers without an end were made for topics that are not here."""
    words = survey.words
    if MANAGED_LEDGER not in words:
        return 0
    ledgers = survey.ledgers
    is_open = (ledgers["state"] != LedgerState.CLOSED) & (ledgers["component"] == words.index(MANAGED_LEDGER))
    owners, counts = np.unique(ledgers["owner"][is_open & (ledgers["owner"] >= 0)], return_counts=True)
    # A list that cannot be read is that of a topic which is here.
    known = known_topics(survey) | Claims(survey).damaged_topics
    return sum(
        count for owner, count in zip(owners.tolist(), counts.tolist(), strict=True) if words[owner] not in known
    )
