"""The columns of a catalog that only ledgers in MapFiles have."""

from enum import IntEnum
from struct import Struct

import numpy as np

from ledgerfs.catalog.catalog_rows import OWN_BYTES, VERSION_BYTES, Table, kept_version, own_columns
from ledgerfs.storage.objects import ObjectStat

NUMBER = 1


class IndexState(IntEnum):
    """State of a ledger's index."""

    GOOD = 0
    MISSING = 1
    WRONG = 2
    """It is not an index, or contradicts the data: it is not used."""
    UNREAD = 3
    """The store refused access to it."""


OWN = np.dtype(
    [
        ("index_size", "<i8"),  # -1: there is none
        ("index_modified_ms", "<i8"),
        ("data_version", f"S{VERSION_BYTES}"),
        ("index_version", f"S{VERSION_BYTES}"),
        ("index_state", "i1"),
        ("is_named", "?"),  # the metadata has the managed ledger's name
        ("_", f"V{OWN_BYTES - 146}"),
    ]
)
"""Columns that only this layout has."""

OWN_STRUCT = Struct(f"<qq{VERSION_BYTES}s{VERSION_BYTES}sb?")


def own_of(rows: Table) -> Table:
    """Return the layout's own columns of its rows."""
    return own_columns(rows, OWN)


def pack_own(data: ObjectStat, index: ObjectStat | None, state: IndexState, *, is_named: bool) -> bytes:
    """Return the layout's own columns of a row."""
    size, modified_ms, version = (-1, 0, b"") if index is None else (index.size, index.modified_ms, kept_version(index))
    return OWN_STRUCT.pack(size, modified_ms, kept_version(data), version, state, is_named).ljust(OWN_BYTES, b"\0")
