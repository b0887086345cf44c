"""The ledgers of a catalog that have the ids of objects without a partner, each of which may be another copy of one."""

from collections.abc import Iterator

import numpy as np

from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import is_sound
from ledgerfs.layouts.pulsar_blob.remains import remains_of


class SameIds:
    """These ledgers, by their ids; of every layout."""

    __slots__ = ("_by_id", "_ledgers")

    def __init__(self, catalog: Catalog) -> None:
        ledgers, self._ledgers = catalog.ledgers, catalog.ledgers
        left = np.array(list(remains_of(catalog).ledger_ids()), np.int64)
        ids = np.concatenate([catalog.lost["ledger_id"], left])
        self._by_id: dict[int, list[int]] = {}
        for row in np.flatnonzero(np.isin(ledgers["ledger_id"], ids)).tolist() if ids.size else []:
            self._by_id.setdefault(int(ledgers["ledger_id"][row]), []).append(row)

    @property
    def ids(self) -> list[int]:
        """The ids that there are ledgers of."""
        return list(self._by_id)

    def of_topic(self, ledger_id: int, name: int) -> np.void | None:
        """Return the copy of a ledger that is read; None where there is none."""
        rows = (self._ledgers[row] for row in self._by_id.get(ledger_id, ()))
        return next((row for row in rows if row["name"] == name and row["copy"] == 0), None)

    def sound(self, ledger_id: int) -> Iterator[np.void]:
        """Yield the complete ledgers of this id, of whatever topic."""
        rows = (self._ledgers[row] for row in self._by_id.get(ledger_id, ()))
        return (row for row in rows if is_sound(row))
