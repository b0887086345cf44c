"""What of each topic of a living cluster is offloaded: its cold half, while the rest is hot.

Here so that rooms that know no dialect can ask.
"""

import numpy as np

from ledgerfs.dialects.live_cluster.columns import NUMBER, Place, own_of
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.missing_ledgers import GAP
from ledgerfs.ledgers.topic_infos import TopicInfo, topic_infos


def offloaded_parts(catalog: Catalog) -> dict[str | None, TopicInfo]:
    """Return {managed ledger: its ledgers that are offloaded, also those that BookKeeper still has}, without topics that have none."""
    ledgers = catalog.ledgers
    is_cold = (ledgers["dialect"] == NUMBER) & (own_of(ledgers)["where"] != Place.BOOKKEEPER)
    found = topic_infos(catalog.names, ledgers[is_cold], np.empty(0, GAP))
    return {one.managed_ledger: one for one in found}
