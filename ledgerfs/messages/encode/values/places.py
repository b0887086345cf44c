"""Position of an array in the rows, so that errors name column and row."""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from ledgerfs.errors import InvalidRowsError
from ledgerfs.formats.array_types import Int64, Mask


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an array.

    Attributes
    ----------
    name
        Names of fields as users see them, joined by points: ``value.address.street``.
    first_row
        The number of the first row.
    rows
        Row of each item of the array, counted from the first row; None where each row has one item.

    """

    name: str
    first_row: int = 0
    rows: Int64 | None = None

    def field(self, name: str) -> "Place":
        """Return the place of a field."""
        return Place(f"{self.name}.{name}" if self.name else name, self.first_row, self.rows)

    def items(self, name: str, counts: Int64) -> "Place":
        """Return the place of the items of lists; ``counts`` has the number of items of each."""
        rows = np.arange(counts.size) if self.rows is None else self.rows
        return Place(f"{name} of {self.name}", self.first_row, np.repeat(rows, counts))

    def fail(self, index: int, reason: str) -> NoReturn:
        """Raise `InvalidRowsError` for an item, for a reason that follows the name of the place: "is null, …"."""
        row = index if self.rows is None else int(self.rows[index])
        raise InvalidRowsError.of(self.first_row + row, f"its {self.name} {reason}")

    def refuse(self, bad: Mask, reason: str) -> None:
        """Fail for the first item that is bad, if there is one."""
        for index in np.flatnonzero(bad)[:1].tolist():
            self.fail(index, reason)

    def refuse_column(self, reason: str) -> NoReturn:
        """Raise `InvalidRowsError` for the whole column, whatever its rows contain."""
        raise InvalidRowsError(reason, key=self.name)
