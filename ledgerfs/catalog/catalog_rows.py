"""Rows of ledgers: common columns, and room for a layout's own columns.

A million ledgers are one numpy table of some 260 bytes a row, not a million objects.
"""

from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ledgerfs.catalog.layouts_known import layout_rows
from ledgerfs.catalog.ledger_ref import CatalogState, LedgerRef
from ledgerfs.formats.origin import Origin
from ledgerfs.formats.uuid_halves import uuid_from_halves
from ledgerfs.storage.objects import ObjectStat

Table = npt.NDArray[np.void]

OWN_BYTES = 146
"""Room for a layout's own columns: two versions of objects, and some numbers."""

VERSION_BYTES = 64
"""Longer than the ETags of all known stores; a longer one is omitted, and reads do not check it."""

LEDGER = np.dtype(
    [
        ("uuid_high", "u8"),
        ("uuid_low", "u8"),
        ("ledger_id", "i8"),
        ("name", "i4"),  # row of Catalog.names
        ("place", "i4"),  # row of Catalog.places
        ("copy", "i4"),  # 0: the one to read; 1, 2, …: further complete copies, then damaged ones
        ("layout", "i1"),
        ("state", "i1"),  # CatalogState
        ("ordered", "?"),  # written by a broker, so its entries are nearly in the order of their times
        ("first_entry", "i8"),
        ("last_entry", "i8"),
        ("length", "i8"),
        ("stored", "i8"),
        ("expected", "i8"),
        ("cuts", "i4"),
        ("created_ms", "i8"),  # 0: unknown
        ("changed_ms", "i8"),
        # The ledger that it was made of (`Origin`): its id, its number of entries (0 without such a ledger), and its bytes.
        ("origin_id", "i8"),
        ("origin_entries", "u4"),
        ("origin_length", "i8"),
        ("open", "?"),  # not yet closed when it was listed
        ("own", f"V{OWN_BYTES}"),
    ]
)
"""A ledger: row of a catalog. `LedgerRef` describes the columns."""

NO_UUID = uuid_from_halves(0, 0)
"""The uuid column of a ledger without one."""


def kept_version(stat: ObjectStat) -> bytes:
    """Return an object's version as a column."""
    version = stat.version.encode()
    return version if len(version) <= VERSION_BYTES else b""


def version_of(kept: bytes) -> str:
    """Return the version of a column that `kept_version` returned."""
    return kept.rstrip(b"\0").decode()


def own_columns(rows: Table, own: np.dtype[np.void]) -> Table:
    """Return a layout's own columns of its rows, as a writable view over all of ``own``."""
    found: Table = rows["own"].view(own)
    return found


def ref_of_row(row: np.void, managed_ledger: str | None, place: str) -> LedgerRef:
    """Return the `LedgerRef` of one row of `LEDGER`, given its name and its place in the bucket."""
    # All fields at once, since single fields would create numpy objects.
    values = cast("tuple[Any, ...]", row.item())
    high, low, ledger_id, _, _, copy, layout, state, ordered, first, last, length, stored, expected, cuts, *rest = (
        values
    )
    created_ms, changed_ms, origin_id, origin_entries, origin_length, is_open, own = rest
    return LedgerRef(
        layout=layout,
        ledger_id=ledger_id,
        uuid=uuid_from_halves(high, low),
        managed_ledger=managed_ledger,
        copy=copy,
        first_entry=first,
        last_entry=last,
        length=length,
        stored=stored,
        expected=expected,
        cuts=cuts,
        created_ms=created_ms or None,
        changed_ms=changed_ms,
        state=CatalogState(state),
        is_ordered=bool(ordered),
        objects=layout_rows(layout).objects_of(values, bytes(own), managed_ledger, place),
        origin=Origin(origin_id, origin_entries - 1, origin_length) if origin_entries else None,
        is_open=bool(is_open),
    )


def origin_columns(origin: Origin | None) -> tuple[int, int, int]:
    """Return the columns ``origin_id``, ``origin_entries`` and ``origin_length``."""
    return (0, 0, 0) if origin is None else (origin.ledger_id, origin.last_entry + 1, origin.length)


def is_sound(rows: Table | np.void) -> npt.NDArray[np.bool_]:
    """Return whether rows of `LEDGER` are sound."""
    sound: npt.NDArray[np.bool_] = rows["state"] == CatalogState.SOUND
    return sound


def agree(left: Table | np.void, right: Table | np.void) -> npt.NDArray[np.bool_]:
    """Return whether rows of `LEDGER` agree, as `LedgerRef.agrees_with`."""
    one, other = left["created_ms"], right["created_ms"]
    same: npt.NDArray[np.bool_] = (
        (left["last_entry"] == right["last_entry"])
        & (left["length"] == right["length"])
        & ((one == other) | (one == 0) | (other == 0))
    )
    return same


def ranked(table: Table) -> Table:
    """Sort by name and ledger id, and number the copies of each ledger: complete ones first, newest first."""
    keys = (
        table["uuid_low"],
        table["uuid_high"],
        -table["changed_ms"],
        ~is_sound(table),
        table["ledger_id"],
        table["name"],
    )
    table = table[np.lexsort(keys)]
    if table.size:
        begins = np.append(True, (np.diff(table["ledger_id"]) != 0) | (np.diff(table["name"]) != 0))
        starts = np.flatnonzero(begins)
        table["copy"] = np.arange(table.size) - np.repeat(starts, np.diff(np.append(starts, table.size)))
    return table
