"""Ledgers for tasks: slices of the catalog's table. Each task gets only its rows, without a Python object for each ledger."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.bucket.partition_plan import COST_OF_LEDGER, DEFAULT_PARTITION_BYTES
from ledgerfs.catalog.catalog import Catalog
from ledgerfs.catalog.catalog_rows import Table, ref_of_row
from ledgerfs.catalog.ledger_ref import LedgerRef


@dataclass(frozen=True, slots=True)
class LedgerRows:
    """Consecutive ledgers of a catalog. The pickle has about 230 bytes for each ledger.

    Attributes
    ----------
    first_row
        Row of the first ledger in the catalog.
    ledgers
        Rows of `ledgerfs.catalog.catalog_rows.LEDGER`, whose ``name`` is a row of ``names``.
    names
        Managed ledgers of the rows.
    places
        Places of the catalog.

    """

    first_row: int
    ledgers: Table
    names: tuple[str | None, ...]
    places: tuple[str, ...]

    def refs(self) -> Iterator[tuple[int, LedgerRef]]:
        """Yield each ledger with its row in the whole catalog."""
        for row in range(self.ledgers.size):
            ledger = self.ledgers[row]
            yield (
                self.first_row + row,
                ref_of_row(ledger, self.names[int(ledger["name"])], self.places[int(ledger["place"])]),
            )


def ledger_parts(catalog: Catalog, costs: npt.NDArray[np.int64]) -> Iterator[LedgerRows]:
    """Split all ledgers of a catalog, with all copies, into parts of about `DEFAULT_PARTITION_BYTES`, the most expensive first.

    ``costs``, shape (ledgers,), is the cost of each ledger, in bytes that could be read in the same time.
    """
    ends = np.cumsum(costs)
    numbers = (ends - costs) // DEFAULT_PARTITION_BYTES
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if not starts.size:
        return
    stops = np.append(starts[1:], costs.size)
    # A large ledger that starts last would delay the whole job.
    for part in np.argsort(-np.add.reduceat(costs, starts), kind="stable").tolist():
        start, stop = int(starts[part]), int(stops[part])
        rows = catalog.ledgers[start:stop].copy()
        names, rows["name"] = np.unique(rows["name"], return_inverse=True)
        yield LedgerRows(start, rows, tuple(catalog.names[name] for name in names.tolist()), catalog.places)


def costs_of_reading(ledgers: Table) -> npt.NDArray[np.int64]:
    """Return the cost of reading each whole ledger."""
    costs: npt.NDArray[np.int64] = ledgers["stored"] + COST_OF_LEDGER
    return costs


def costs_of_opening(ledgers: Table) -> npt.NDArray[np.int64]:
    """Return the cost of opening each ledger."""
    return np.full(ledgers.size, COST_OF_LEDGER)
