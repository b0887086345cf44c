"""The columns of a snapshot: one row per ledger, cursor or schema, so that a million of them need little memory."""

from collections.abc import Hashable, Iterable
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

Table = npt.NDArray[Any]
"""A structured array."""

LISTED = np.dtype(
    [
        ("topic", "i4"),
        ("ledger_id", "i8"),
        ("entries", "i8"),
        ("size", "i8"),
        ("closed_ms", "i8"),
        ("has_context", "?"),
        ("is_complete", "?"),
        ("is_deleted_from_bookkeeper", "?"),
        ("offloaded_ms", "i8"),
        ("uuid_high", "u8"),
        ("uuid_low", "u8"),
        ("driver", "i4"),
    ]
)
"""A listed ledger; ``driver`` is a row of `Survey.drivers`, -1 for none; times are ms since 1970 UTC, 0 if unknown."""

TOPIC = np.dtype(
    [
        ("first", "i8"),
        ("ledgers", "i4"),
        ("version", "i4"),
        ("created_ms", "i8"),
        ("changed_ms", "i8"),
        ("terminated_ledger", "i8"),
        ("last_end", "i1"),
        ("last_entries", "i8"),
        ("last_size", "i8"),
        ("first_cursor", "i8"),
        ("cursors", "i4"),
    ]
)
"""A topic: ranges of its rows in `LISTED` and `CURSOR`, creation and last change of its list, and the source of its last ledger's end
(`LastEnd`)."""

CURSOR = np.dtype(
    [
        ("topic", "i4"),
        ("name", "i4"),
        ("mark_ledger", "i8"),
        ("mark_entry", "i8"),
        ("holes", "i4"),
        ("hole_entries", "i8"),
        ("last_active_ms", "i8"),
        ("changed_ms", "i8"),
        ("cursors_ledger", "i8"),
        ("compacted_ledger", "i8"),
        ("is_stale", "?"),
    ]
)
"""A subscription; ``name`` is a row of `Survey.cursor_names`; missing ids are -1. ``is_stale``: it may be further than shown here."""

LEDGER = np.dtype(
    [
        ("ledger_id", "i8"),
        ("state", "i1"),
        ("length", "i8"),
        ("last_entry", "i8"),
        ("created_ms", "i8"),
        ("changed_ms", "i8"),
        ("version", "i4"),
        ("write_quorum", "i4"),
        ("application", "i4"),
        ("component", "i4"),
        ("owner", "i4"),
        ("cursor", "i4"),
    ]
)
"""A ledger's node with creation and change time; the last four columns are rows of `Survey.words`, -1 for none."""

FRAGMENT = np.dtype([("ledger_id", "i8"), ("first_entry", "i8"), ("first_member", "i8"), ("size", "i4")])
"""The bookies of a ledger's entries from ``first_entry`` on: ``size`` rows of `MEMBER` in the order of the ensemble."""

MEMBER = np.dtype([("bookie", "i4")])
"""A bookie of an ensemble, a row of `Survey.bookie_names`."""

SCHEMA = np.dtype([("name", "i4"), ("version", "i8"), ("ledger_id", "i8"), ("entry_id", "i8"), ("changed_ms", "i8")])
"""A schema version in a locator, and the locator's last change; ``name`` is a row of `Survey.words`."""

DELAYED = np.dtype([("topic", "i4"), ("name", "i4"), ("ledger_id", "i8"), ("changed_ms", "i8")])
"""A bucket of a subscription's delayed messages, and the last change of the subscription's node; ``name`` is a row of
`Survey.cursor_names`."""

_ROWS_AT_ONCE = 8192


def parts_by(rows: Table, keys: npt.NDArray[Any]) -> list[Table]:
    """Return the rows of each key, by ascending keys, otherwise in order; cheap for many keys, too. ``keys``: shape (rows,)."""
    if not rows.size:
        return []
    order = np.argsort(keys, kind="stable")
    return np.split(rows[order], np.flatnonzero(np.diff(keys[order])) + 1)


class GrowingTable:
    """Rows in the order of arrival; packs them so that few are Python objects."""

    __slots__ = ("_dtype", "_parts", "_rows", "_size")

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._rows: list[tuple[Any, ...]] = []
        self._parts: list[Table] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def append(self, row: tuple[Any, ...]) -> None:
        """Add a row."""
        self._rows.append(row)
        self._size += 1
        if len(self._rows) == _ROWS_AT_ONCE:
            self._pack()

    def extend(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows."""
        for row in rows:
            self.append(row)

    def table(self) -> Table:
        """Return all rows so far."""
        if self._rows or not self._parts:
            self._pack()
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    def _pack(self) -> None:
        self._parts.append(np.array(self._rows, self._dtype))
        self._rows = []


Value = TypeVar("Value", bound=Hashable)


class Interned(Generic[Value]):
    """Values that are often equal; stores each once, and refers to it by its row."""

    __slots__ = ("_rows", "values")

    def __init__(self) -> None:
        self.values: list[Value] = []
        self._rows: dict[Value, int] = {}

    def row_of(self, value: Value | None) -> int:
        """Return the row of a value, which is added if it is new; -1 for None."""
        if value is None:
            return -1
        row = self._rows.setdefault(value, len(self.values))
        if row == len(self.values):
            self.values.append(value)
        return row
