"""How a scan shows values that become columns, whatever they are decoded by."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from ledgerfs.formats.array_types import Int64
from ledgerfs.scan.options import OnUndecodable

IDENTITY = ("ledger_id", "entry_id", "batch_index")
"""Columns that a message is named by."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows whose values could not be decoded for one reason.

    Attributes
    ----------
    version
        The number of the schema that they name; None for none.
    reason
        Why, in words that follow the name of a message.
    rows
        Numbers of rows of the batch, ascending.
    is_error
        False for values that no schema is named for: they are null, and no error.

    """

    version: int | None
    reason: str
    rows: Int64
    is_error: bool = True


Decoding = Callable[[pa.RecordBatch], tuple[pa.Array, Sequence[Failure]]]
"""Returns the values of a batch that has the columns needed, a row each, and which of them could not be decoded."""


class ValueSource(Protocol):
    """What tells how values are decoded: schemas of a topic, or that they are JSON."""

    @property
    def type(self) -> pa.DataType:
        """What values become."""
        ...

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that values are decoded from."""
        ...

    @property
    def described(self) -> Mapping[str, Any]:
        """What decides how values become columns, as JSON values: equal only for what makes the same columns of the same values."""
        ...

    @property
    def learned_options(self) -> Mapping[str, Any]:
        """Arguments of `Topic.scan` in whose place others stand by what `learned` has seen: with them nothing is read for the type."""
        ...

    @property
    def awaits_values(self) -> bool:
        """Whether the type is not known before `learned` has seen the values."""
        ...

    def learned(
        self, batches: Iterable[pa.RecordBatch], rows: int | None, on_undecodable: OnUndecodable
    ) -> "ValueSource":
        """Return a source whose type is that of the values of some batches with the column ``value``: of the first ``rows``."""
        ...

    def decoding(self) -> Decoding:
        """Begin an iteration over batches."""
        ...


@dataclass(frozen=True, slots=True)
class ShownValues:
    """How a scan shows values.

    Attributes
    ----------
    source
        What decodes them.
    flatten
        Whether the fields of a struct are columns beside the others.

    """

    source: ValueSource
    flatten: bool = False
    on_undecodable: OnUndecodable = "raise"

    @property
    def type(self) -> pa.DataType:
        """What values become."""
        return self.source.type

    @property
    def is_flat(self) -> bool:
        """Whether values are columns of their fields."""
        return self.flatten and pa.types.is_struct(self.type)

    @property
    def described(self) -> dict[str, Any]:
        """What decides how values become columns, as JSON values."""
        return {**self.source.described, "flatten": self.flatten, "on_undecodable": self.on_undecodable}

    def learned(self, batches: Iterable[pa.RecordBatch], rows: int | None = None) -> "ShownValues":
        """Return the same with the type of the values of some batches with the column ``value``: of the first ``rows``, None for all.

        With ``on_undecodable="skip"`` values that are not JSON do not count.
        """
        return replace(self, source=self.source.learned(batches, rows, self.on_undecodable))

    def columns_for(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the columns that have to be read for those that are wanted."""
        needed = (*IDENTITY, *self.source.needed)
        return (*wanted, *(name for name in needed if name not in wanted))

    def columns_of(self, values: pa.Array) -> list[pa.Array]:
        """Return the columns that values become."""
        return list(values.flatten()) if self.is_flat else [values]
