"""Columns of the catalog that only this layout has, and rows of listed objects."""

from struct import Struct

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import OWN_BYTES, VERSION_BYTES, Table, kept_version, own_columns
from ledgerfs.catalog.ledger_ref import CatalogState
from ledgerfs.formats.pulsar_blob.object_names import LedgerKey
from ledgerfs.formats.uuid_halves import uuid_from_halves, uuid_halves
from ledgerfs.storage.objects import ObjectStat

NUMBER = 0

KEY_COLUMNS = [("uuid_high", "u8"), ("uuid_low", "u8"), ("ledger_id", "i8")]

LISTED = np.dtype([*KEY_COLUMNS, ("size", "i8"), ("modified_ms", "i8"), ("version", f"S{VERSION_BYTES}")])
"""Row of a listing: one data or index object."""

UNASKED = -2

ORPHAN = np.dtype(
    [
        *LISTED.descr,
        # Row of Catalog.names, by user metadata; UNKNOWN without such metadata, UNASKED if the store did not answer.
        ("name", "i4"),
        ("is_of_job", "?"),  # written by a job that publishes several ledgers together
        ("has_copy", "?"),  # a complete ledger of this id has the same size and first bytes
        # The ledger that was last compared with it: its uuid, 0 for none, and the version of its data object.
        ("near_high", "u8"),
        ("near_low", "u8"),
        ("near_version", f"S{VERSION_BYTES}"),
    ]
)
"""Row of a catalog: a data object without an index."""

OWN = np.dtype(
    [
        ("data_modified_ms", "<i8"),
        ("index_size", "<i8"),
        ("data_version", f"S{VERSION_BYTES}"),
        ("index_version", f"S{VERSION_BYTES}"),
        ("plausible", "?"),  # OffloadIndex.is_plausible
        ("odd_index", "?"),  # the index object has another length than its header says
    ]
)
"""The layout's own columns of a ledger."""

OWN_STRUCT = Struct(f"<qq{VERSION_BYTES}s{VERSION_BYTES}s??")


def own_of(rows: Table) -> Table:
    """Return the layout's own columns of its rows."""
    return own_columns(rows, OWN)


def pack_own(index_size: int, index_version: bytes, *, is_plausible: bool, is_odd: bool) -> bytes:
    """Return the layout's own columns of a row whose data object is not known yet."""
    return OWN_STRUCT.pack(0, index_size, b"", index_version, is_plausible, is_odd).ljust(OWN_BYTES, b"\0")


def rows_of(catalog: Catalog) -> Table:
    """Return this layout's rows of a catalog, lost ledgers last."""
    rows: Table = np.concatenate([catalog.ledgers, catalog.lost])
    own: Table = rows[rows["layout"] == NUMBER]
    return own


def set_states(rows: Table) -> None:
    """Set the state of each ledger, by its index and the listing."""
    agrees = own_of(rows)["plausible"] & (rows["stored"] == rows["expected"])
    rows["state"] = np.where(agrees, CatalogState.SOUND, CatalogState.DAMAGED)
    rows["state"][rows["stored"] < 0] = CatalogState.LOST


def key_of(row: np.void) -> LedgerKey:
    """Return the names of the objects of a row of `LEDGER` or `LISTED`."""
    return LedgerKey(
        uuid_from_halves(int(row["uuid_high"]), int(row["uuid_low"])), int(row["ledger_id"]), is_index=False
    )


def keys_of(rows: Table) -> list[LedgerKey]:
    """Return the names of the objects of many rows."""
    columns = (rows[name].tolist() for name, _ in KEY_COLUMNS)
    return [
        LedgerKey(uuid_from_halves(high, low), ledger, is_index=False)
        for high, low, ledger in zip(*columns, strict=True)
    ]


def listed_row(key: LedgerKey, stat: ObjectStat) -> tuple[int, int, int, int, int, bytes]:
    """Return the row of `LISTED` for one object."""
    return (*uuid_halves(key.uuid), key.ledger_id, stat.size, stat.modified_ms, kept_version(stat))


def match_rows(left: Table, right: Table) -> npt.NDArray[np.int64]:
    """Return for each row of ``left`` the row of ``right`` with the same uuid and ledger id, or -1; keys are unique on each side."""
    high, low, ledger = (np.concatenate([left[name], right[name]]) for name, _ in KEY_COLUMNS)
    side = np.repeat([0, 1], [left.size, right.size])
    order = np.lexsort((side, ledger, low, high))
    first, second = order[:-1], order[1:]
    same = (high[first] == high[second]) & (low[first] == low[second]) & (ledger[first] == ledger[second])
    pair = same & (side[first] == 0) & (side[second] == 1)
    matches = np.full(left.size, -1, np.int64)
    matches[first[pair]] = second[pair] - left.size
    return matches
