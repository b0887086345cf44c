"""Where in a ledger's data reading can begin: what is used of its index."""

import numpy as np

from ledgerfs.errors import CorruptIndexError
from ledgerfs.formats.array_types import Int64
from ledgerfs.formats.mapfile.index import MapFileIndex

APART = 1 << 20
"""Bytes between two positions that are used, at least: less is read as fast as a request is answered."""

MAX_INDEX_BYTES = 64 << 20
"""More than any index: it has two numbers, compressed, for 128 records or more."""


def cuts_of(index: MapFileIndex, last_entry: int, *, key: str | None = None) -> tuple[Int64, Int64]:
    """Return entries at which reading can begin, the first one 0, and the positions in the data from where a walk comes to each.

    The first position is 0, the start of the file. Raises `CorruptIndexError` for an index without entries, and for one of more entries
    than the ledger has.
    """
    if not len(index) or index.keys[-1] > last_entry:
        reason = "an index without entries" if not len(index) else f"key {index.keys[-1]}, the ledger has {last_entry}"
        raise CorruptIndexError(reason, key=key)
    chosen, at = [], 0
    while True:
        row = int(np.searchsorted(index.positions, at + APART))
        if row >= len(index):
            break
        at = int(index.positions[row])
        if index.keys[row] > 0:
            chosen.append(row)
    zero, rows = np.zeros(1, np.int64), np.array(chosen, np.int64)
    return np.concatenate([zero, index.keys[rows]]), np.concatenate([zero, index.positions[rows]])
