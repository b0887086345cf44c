"""The columns that ledgers on disks have in a catalog besides those of all dialects."""

from struct import Struct

import numpy as np

from ledgerfs.formats.ledger_metadata import DigestType
from ledgerfs.ledgers.catalog_rows import OWN_BYTES, Table, own_columns

NUMBER = 3

CUT_BYTES = 8 << 20
"""Bytes between entries at which reading begins at little cost: every entry does; fewer are quicker to handle."""

_MOST_CUTS = 1 << 20

ROLE = "ledger"
"""The role of what stands for a ledger in the catalog."""

OWN = np.dtype([("digest", "i1"), ("newest", "<i8"), ("_", f"V{OWN_BYTES - 9}")])
"""What only this dialect knows of a ledger: its `DigestType`, and the greatest id of an entry that is there, which may be behind the end
of a ledger that is not closed."""

_OWN_STRUCT = Struct("<bq")


def own_of(rows: Table) -> Table:
    """Return the dialect's own columns of its rows."""
    return own_columns(rows, OWN)


def pack_own(digest: DigestType, newest: int) -> bytes:
    """Return the dialect's own columns of a row."""
    return _OWN_STRUCT.pack(digest, newest).ljust(OWN_BYTES, b"\0")


def entries_between_cuts(entries: int, length: int) -> int:
    """Return how many entries of a ledger there are from one cut to the next."""
    size = max(CUT_BYTES, -(-length // _MOST_CUTS))
    return entries if length <= size else max(1, entries * size // length)
