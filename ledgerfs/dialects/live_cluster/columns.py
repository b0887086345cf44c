"""The columns that ledgers of a living cluster have in a catalog besides those of all dialects."""

from enum import IntEnum

import numpy as np

from ledgerfs.ledgers.catalog_rows import OWN_BYTES, Table, own_columns

NUMBER = 2

HOT_CUT = 1 << 20
"""Bytes between entries at which reading begins at little cost: every entry does, of bookies; fewer are quicker to handle."""

COLD_CUT = 64 << 20
"""The same of an offloaded ledger, whose blocks have this size unless a broker was told another one."""

_MOST_CUTS = 1 << 20
"""More are nobody's need, and a damaged line of a list may tell of any number of bytes."""

IN_BOOKKEEPER, IN_BUCKET = "ledger", "data"
"""The roles of what stands for a ledger in the catalog: its node, or the object that alone has its entries."""


class Place(IntEnum):
    """Where a ledger was when the cluster was listed."""

    BOOKKEEPER = 0
    BUCKET = 1
    BOTH = 2


OWN = np.dtype([("where", "i1"), ("_", f"V{OWN_BYTES - 1}")])
"""What only this dialect knows of a ledger: its `Place`."""


def own_of(rows: Table) -> Table:
    """Return the dialect's own columns of its rows."""
    return own_columns(rows, OWN)


def pack_own(place: Place) -> bytes:
    """Return the dialect's own columns of a row."""
    return bytes([place]).ljust(OWN_BYTES, b"\0")


def place_in(own: bytes) -> Place:
    """Return where a ledger was."""
    return Place(own[0])


def entries_between_cuts(entries: int, length: int, place: Place) -> int:
    """Return how many entries of a ledger there are from one cut to the next."""
    size = max(COLD_CUT if place is Place.BUCKET else HOT_CUT, -(-length // _MOST_CUTS))
    return entries if length <= size else max(1, entries * size // length)
