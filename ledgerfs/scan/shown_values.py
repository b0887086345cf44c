"""The value format of a scan with values as columns, for all decoders."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from ledgerfs.formats.array_types import Int64
from ledgerfs.scan.options import OnUndecodable

IDENTITY = ("ledger_id", "entry_id", "batch_index")
"""Columns that identify a message."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows whose values could not be decoded for one reason.

    Attributes
    ----------
    version
        The schema version in the messages; None for none.
    reason
        The reason, as text to append to the name of a message.
    rows
        Numbers of rows of the batch, ascending.
    is_error
        False for values without a schema: they are null, and not an error.

    """

    version: int | None
    reason: str
    rows: Int64
    is_error: bool = True


Decoding = Callable[[pa.RecordBatch], tuple[pa.Array, Sequence[Failure]]]
"""Returns the values of a batch with the needed columns, one per row, and the failures."""


class ValueSource(Protocol):
    """The decoder of values: schemas of a topic, or JSON."""

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        ...

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that values are decoded from."""
        ...

    @property
    def described(self) -> Mapping[str, Any]:
        """All that affects the columns of values, as JSON values: equal only for sources that make the same columns of the same values."""
        ...

    @property
    def learned_options(self) -> Mapping[str, Any]:
        """Arguments of `Topic.scan` that fix the inferred type (`learned`), so that no values are read to infer it again."""
        ...

    @property
    def awaits_values(self) -> bool:
        """Whether the type is unknown until `learned` has read the values."""
        ...

    def learned(
        self, batches: Iterable[pa.RecordBatch], rows: int | None, on_undecodable: OnUndecodable
    ) -> "ValueSource":
        """Return a source with the type of the values in some batches with the column ``value``: of the first ``rows``."""
        ...

    def decoding(self) -> Decoding:
        """Begin an iteration over batches."""
        ...


@dataclass(frozen=True, slots=True)
class ShownValues:
    """The value format of a scan.

    Attributes
    ----------
    source
        The decoder of values.
    flatten
        Whether the fields of a struct are columns beside the others.

    """

    source: ValueSource
    flatten: bool = False
    on_undecodable: OnUndecodable = "raise"

    @property
    def type(self) -> pa.DataType:
        """The type of the values."""
        return self.source.type

    @property
    def is_flat(self) -> bool:
        """Whether values are columns of their fields."""
        return self.flatten and pa.types.is_struct(self.type)

    @property
    def described(self) -> dict[str, Any]:
        """All that affects the columns of values, as JSON values."""
        return {**self.source.described, "flatten": self.flatten, "on_undecodable": self.on_undecodable}

    def learned(self, batches: Iterable[pa.RecordBatch], rows: int | None = None) -> "ShownValues":
        """Return the same with the type of the values in some batches with the column ``value``: of the first ``rows``, None for all.

        With ``on_undecodable="skip"`` values that are not JSON do not count.
        """
        return replace(self, source=self.source.learned(batches, rows, self.on_undecodable))

    def columns_for(self, wanted: Sequence[str]) -> tuple[str, ...]:
        """Return the columns to read for the requested ones."""
        needed = (*IDENTITY, *self.source.needed)
        return (*wanted, *(name for name in needed if name not in wanted))

    def columns_of(self, values: pa.Array) -> list[pa.Array]:
        """Return the columns of the values."""
        return list(values.flatten()) if self.is_flat else [values]
