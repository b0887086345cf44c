"""Entries whose ids are known elsewhere in a cluster, so that no transform may give the entries of their ledger other ids.

Markers tell of ids: those of replicated subscriptions of positions in this topic and in other clusters, those of transactions end messages
that come before them. Where the messages of a transaction are is kept beside the topic, too.
"""

import numpy as np

from ledgerfs.errors import RefusedLedgerError
from ledgerfs.formats.records import EntryBatch
from ledgerfs.messages.decode.metadata_walk import Meta, walk_metadata
from ledgerfs.messages.kernels.wire import ABSENT


def require_unknown_ids(batch: EntryBatch) -> None:
    """Raise `RefusedLedgerError` for the first entry that is a marker, or a message of a transaction."""
    entries = walk_metadata(batch)
    is_marker = entries[Meta.MARKER] != ABSENT
    is_of_transaction = (entries[Meta.TRANSACTION_LEAST] != ABSENT) | (entries[Meta.TRANSACTION_MOST] != ABSENT)
    rows = np.flatnonzero(is_marker | is_of_transaction)
    if rows.size:
        first = int(rows[0])
        what = "a marker of brokers" if is_marker[first] else "of a transaction"
        reason = f"entry {batch.id_of(first)} is {what}: others know ids of this ledger, so its batches cannot be split"
        raise RefusedLedgerError(reason)
