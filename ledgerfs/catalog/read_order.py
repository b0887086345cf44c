"""The order in which the ledgers of a topic are read: by their ids, also those that were made of others under new ones.

A ledger that `offload --unbatch` made has to be read where the one would be that it was made of: otherwise a transaction may end before it
begins, and a chunked message lacks its first part.
"""

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.ledger_ref import LedgerRef

FIRST_OWN_ID = 2**52
END_OF_OWN_IDS = 2**53
"""The ids that ledgerfs chooses itself (`ledgerfs.writing.own_ids`)."""


def is_own_id(ledger_id: int) -> bool:
    """Whether an id is in the range that no cluster hands out."""
    return FIRST_OWN_ID <= ledger_id < END_OF_OWN_IDS


def out_of_order(catalog: Catalog, managed_ledger: str | None, ledger_id: int, root_id: int) -> LedgerRef | None:
    """Return a ledger of the topic on whose wrong side one of this id, made of ``root_id``, is read; None without any.

    ``root_id`` is its own id if it was made of none: then it is compared with those that were. Rows that were imported, under ids of
    ledgerfs' own, come when they come.
    """
    is_made = ledger_id != root_id
    if not is_made and is_own_id(ledger_id):
        return None
    table = catalog.table_of(managed_ledger)
    ids, are_made = table["ledger_id"], table["origin_entries"] > 0
    roots = np.where(are_made, table["origin_id"], ids)
    others = are_made | (ids < FIRST_OWN_ID) if is_made else are_made
    wrong = np.flatnonzero(others & (roots != root_id) & ((ids < ledger_id) != (roots < root_id)))
    return catalog.ref_of(table[wrong[0]]) if wrong.size else None
