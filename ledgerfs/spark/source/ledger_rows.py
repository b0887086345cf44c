"""Ledgers for tasks: slices of the catalog's table, so that each task gets its own part of it, and nobody a million objects."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ledgerfs.bucket.partition_plan import COST_OF_LEDGER, DEFAULT_PARTITION_BYTES
from ledgerfs.ledgers.catalog import Catalog
from ledgerfs.ledgers.catalog_rows import Table, ref_of_row
from ledgerfs.ledgers.ledger_ref import LedgerRef


@dataclass(frozen=True, slots=True)
class LedgerRows:
    """Ledgers that stand together in a catalog. Pickles to some 230 bytes a ledger.

    Attributes
    ----------
    first_row
        Row of the catalog that the first one has there.
    ledgers
        Rows of `ledgerfs.ledgers.catalog.LEDGER`, whose ``name`` is a row of ``names``.
    names
        The managed ledgers that they are of.
    places
        Those of the catalog.

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
    """Cut all ledgers of a catalog, all copies, to parts of about `DEFAULT_PARTITION_BYTES`; the dearest comes first.

    ``costs`` are what the work on each ledger costs, shape (ledgers,), in bytes that could be read meanwhile.
    """
    ends = np.cumsum(costs)
    numbers = (ends - costs) // DEFAULT_PARTITION_BYTES
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    if not starts.size:
        return
    stops = np.append(starts[1:], costs.size)
    # All would wait for a large ledger that begins last.
    for part in np.argsort(-np.add.reduceat(costs, starts), kind="stable").tolist():
        start, stop = int(starts[part]), int(stops[part])
        rows = catalog.ledgers[start:stop].copy()
        names, rows["name"] = np.unique(rows["name"], return_inverse=True)
        yield LedgerRows(start, rows, tuple(catalog.names[name] for name in names.tolist()), catalog.places)


def costs_of_reading(ledgers: Table) -> npt.NDArray[np.int64]:
    """Return what it costs to read each of some ledgers as a whole."""
    costs: npt.NDArray[np.int64] = ledgers["stored"] + COST_OF_LEDGER
    return costs


def costs_of_opening(ledgers: Table) -> npt.NDArray[np.int64]:
    """Return what it costs to look into each of some ledgers."""
    return np.full(ledgers.size, COST_OF_LEDGER)
