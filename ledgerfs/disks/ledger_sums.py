"""How much of each ledger lies in some files: entries and bytes, each copy counted."""

from collections.abc import Sequence

import numpy as np

from ledgerfs.disks.scanning import ScannedFile


def ledgers_of_files(files: Sequence[ScannedFile]) -> list[tuple[int, int, int]]:
    """Return (ledger, entries, bytes with the 4 bytes of each size) of all ledgers in some files, ascending by ledger."""
    if not files:
        return []
    ledgers = np.concatenate([one.table.ledger_ids for one in files])
    entries = np.concatenate([one.table.counts for one in files])
    sizes = np.concatenate([one.table.stored for one in files])
    ids, rows = np.unique(ledgers, return_inverse=True)
    counts, sums = np.zeros(ids.size, np.int64), np.zeros(ids.size, np.int64)
    np.add.at(counts, rows, entries)
    np.add.at(sums, rows, sizes)
    return list(zip(ids.tolist(), counts.tolist(), sums.tolist(), strict=True))
